"""The head for answers in a text."""

from typing import Any

import tensorflow as tf
import tf_keras

from adapter_bert_tf.heads.head import Head, output_dense


@tf_keras.utils.register_keras_serializable(package="adapter_bert_tf")
class SpanHead(Head):
    """Sequence output -> logits of the answer's start and end, `[batch, length, 2]`."""

    kind = "span"
    tokens_read = None

    def __init__(self, name: str = "head", **kwargs):
        super().__init__(name=name, **kwargs)
        self.output_layer = output_dense(2)

    def call(self, encoded: dict[str, tf.Tensor]) -> tf.Tensor:
        return self.output_layer(encoded["sequence_output"])

    def loss(self, labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Mean of the cross entropies of start and end; `labels` are positions, `[batch, 2]`."""
        logits = tf.transpose(outputs, [0, 2, 1])
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.cast(labels, tf.int32), logits)
        return tf.reduce_mean(losses, axis=-1)

    def settings(self) -> dict[str, Any]:
        return {}
