"""From a checkpoint of the original adapter-bert program to a base and a task pack."""

import os
import re
import shutil

from adapter_bert_tf.base.base import Base
from adapter_bert_tf.base.checkpoint import TfCheckpoint, is_checkpoint, write_checkpoint
from adapter_bert_tf.base.load import load_encoder
from adapter_bert_tf.base.names import google_names
from adapter_bert_tf.encoder.adapter import ATTENTION, FEED_FORWARD, AdapterConfig
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.files import local_copy, new_folder
from adapter_bert_tf.heads.classification import ClassificationHead
from adapter_bert_tf.heads.head import Head
from adapter_bert_tf.heads.regression import RegressionHead
from adapter_bert_tf.pack.model import save_pack
from adapter_bert_tf.tuning.task_model import TaskModel

_LAYER = re.compile(r"bert/encoder/layer_(\d+)/")
_ADAPTER = re.compile(r"bert/encoder/layer_(\d+)/(attention/)?output/adapters/weights1$")


def import_checkpoint(
    checkpoint: str, bert_config_file: str, output_dir: str, vocab_file: str | None = None
) -> None:
    """Writes `output_dir/base`, a folder that `load_encoder` takes, and `output_dir/pack`.

    The checkpoint has the LayerNorms as they were tuned, so the base gets those. A pack that
    brings its own, as this one does, fits the BERT before tuning as well.
    """
    if not is_checkpoint(checkpoint):
        raise UserError(f"{checkpoint}: no such checkpoint; expected {checkpoint}.index")
    opened = TfCheckpoint(checkpoint)
    model = _load_model(opened, bert_config_file, vocab_file)
    with new_folder(output_dir, last="pack/pack.json") as folder:
        base = model.encoder.base
        _write_base(base, opened, bert_config_file, os.path.join(folder, "base"))
        save_pack(model, os.path.join(folder, "pack"))


def is_tuned_checkpoint(bert: str) -> bool:
    """Whether `bert` is a checkpoint with adapters and a head, as the original program saves it."""
    if not is_checkpoint(bert):
        return False
    shapes = TfCheckpoint(bert).shapes
    return "output_weights" in shapes and any(map(_ADAPTER.match, shapes))


def save_pack_of_checkpoint(
    checkpoint: str, config_file: str | None, vocab_file: str | None, folder: str
) -> None:
    """Saves the task in a checkpoint of the original program as a pack for the same checkpoint."""
    save_pack(_load_model(TfCheckpoint(checkpoint), config_file, vocab_file), folder)


def _load_model(
    checkpoint: TfCheckpoint, config_file: str | None, vocab_file: str | None
) -> TaskModel:
    encoder = load_encoder(
        checkpoint.prefix,
        find_adapter(checkpoint),
        config_file=config_file,
        vocab_file=vocab_file,
    )
    model = TaskModel(encoder, _find_head(checkpoint))
    _set_head(model, checkpoint)
    return model


def find_adapter(checkpoint: TfCheckpoint) -> AdapterConfig:
    """Reads the adapters' design off a checkpoint of the original program."""
    sizes, layers, sites = set(), set(), set()
    for name, shape in checkpoint.shapes.items():
        match = _ADAPTER.match(name)
        if match and len(shape) == 2:
            sizes.add(shape[1])
            layers.add(int(match[1]))
            sites.add(ATTENTION if match[2] else FEED_FORWARD)
    if len(sizes) != 1:
        found = f"sizes {sorted(sizes)}" if sizes else "none"
        raise UserError(f"{checkpoint.prefix}: expected adapters of one size, found {found}")
    everywhere = {int(match[1]) for name in checkpoint.shapes if (match := _LAYER.match(name))}
    return AdapterConfig(
        size=sizes.pop(),
        layers=None if layers == everywhere else tuple(layers),
        sites=tuple(sites),
    )


def _find_head(checkpoint: TfCheckpoint) -> Head:
    weights = checkpoint.shapes.get("output_weights", ())
    if len(weights) != 2 or checkpoint.shapes.get("output_bias") != weights[:1]:
        raise UserError(
            f"{checkpoint.prefix}: expected a head: output_weights [classes, width] and "
            "output_bias [classes]"
        )
    return RegressionHead() if weights[0] == 1 else ClassificationHead(classes=weights[0])


def _set_head(model: TaskModel, checkpoint: TfCheckpoint) -> None:
    weights = checkpoint.read("output_weights").T
    kernel = model.head.output_layer.kernel
    if kernel.shape != weights.shape:
        raise UserError(
            f"{checkpoint.prefix}: output_weights is {weights.shape[0]} wide, "
            f"the BERT {kernel.shape[0]}"
        )
    kernel.assign(weights)
    model.head.output_layer.bias.assign(checkpoint.read("output_bias"))


def _write_base(base: Base, checkpoint: TfCheckpoint, config_file: str, folder: str) -> None:
    os.mkdir(folder)
    with local_copy(config_file) as local:
        shutil.copyfile(local, os.path.join(folder, "bert_config.json"))
    if base.vocabulary:
        with open(os.path.join(folder, "vocab.txt"), "w", encoding="utf-8") as file:
            file.writelines(f"{token}\n" for token in base.vocabulary.tokens)
    names = google_names(base.config.num_layers)
    write_checkpoint(
        os.path.join(folder, "bert_model.ckpt"), {name: checkpoint.read(name) for name in names}
    )
