"""Dropout with half the random numbers."""

import tensorflow as tf
import tf_keras

# The random bits that decide on one element, and the values that they can have.
_BITS = tf.int16
_VALUES = 2**16


@tf_keras.utils.register_keras_serializable(package="adapter_bert_tf")
class Dropout(tf_keras.layers.Dropout):
    """Keras's dropout, with 16 random bits for an element instead of 32.

    Drawing them is most of the cost on CPU: this takes two thirds of Keras's time. The rate is
    rounded to 1/65,536, and the scale follows it. Each layer draws its seeds from a generator of
    its own, whose state is neither a weight nor part of a checkpoint: checkpoints stay those of
    Model Garden's encoder.
    """

    def __init__(self, rate: float, **kwargs):
        if not isinstance(rate, int | float) or not 0 <= rate < 1:
            raise ValueError(f"rate must be a number from 0 to 1, not {rate!r}")
        kwargs["rng_type"] = "stateful"
        super().__init__(rate, **kwargs)

    @property
    def generator(self) -> tf.random.Generator:
        """The source of this layer's seeds, to save and restore with a run."""
        self._random_generator._maybe_init()
        return self._random_generator._generator

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        if not training or not self.rate:
            return inputs
        dropped = round(self.rate * _VALUES)
        kept = self._random_bits(inputs) >= _BITS.min + dropped

        def drop(x: tf.Tensor) -> tf.Tensor:
            return tf.where(kept, x * (_VALUES / (_VALUES - dropped)), tf.zeros([], x.dtype))

        # By itself TensorFlow would keep factors for the gradient: four bytes where this has one.
        return tf.custom_gradient(lambda x: (drop(x), drop))(inputs)

    def _random_bits(self, inputs: tf.Tensor) -> tf.Tensor:
        """Random numbers in the shape of `inputs`."""
        size = tf.size(inputs)
        seed = self._random_generator.make_seed_for_stateless_op()
        words = tf.random.stateless_uniform(
            [(size + 1) // 2], seed, minval=None, maxval=None, dtype=tf.uint32, alg="philox"
        )
        bits = tf.reshape(tf.bitcast(words, _BITS), [-1])[:size]
        return tf.reshape(bits, tf.shape(inputs))
