"""No head: for packs of adapters that are yet to be tuned for a task."""

from typing import Any

import tensorflow as tf
import tf_keras

from adapter_bert_tf.heads.head import Head


@tf_keras.utils.register_keras_serializable(package="adapter_bert_tf")
class NoHead(Head):
    """Returns the pooled output as it is."""

    kind = "none"
    metrics = {}  # noqa: RUF012
    default_metrics = ()

    def __init__(self, name: str = "head", **kwargs):
        super().__init__(name=name, **kwargs)

    def settings(self) -> dict[str, Any]:
        return {}

    def call(self, encoded: dict[str, tf.Tensor]) -> tf.Tensor:
        return encoded["pooled_output"]
