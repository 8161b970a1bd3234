"""LayerNorm with the values of each row's task."""

import tensorflow as tf
import tf_keras

from adapter_bert_tf.serve.rows import Batch
from adapter_bert_tf.serve.table import Table


class TaskLayerNorm(tf_keras.layers.Layer):
    """Normalises `[1, tokens, width]`.

    Args:
      batch: The rows.
      gamma: The scales.
      beta: The offsets.
      epsilon: As in the base.
    """

    def __init__(self, batch: Batch, gamma: Table, beta: Table, epsilon: float, **kwargs):
        super().__init__(**kwargs)
        self._batch, self._gamma, self._beta = batch, gamma, beta
        self._epsilon = epsilon

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        tasks = self._batch.rows.token_tasks
        gamma, beta = self._gamma.of_each(tasks), self._beta.of_each(tasks)
        return normalize(inputs, gamma, beta, self._epsilon)


def normalize(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float) -> tf.Tensor:
    """LayerNorm over the last axis, as Keras computes it."""
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    return tf.nn.batch_normalization(x, mean, variance, beta, gamma, epsilon)
