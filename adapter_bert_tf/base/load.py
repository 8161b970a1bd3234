"""Loads any BERT into an encoder."""

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from adapter_bert_tf.base.base import Base, digest_of
from adapter_bert_tf.base.checkpoint import has_checkpoint, read_checkpoint_base
from adapter_bert_tf.base.config import config_from_shapes
from adapter_bert_tf.base.hub import is_hub_model, read_hub_base
from adapter_bert_tf.base.hugging_face import is_hugging_face_folder, read_hugging_face_base
from adapter_bert_tf.base.names import google_names
from adapter_bert_tf.base.presets import PRESETS, locate, refuse_unknown
from adapter_bert_tf.encoder.adapter import AdapterConfig
from adapter_bert_tf.encoder.encoder import AdapterBertEncoder
from adapter_bert_tf.encoder.variables import is_adapter, variables_by_path
from adapter_bert_tf.errors import UserError, some

_FLOATS = ("float16", "bfloat16", "float32", "float64")


def load_encoder(
    bert: str | os.PathLike,
    adapter: AdapterConfig | None = AdapterConfig(),
    *,
    config_file: str | None = None,
    vocab_file: str | None = None,
    lower_case: bool | None = None,
) -> AdapterBertEncoder:
    """Loads a BERT and puts new adapters into it.

    If the checkpoint was saved by the original program and holds adapters, they are loaded too.

    Args:
      bert: A folder with Google's, Hugging Face's or Model Garden's files, the prefix of a
        checkpoint, a TF-Hub handle or SavedModel, or the name of a preset.
      adapter: The adapters' configuration, or None for the plain base.
      config_file: A `bert_config.json`, if it is not in the checkpoint's folder.
      vocab_file: A `vocab.txt`, if it is not in the folder of the weights.
      lower_case: Whether text is lower-cased. By default the base's files decide.

    Returns:
      The encoder. Its attribute `base` says where it came from and holds the vocabulary.

    Example:
      `load_encoder("minilm", adapter=AdapterConfig(size=64))`
    """
    return make_encoder(find_base(os.fspath(bert), config_file, vocab_file, lower_case), adapter)


def make_encoder(base: Base, adapter: AdapterConfig | None) -> AdapterBertEncoder:
    """Reads a base into an encoder with new adapters."""
    tensors = _read_once(base)
    # Before anything is built: a wrong configuration may ask for any amount of memory.
    check_sizes(base, tensors)
    encoder = AdapterBertEncoder(adapter=adapter, **base.config.encoder_arguments())
    # Initial values of its own would cost time, and memory that TensorFlow does not give back.
    encoder.ensure_built(tensors)
    _check_fits(encoder, base, tensors)
    base.digests |= {path: digest_of(tensors[path]) for path in tensors if not is_adapter(path)}
    encoder.base = base
    return encoder


@dataclasses.dataclass(frozen=True)
class Format:
    """A format that BERTs are published in.

    Args:
      files: The files by which people know it, for messages.
      recognises: Says whether a path or handle is in this format.
      opens: Opens it; its arguments are those of `find_base`.
      takes_config: Whether `opens` takes a `config_file`, as its own files may have none.
    """

    files: str
    recognises: Callable[[str], bool]
    opens: Callable[..., Base]
    takes_config: bool = False


# The first one that recognises a base opens it. A new format needs a file with the two functions,
# and a line here.
FORMATS = (
    Format("saved_model.pb", is_hub_model, read_hub_base),
    Format("bert_model.ckpt.*", has_checkpoint, read_checkpoint_base, takes_config=True),
    Format("config.json", is_hugging_face_folder, read_hugging_face_base),
)


def find_base(
    bert: str,
    config_file: str | None = None,
    vocab_file: str | None = None,
    lower_case: bool | None = None,
) -> Base:
    """Finds out in which format the BERT called `bert` is, and opens it."""
    refuse_unknown(bert)
    place = locate(bert)
    found = next((format for format in FORMATS if format.recognises(place)), None)
    if found is None:
        files = " or ".join(format.files for format in FORMATS)
        raise UserError(f"{bert}: holds no BERT: expected {files}")
    arguments: dict[str, Any] = {"vocab_file": vocab_file, "lower_case": lower_case}
    if config_file:
        if not found.takes_config:
            raise UserError(
                f"{config_file}: only a checkpoint takes a configuration, and {bert} is none"
            )
        arguments["config_file"] = config_file
    base = found.opens(place, **arguments)
    # A pack names its base by the origin, and a preset's name means the same on every machine.
    return dataclasses.replace(base, origin=bert) if bert in PRESETS else base


def _check_design(adapter: AdapterConfig, base: Base) -> None:
    """Refuses adapters that differ from the only kind that the original program can save."""
    original = AdapterConfig(adapter.size, sites=adapter.sites, layers=adapter.layers)
    for field in adapter.differences(original, base.config.num_layers):
        raise UserError(
            f"{base.origin}: holds adapters with {field}={getattr(original, field)}, "
            f"not {getattr(adapter, field)}"
        )


def _read_once(base: Base) -> dict[str, np.ndarray]:
    tensors: dict[str, np.ndarray] = {}
    for path, array in base.read():
        if path in tensors:
            raise UserError(f"{base.origin}: holds {path} twice")
        tensors[path] = array
    odd = [p for p, each in tensors.items() if each.dtype.name not in _FLOATS]
    if odd:
        raise UserError(f"{base.origin}: some weights are no floats: {some(odd)}")
    odd = [path for path, array in tensors.items() if not np.isfinite(array).all()]
    if odd:
        raise UserError(f"{base.origin}: some weights are not finite: {some(odd)}")
    return tensors


def check_sizes(base: Base, tensors: Mapping[str, np.ndarray]) -> None:
    """Refuses weights that are not of the sizes that the configuration says."""
    missing = set(google_names(base.config.num_layers).values()) - tensors.keys()
    if missing:
        raise UserError(f"{base.origin}: does not fit the encoder; missing: {some(missing)}")
    held = config_from_shapes({path: each.shape for path, each in tensors.items()}, base.origin)
    for name in ("vocab_size", "hidden_size", "inner_dim", "max_sequence_length"):
        ours, theirs = getattr(held, name), getattr(base.config, name)
        if ours != theirs:
            raise UserError(
                f"{base.origin}: does not fit the encoder; of another shape: the weights have "
                f"{name} {ours} instead of {theirs}"
            )


def _check_fits(encoder: AdapterBertEncoder, base: Base, tensors: dict[str, np.ndarray]) -> None:
    """Refuses a base that did not set each of its variables, or all adapters if it has any."""
    variables = variables_by_path(encoder)
    has_adapters = any(map(is_adapter, tensors))
    if has_adapters and encoder.adapter:
        _check_design(encoder.adapter, base)
    unset = variables.keys() - tensors.keys()
    problems = {
        "missing": [path for path in unset if has_adapters or not is_adapter(path)],
        "left over": tensors.keys() - variables.keys(),
        "of another shape": [
            f"{path} {list(array.shape)} instead of {list(variables[path].shape)}"
            for path, array in tensors.items()
            if path in variables and variables[path].shape != array.shape
        ],
    }
    found = [f"{title}: {some(sorted(names))}" for title, names in problems.items() if names]
    if found:
        raise UserError(f"{base.origin}: does not fit the encoder; {'; '.join(found)}")
