"""What all heads have in common."""

from typing import Any, ClassVar

import tensorflow as tf
import tf_keras


class Head(tf_keras.layers.Layer):
    """Maps the encoder's outputs to a task's, and knows the task's loss.

    Attributes:
      kind: Its name in task packs.
      tokens_read: How many of a row's tokens it reads, from the first; None for all. The last
        layer computes no others: 0.92 of the products of BERT-base, for a head on `[CLS]`.
    """

    kind: ClassVar[str]
    tokens_read: ClassVar[int | None] = 1

    def loss(self, labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Returns the loss of each example."""
        raise NotImplementedError

    def ensure_built(self, hidden_size: int) -> None:
        """Creates the variables, if no call has done so yet."""
        if not self.built:
            self(
                {
                    "pooled_output": tf.zeros([1, hidden_size]),
                    "sequence_output": tf.zeros([1, 1, hidden_size]),
                }
            )

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments, as a task pack keeps them."""
        raise NotImplementedError

    def get_config(self):
        return {**super().get_config(), **self.settings()}


def output_dense(units: int) -> tf_keras.layers.Dense:
    """The last layer of a head, in float32 under every precision policy."""
    return tf_keras.layers.Dense(
        units,
        kernel_initializer=tf_keras.initializers.TruncatedNormal(stddev=0.02),
        name="output",
        dtype=tf.float32,
    )
