"""TF checkpoints: of Google's TF1 programs, the original adapter-bert's, and Model Garden's."""

import glob
import os
import re
from collections.abc import Callable

import tensorflow as tf

from adapter_bert_tf.base.base import Base, Tensors
from adapter_bert_tf.base.bert_config import BertConfig, config_from_shapes, read_google_config
from adapter_bert_tf.base.model_garden import ModelGardenCheckpoint, is_model_garden
from adapter_bert_tf.base.names import adapter_bert_names, split_heads
from adapter_bert_tf.base.tf_checkpoint import TfCheckpoint
from adapter_bert_tf.encoder.variables import is_adapter
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.text.vocabulary import read_vocabulary

# Pre-training heads, the classifier of run_classifier.py, and what optimizers leave behind.
_NOT_THE_ENCODER = re.compile(
    r"^(cls/.*|output_weights|output_bias|classifier/.*|global_step|beta[12]_power|"
    r"loss_scale.*|good_steps|bad_steps|(.*/)?(adam|lamb)_[mv]|(.*/)?Adam(_1)?)$"
)


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
    prefix: str,
    config_file: str | None = None,
    vocab_file: str | None = None,
    lower_case: bool | None = None,
) -> Base:
    """Reads a checkpoint, with the files beside it unless others are named."""
    config_file = config_file or _beside(prefix, "bert_config.json")
    vocab_file = vocab_file or _beside(prefix, "vocab.txt")
    checkpoint = TfCheckpoint(prefix)
    if is_model_garden(checkpoint):
        encoder = ModelGardenCheckpoint(checkpoint)
        config = (
            read_google_config(config_file)
            if config_file
            else config_from_shapes(encoder.shapes(), prefix)
        )
        read = encoder.read
    elif config_file is None:
        raise UserError(f"{prefix}: expected bert_config.json beside it")
    else:
        config = read_google_config(config_file)
        read = _reader(checkpoint, config)
    vocabulary = read_vocabulary(vocab_file, lower_case) if vocab_file else None
    if vocabulary:
        vocabulary.check_size(config.vocab_size, vocab_file or prefix)
    return Base(prefix, config, vocabulary, read)


def _beside(prefix: str, name: str) -> str | None:
    path = os.path.join(os.path.dirname(prefix), name)
    return path if os.path.exists(path) else None


def _reader(checkpoint: TfCheckpoint, config: BertConfig) -> Callable[[], Tensors]:
    def read() -> Tensors:
        # Opened anew: its files may have been replaced since.
        opened = TfCheckpoint(checkpoint.prefix)
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
