"""LayerNorm with the values of each row's task."""

from collections.abc import Sequence

import tensorflow as tf
import tf_keras

from adapter_bert_tf.serve.batch import Batch
from adapter_bert_tf.serve.values import ONLY, Values


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
        self._outputs = tf.function(self._by_task, [tokens, *[numbers] * 3], autograph=False)

    def at(self, path: str) -> list[int]:
        """The numbers of the variables of the LayerNorm at that path."""
        return self._values.numbers(path, ["gamma", "beta"])

    def outputs(self, tokens: tf.Tensor, batch: Batch, numbers: Sequence[int]) -> tf.Tensor:
        """What the LayerNorm with the variables of those numbers makes of `[tokens, width]`."""
        rows = batch.rows
        return self._outputs(tokens, rows.groups, rows.token_groups, tf.constant(numbers, tf.int32))

    def _by_task(
        self, tokens: tf.Tensor, tasks: tf.Tensor, token_groups: tf.Tensor, numbers: tf.Tensor
    ) -> tf.Tensor:
        def of_each_token(number: tf.Tensor) -> tf.Tensor:
            if self._values.tasks == 1:
                return self._values.vector(number, ONLY)
            return tf.gather(self._values.vectors(number, tasks, self._width), token_groups)

        gamma, beta = map(of_each_token, tf.unstack(numbers, 2))
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
        self._batch, self._norms = batch, norms
        self._numbers = norms.at(path)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        return self._norms.outputs(inputs[0], self._batch, self._numbers)[None]


def normalize(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float) -> tf.Tensor:
    """LayerNorm over the last axis, as Keras computes it."""
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    return tf.nn.batch_normalization(x, mean, variance, beta, gamma, epsilon)
