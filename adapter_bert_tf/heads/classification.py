"""The head for classes."""

from typing import Any

import tensorflow as tf
import tf_keras

from adapter_bert_tf.encoder.dropout import Dropout
from adapter_bert_tf.heads.head import Head, output_dense

# So that a damaged description does not ask for all of the memory.
_MOST_CLASSES = 100_000


@tf_keras.utils.register_keras_serializable(package="adapter_bert_tf")
class ClassificationHead(Head):
    """Pooled output -> dropout -> a logit for each class.

    Args:
      classes: Number of classes.
      dropout: Rate of the dropout on the pooled output.
    """

    kind = "classification"

    def __init__(self, classes: int, dropout: float = 0.1, name: str = "head", **kwargs):
        super().__init__(name=name, **kwargs)
        if not isinstance(classes, int) or not 0 < classes <= _MOST_CLASSES:
            raise ValueError(f"classes must be from 1 to {_MOST_CLASSES}, not {classes!r}")
        self.classes = classes
        self.dropout = Dropout(dropout)
        self.output_layer = output_dense(classes)

    def call(self, encoded: dict[str, tf.Tensor]) -> tf.Tensor:
        return self.output_layer(self.dropout(encoded["pooled_output"]))

    def loss(self, labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Cross entropy; `labels` are class numbers."""
        labels = tf.reshape(tf.cast(labels, tf.int32), [-1])
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, outputs)

    def settings(self) -> dict[str, Any]:
        return {"classes": self.classes, "dropout": self.dropout.rate}
