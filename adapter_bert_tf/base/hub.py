"""Reads BERTs from TF-Hub and from SavedModels."""

import os
import re

import tensorflow as tf

from adapter_bert_tf.base.base import Base, Tensors
from adapter_bert_tf.base.checkpoint import UNREADABLE
from adapter_bert_tf.base.config import config_from_shapes
from adapter_bert_tf.errors import UserError, first_line
from adapter_bert_tf.files import exists
from adapter_bert_tf.text.tokenizer import Vocabulary, read_vocabulary

_HANDLE = re.compile(r"^https?://")
# In newer exports of Model Garden, the name of the encoder comes before these.
_PATH = re.compile(
    r"((word|type)_embeddings|position_embedding|embeddings/layer_norm|transformer/layer_\d+"
    r"|pooler_transform)/.*(?=:\d+$)"
)


def is_hub_model(bert: str) -> bool:
    """Whether `bert` is a TF-Hub handle or the folder of a SavedModel."""
    return bool(_HANDLE.match(bert)) or exists(os.path.join(bert, "saved_model.pb"))


def read_hub_base(
    handle: str, vocab_file: str | None = None, lower_case: bool | None = None
) -> Base:
    """Opens a SavedModel of Model Garden's BERT encoder. A handle is downloaded and cached."""
    loaded = [_load(handle)]

    def read() -> Tensors:
        # The model that was loaded for its shapes is released after the first reading, so that
        # its weights don't stay in memory together with the encoder's.
        model = loaded.pop() if loaded else _load(handle)
        for variable in _encoder_variables(model):
            yield _path(variable), variable.numpy()

    shapes = {_path(variable): tuple(variable.shape) for variable in _encoder_variables(loaded[0])}
    config = config_from_shapes(shapes, handle)
    vocabulary = _vocabulary(loaded[0], vocab_file, lower_case)
    if vocabulary:
        vocabulary.check_size(config.vocab_size, vocab_file or handle)
    return Base(handle, config, vocabulary, read)


def _load(handle: str):
    # Imported here because no other format needs it.
    import tensorflow_hub as hub

    try:
        return hub.load(handle)
    except UNREADABLE as error:
        reason = first_line(error)
        raise UserError(f"{handle}: can't be loaded as a TF-Hub model: {reason}") from None


def _encoder_variables(model) -> list[tf.Variable]:
    return [variable for variable in getattr(model, "variables", []) if variable.dtype.is_floating]


def _path(variable: tf.Variable) -> str:
    match = _PATH.search(variable.name)
    return match.group() if match else variable.name


def _vocabulary(model, vocab_file: str | None, lower_case: bool | None) -> Vocabulary | None:
    if vocab_file is None and hasattr(model, "vocab_file"):
        vocab_file = model.vocab_file.asset_path.numpy().decode()
    if lower_case is None and hasattr(model, "do_lower_case"):
        lower_case = bool(model.do_lower_case.numpy())
    return read_vocabulary(vocab_file, lower_case) if vocab_file else None
