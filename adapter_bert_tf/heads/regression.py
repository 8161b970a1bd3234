"""The head for one number."""

from typing import Any

import tensorflow as tf
import tf_keras

from adapter_bert_tf.encoder.dropout import Dropout
from adapter_bert_tf.heads.head import Head, output_dense


@tf_keras.utils.register_keras_serializable(package="adapter_bert_tf")
class RegressionHead(Head):
    """Pooled output -> dropout -> a number, as for STS-B.

    Args:
      dropout: Rate of the dropout on the pooled output.
    """

    kind = "regression"

    def __init__(self, dropout: float = 0.1, name: str = "head", **kwargs):
        super().__init__(name=name, **kwargs)
        self.dropout = Dropout(dropout)
        self.output_layer = output_dense(1)

    def call(self, encoded: dict[str, tf.Tensor]) -> tf.Tensor:
        return tf.squeeze(self.output_layer(self.dropout(encoded["pooled_output"])), axis=-1)

    def loss(self, labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Squared error."""
        return tf.math.squared_difference(tf.reshape(tf.cast(labels, tf.float32), [-1]), outputs)

    def settings(self) -> dict[str, Any]:
        return {"dropout": self.dropout.rate}
