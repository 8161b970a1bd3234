"""What makes the encoder fast on CPU: layers that compute what Keras's do, in less time.

They have the variables of the layers that they replace, and the same outputs. Each says what it
gains, measured on CPU; so they are used on CPU. On a GPU or TPU the layers stay Keras's and Model
Garden's: XLA, which some of these layers use, may lack its tool chain there, and nothing was
measured.
"""

import contextlib
from collections.abc import Iterator

import tensorflow as tf
import tf_keras
from official.nlp.modeling import layers as garden

from adapter_bert_tf.encoder.fast.activation import activation
from adapter_bert_tf.encoder.fast.attention import SelfAttention
from adapter_bert_tf.encoder.fast.dense import FlatDense
from adapter_bert_tf.encoder.fast.dropout import Dropout
from adapter_bert_tf.encoder.fast.layer_norm import LayerNorm
from adapter_bert_tf.encoder.fast.mask import KeyMask

__all__ = ["activation", "faster", "is_on", "make_dropout", "switched"]

_switch: bool | None = None


def is_on() -> bool:
    """Whether layers that are built now are the fast ones: on CPU, unless `switched`."""
    if _switch is not None:
        return _switch
    on_tpu = isinstance(tf.distribute.get_strategy(), tf.distribute.TPUStrategy)
    return not on_tpu and not tf.config.list_physical_devices("GPU")


@contextlib.contextmanager
def switched(on: bool) -> Iterator[None]:
    """Switches all of this on or off for encoders that are made inside of the context."""
    global _switch
    before, _switch = _switch, on
    try:
        yield
    finally:
        _switch = before


def make_dropout(rate: float, **kwargs) -> tf_keras.layers.Dropout:
    """Returns a dropout layer whose generator can be saved, so that a run can be resumed."""
    if is_on():
        return Dropout(rate, **kwargs)
    return tf_keras.layers.Dropout(rate, rng_type="stateful", **kwargs)


def faster(layer: tf_keras.layers.Layer, **changes) -> tf_keras.layers.Layer:
    """Returns an unbuilt fast layer for an unbuilt one, or the same layer if there is none.

    Args:
      layer: A layer of Keras or Model Garden.
      **changes: Arguments in which the fast layer differs.
    """
    if type(layer) is tf_keras.layers.EinsumDense:
        return FlatDense.from_config({**layer.get_config(), **changes})
    if type(layer) is tf_keras.layers.LayerNormalization:
        return LayerNorm.from_config(layer.get_config())
    if type(layer) is tf_keras.layers.Dropout:
        return Dropout(layer.rate, name=layer.name)
    if type(layer) is garden.SelfAttentionMask:
        return KeyMask(name=layer.name)
    if type(layer) is tf_keras.layers.MultiHeadAttention:
        config = layer.get_config()
        return layer if config["attention_axes"] else SelfAttention.from_config(config)
    return layer
