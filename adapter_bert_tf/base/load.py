"""From any BERT to an encoder."""

import difflib
import os

from adapter_bert_tf.base.base import Base, digest_of
from adapter_bert_tf.base.checkpoint import find_checkpoint, is_checkpoint, read_checkpoint_base
from adapter_bert_tf.base.hub import is_hub_model, read_hub_base
from adapter_bert_tf.base.hugging_face import is_hugging_face_folder, read_hugging_face_base
from adapter_bert_tf.base.presets import HUB_PRESETS, MINILM, PRESETS, find_minilm
from adapter_bert_tf.encoder.adapter_config import AdapterConfig
from adapter_bert_tf.encoder.encoder import AdapterBertEncoder
from adapter_bert_tf.encoder.variables import is_adapter, variables_by_path
from adapter_bert_tf.errors import UserError, some


def load_encoder(
    bert: str | os.PathLike,
    adapter: AdapterConfig | None = AdapterConfig(),
    *,
    config_file: str | None = None,
    vocab_file: str | None = None,
    lower_case: bool | None = None,
) -> AdapterBertEncoder:
    """Loads a BERT, with new adapters in it.

    A checkpoint that holds adapters, as the original program saves them, sets those too.

    Args:
      bert: A folder with Google's, Hugging Face's or Model Garden's files, the prefix of a
        checkpoint, a TF-Hub handle or SavedModel, or the name of a preset.
      adapter: The adapters' design, or None for the plain base.
      config_file: A `bert_config.json` that is not beside the checkpoint.
      vocab_file: A `vocab.txt` that is not beside the weights.
      lower_case: Whether text is lower-cased; by default as the base's files say.

    Returns:
      The encoder. Its attribute `base` says where it came from and holds the vocabulary.

    Example:
      `load_encoder("minilm", adapter=AdapterConfig(size=64))`
    """
    return make_encoder(find_base(os.fspath(bert), config_file, vocab_file, lower_case), adapter)


def make_encoder(base: Base, adapter: AdapterConfig | None) -> AdapterBertEncoder:
    """Reads a base into an encoder, with new adapters in it."""
    encoder = AdapterBertEncoder(adapter=adapter, **base.config.encoder_arguments())
    encoder.ensure_built()
    _set_variables(encoder, base)
    encoder.base = base
    return encoder


def find_base(
    bert: str,
    config_file: str | None = None,
    vocab_file: str | None = None,
    lower_case: bool | None = None,
) -> Base:
    """Finds out what kind of BERT `bert` names, and opens it."""
    if config_file and not is_checkpoint(bert) and not find_checkpoint(bert):
        raise UserError(f"{config_file}: goes with a checkpoint only, and {bert} is none")
    if bert == MINILM:
        return read_hugging_face_base(find_minilm(), vocab_file, lower_case)
    if is_hub_model(bert) or bert in HUB_PRESETS:
        return read_hub_base(HUB_PRESETS.get(bert, bert), vocab_file, lower_case)
    checkpoint = bert if is_checkpoint(bert) else find_checkpoint(bert)
    if checkpoint:
        return read_checkpoint_base(checkpoint, config_file, vocab_file, lower_case)
    if is_hugging_face_folder(bert):
        return read_hugging_face_base(bert, vocab_file, lower_case)
    raise UserError(_not_found(bert))


def _not_found(bert: str) -> str:
    if os.path.isdir(bert):
        return f"{bert}: holds no BERT: expected bert_model.ckpt.*, config.json or saved_model.pb"
    near = difflib.get_close_matches(bert, PRESETS, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"presets are {', '.join(PRESETS)}"
    return f"{bert}: no such folder, checkpoint or preset; {hint}"


def _check_design(adapter: AdapterConfig, base: Base) -> None:
    """Adapters in a checkpoint are the original program's, which knows one design."""
    original = AdapterConfig(adapter.size, sites=adapter.sites, layers=adapter.layers)
    for field in adapter.differences(original, base.config.num_layers):
        raise UserError(
            f"{base.origin}: holds adapters with {field}={getattr(original, field)}, "
            f"not {getattr(adapter, field)}"
        )


def _set_variables(encoder: AdapterBertEncoder, base: Base) -> None:
    """Sets every base variable exactly once, and the adapters if the base has some."""
    unset = variables_by_path(encoder)
    left_over, wrong = [], []
    has_adapters = False
    for path, array in base.read():
        has_adapters = has_adapters or is_adapter(path)
        variable = unset.pop(path, None)
        if variable is None:
            left_over.append(path)
        elif variable.shape != array.shape:
            wrong.append(f"{path} {list(array.shape)} instead of {list(variable.shape)}")
        else:
            variable.assign(array)
            if not is_adapter(path):
                base.digests[path] = digest_of(array)
    if has_adapters and encoder.adapter:
        _check_design(encoder.adapter, base)
    missing = [path for path in unset if has_adapters or not is_adapter(path)]
    problems = {"missing": missing, "left over": left_over, "of another shape": wrong}
    told = [f"{title}: {some(names)}" for title, names in problems.items() if names]
    if told:
        raise UserError(f"{base.origin}: does not fit the encoder; {'; '.join(told)}")
