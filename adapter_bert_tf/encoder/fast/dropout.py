"""Dropout that computes its mask where it uses it, and never keeps it."""

from collections.abc import Callable

import tensorflow as tf
import tf_keras

from adapter_bert_tf import internals

# The constants of a hash with little bias, "lowbias32": github.com/skeeto/hash-prospector.
_SHIFTS = (16, 15, 16)
_FACTORS = (0x7FEB352D, 0x846CA68B)


@tf_keras.utils.register_keras_serializable(package="adapter_bert_tf")
class Dropout(tf_keras.layers.Dropout):
    """Keras's dropout, whose random numbers are a hash of an element's index.

    On CPU, Keras's dropout spends most of its time on TensorFlow's random numbers. The hash runs in
    the loop that drops, which is as fast as a copy: 0.3 of the time, and the gradient computes the
    mask again instead of keeping it. Each layer draws the keys of the hash from its own generator.
    The generator's state is not a weight and not part of a checkpoint, so checkpoints stay those
    of Model Garden's encoder.
    """

    def __init__(self, rate: float, **kwargs):
        if not isinstance(rate, int | float) or not 0 <= rate < 1:
            raise ValueError(f"rate must be a number from 0 to 1, not {rate!r}")
        kwargs["rng_type"] = "stateful"
        super().__init__(rate, **kwargs)

    def draw(self) -> Callable[[tf.Tensor], tf.Tensor]:
        """Draws a mask: returns a function that drops the same elements in every call."""
        key = internals.dropout_generator(self).uniform_full_int([2], tf.uint32)
        # TensorFlow's optimizer does not know the shape of what XLA returns, and prints a line
        # about it.
        return lambda x: tf.ensure_shape(_drop(x, key, float(self.rate)), x.shape)

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        if not training or not self.rate:
            return inputs
        drop = self.draw()
        return tf.custom_gradient(lambda x: (drop(x), drop))(inputs)


@tf.function(jit_compile=True, autograph=False)
def _drop(x: tf.Tensor, key: tf.Tensor, rate: float) -> tf.Tensor:
    places = tf.cast(tf.reshape(tf.range(tf.size(x)), tf.shape(x)), tf.uint32)
    # Two rounds: after a single one, all masks would be parts of one long row of bits.
    bits = _hash(_hash(places + key[0]) + key[1])
    kept = bits >= tf.constant(round(rate * 2**32), tf.uint32)
    return tf.where(kept, x * (1 / (1 - rate)), tf.zeros([], x.dtype))


def _hash(x: tf.Tensor) -> tf.Tensor:
    for shift, factor in zip(_SHIFTS, (*_FACTORS, 1), strict=True):
        x = tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, tf.constant(shift, tf.uint32)))
        x = x * tf.constant(factor, tf.uint32)
    return x
