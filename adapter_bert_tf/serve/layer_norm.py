"""LayerNorm with the values of each row's task."""

import tensorflow as tf
import tf_keras

from adapter_bert_tf.serve.batch import Batch
from adapter_bert_tf.serve.values import Values


class Norms:
    """Computes the tasks' LayerNorms: one function of the graph, for all of them.

    Args:
      values: The tasks' variables.
      width: Of the encoder.
      epsilon: As in the base.
    """

    def __init__(self, values: Values, width: int, epsilon: float):
        self._values, self._width, self._epsilon = values, width, epsilon
        numbers, tokens = tf.TensorSpec([None], tf.int32), tf.TensorSpec([None, width], tf.float32)
        self._function = tf.function(
            self._normalize, [tokens, numbers, numbers, numbers], autograph=False
        )

    def normalize(self, tokens: tf.Tensor, batch: Batch, path: str) -> tf.Tensor:
        """Normalises `[tokens, width]` as the LayerNorm at that path does for each task."""
        place = [self._values.number(f"{path}/{name}") for name in ("gamma", "beta")]
        rows = batch.rows
        return self._function(tokens, rows.groups, rows.token_groups, tf.constant(place, tf.int32))

    def _normalize(
        self, tokens: tf.Tensor, tasks: tf.Tensor, token_groups: tf.Tensor, place: tf.Tensor
    ) -> tf.Tensor:
        gamma, beta = (
            tf.gather(self._values.vectors(path, tasks, self._width), token_groups)
            for path in tf.unstack(place, 2)
        )
        return normalize(tokens, gamma, beta, self._epsilon)


class TaskLayerNorm(tf_keras.layers.Layer):
    """Takes the place of a LayerNorm; its input is `[1, tokens, width]`.

    Args:
      batch: The rows.
      norms: What computes it.
      path: Of the LayerNorm.
    """

    def __init__(self, batch: Batch, norms: Norms, path: str, **kwargs):
        super().__init__(**kwargs)
        self._batch, self._norms, self._path = batch, norms, path

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        return self._norms.normalize(inputs[0], self._batch, self._path)[None]


def normalize(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float) -> tf.Tensor:
    """LayerNorm over the last axis, as Keras computes it."""
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    return tf.nn.batch_normalization(x, mean, variance, beta, gamma, epsilon)
