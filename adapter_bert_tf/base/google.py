"""Checkpoints of Google's TF1 programs and of Model Garden."""

import glob
import os
import re
from collections.abc import Callable

import tensorflow as tf

from adapter_bert_tf.base.base import Base, Tensors
from adapter_bert_tf.base.bert_config import BertConfig, config_from_shapes, read_google_config
from adapter_bert_tf.base.names import adapter_bert_names, model_garden_attributes, split_heads
from adapter_bert_tf.base.tf_checkpoint import TfCheckpoint
from adapter_bert_tf.base.vocabulary import read_vocabulary
from adapter_bert_tf.encoder.variables import is_adapter
from adapter_bert_tf.errors import UserError

# Pre-training heads, the classifier of run_classifier.py, and what optimizers leave behind.
_NOT_THE_ENCODER = re.compile(
    r"^(cls/.*|output_weights|output_bias|classifier/.*|global_step|beta[12]_power|"
    r"loss_scale.*|good_steps|bad_steps|(.*/)?(adam|lamb)_[mv]|(.*/)?Adam(_1)?)$"
)
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
_ENCODER_ROOT = re.compile(r"^(.*?/)?(?=_\w+_layers?/|layer_with_weights-\d+/)")


def find_checkpoint(folder: str) -> str | None:
    """Returns the prefix of the checkpoint in `folder`: of several, `bert_model.ckpt`."""
    indexes = glob.glob(os.path.join(glob.escape(folder), "*.index"))
    prefixes = sorted(name.removesuffix(".index") for name in indexes)
    preferred = os.path.join(folder, "bert_model.ckpt")
    if preferred in prefixes:
        return preferred
    latest = tf.train.latest_checkpoint(folder)
    if latest in prefixes:
        return latest
    if len(prefixes) > 1:
        names = ", ".join(os.path.basename(prefix) for prefix in prefixes)
        raise UserError(f"{folder}: several checkpoints ({names}); name one: {prefixes[0]}")
    return prefixes[0] if prefixes else None


def read_checkpoint_base(
    checkpoint: str,
    config_file: str | None = None,
    vocab_file: str | None = None,
    lower_case: bool | None = None,
) -> Base:
    """Reads a TF1 or Model Garden checkpoint, with the files beside it unless others are named."""
    folder = os.path.dirname(checkpoint)
    beside = os.path.join(folder, "bert_config.json")
    config_file = config_file or (beside if os.path.exists(beside) else None)
    beside = os.path.join(folder, "vocab.txt")
    vocab_file = vocab_file or (beside if os.path.exists(beside) else None)
    opened = TfCheckpoint(checkpoint)
    if _OBJECT_GRAPH in opened.shapes:
        shapes = _model_garden_shapes(opened)
        config = (
            read_google_config(config_file)
            if config_file
            else config_from_shapes(shapes, checkpoint)
        )
        read = _model_garden_reader(checkpoint, config.num_layers)
    elif config_file is None:
        raise UserError(f"{checkpoint}: expected bert_config.json beside it")
    else:
        config = read_google_config(config_file)
        read = _google_reader(checkpoint, config)
    return Base(
        origin=checkpoint,
        config=config,
        vocabulary=read_vocabulary(vocab_file, lower_case) if vocab_file else None,
        read=read,
    )


def _google_reader(checkpoint: str, config: BertConfig) -> Callable[[], Tensors]:
    def read() -> Tensors:
        opened = TfCheckpoint(checkpoint)
        paths = adapter_bert_names(config.num_layers)
        for name in sorted(opened.shapes):
            if _NOT_THE_ENCODER.match(name):
                continue
            path = paths.get(name, name)
            array = opened.read(name)
            if is_adapter(path) and path.endswith("/bias"):
                array = array.reshape(-1)  # The original's are [1, size].
            yield path, split_heads(path, array, config.num_attention_heads)

    return read


def _model_garden_reader(checkpoint: str, num_layers: int) -> Callable[[], Tensors]:
    def read() -> Tensors:
        opened = TfCheckpoint(checkpoint)
        paths = model_garden_attributes(num_layers)
        for key, attributes in _encoder_attributes(opened).items():
            yield paths.get(attributes, key), opened.read(key)

    return read


def _encoder_attributes(checkpoint: TfCheckpoint) -> dict[str, str]:
    """Key -> attributes below the encoder, for the variables of the encoder.

    A checkpoint may hold it as `encoder`, as `model`, or inside of a pre-training model.
    """
    attributes = {}
    for key in sorted(checkpoint.shapes):
        root = _ENCODER_ROOT.match(key)
        if root and key.endswith(_VALUE) and ".OPTIMIZER_SLOT" not in key:
            attributes[key] = key[root.end() : -len(_VALUE)]
    return attributes


def _model_garden_shapes(checkpoint: TfCheckpoint) -> dict[str, tuple[int, ...]]:
    attributes = _encoder_attributes(checkpoint)
    layers = {
        match.group(1)
        for value in attributes.values()
        if (match := re.match(r"(.*)/_intermediate_dense/bias$", value))
    }
    paths = model_garden_attributes(len(layers))
    return {
        paths[value]: checkpoint.shapes[key] for key, value in attributes.items() if value in paths
    }
