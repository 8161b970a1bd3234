"""The adapters of each row's task."""

import tensorflow as tf
import tf_keras

from adapter_bert_tf.encoder.activations import get_activation
from adapter_bert_tf.encoder.adapter import INNER_EPSILON
from adapter_bert_tf.encoder.adapter_config import AdapterConfig
from adapter_bert_tf.serve.layer_norm import normalize
from adapter_bert_tf.serve.rows import Batch
from adapter_bert_tf.serve.table import Table


class TaskAdapter(tf_keras.layers.Layer):
    """Takes the place of `Adapter`; computes each task's tokens with the task's bottleneck.

    The bottleneck of a task without adapters is of size 0: it adds exactly nothing.

    Args:
      batch: The rows.
      config: What the tasks' designs have in common.
      tables: The adapters' variables by their path below the adapter.
    """

    def __init__(self, batch: Batch, config: AdapterConfig, tables: dict[str, Table], **kwargs):
        super().__init__(**kwargs)
        self._batch, self._config, self._tables = batch, config, tables
        self._activation = get_activation(config.activation)

    def call(self, inputs):
        output, source = inputs if self._config.parallel else (inputs, inputs)
        width = output.shape[-1]
        update = self._batch.rows.tokens_by_task(source[0], self._bottleneck, width)[None]
        return output * (1 + update) if self._config.multiplicative else output + update

    def _bottleneck(self, task: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
        if self._config.layer_norm:
            gamma, beta = (
                self._tables[f"layer_norm/{name}"].of(task) for name in ("gamma", "beta")
            )
            x = normalize(x, gamma, beta, INNER_EPSILON)
        for name in self._config.narrow_layers():
            x = self._activation(self._project(name, task, x))
        return self._project("up", task, x)

    def _project(self, name: str, task: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
        kernel, bias = (self._tables[f"{name}/{part}"].of(task) for part in ("kernel", "bias"))
        return tf.nn.bias_add(tf.matmul(x, kernel), bias)
