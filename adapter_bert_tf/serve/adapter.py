"""The adapters of each row's task."""

from collections.abc import Sequence

import tensorflow as tf
import tf_keras

from adapter_bert_tf.encoder.activations import get_activation
from adapter_bert_tf.encoder.adapter import INNER_EPSILON
from adapter_bert_tf.encoder.adapter_config import AdapterConfig
from adapter_bert_tf.serve.batch import Batch
from adapter_bert_tf.serve.layer_norm import normalize
from adapter_bert_tf.serve.rows import by_task
from adapter_bert_tf.serve.values import ONLY, Values


class Bottlenecks:
    """Computes what adapters add: each task's tokens with the task's bottleneck.

    The bottleneck of a task without adapters is of size 0: it adds exactly nothing.

    One function of the graph does it for all layers and sites.

    Args:
      config: What the tasks' designs have in common.
      values: The tasks' variables.
      width: Of the encoder.
    """

    def __init__(self, config: AdapterConfig, values: Values, width: int):
        self.config = config
        self._values, self._width = values, width
        self._activation = get_activation(config.activation)
        numbers = tf.TensorSpec([None], tf.int32)
        tokens = tf.TensorSpec([None, width], tf.float32)
        self._updates = tf.function(self._by_task, [tokens, *[numbers] * 3], autograph=False)

    def at(self, prefix: str) -> list[int]:
        """The numbers of the variables of the adapter at that path."""
        return self._values.numbers(prefix, self.config.variables())

    def updates(self, tokens: tf.Tensor, batch: Batch, numbers: Sequence[int]) -> tf.Tensor:
        """What the adapter with the variables of those numbers makes of `[tokens, width]`."""
        rows = batch.rows
        return self._updates(tokens, rows.groups, rows.group_tokens, tf.constant(numbers, tf.int32))

    def _by_task(
        self, tokens: tf.Tensor, tasks: tf.Tensor, sizes: tf.Tensor, numbers: tf.Tensor
    ) -> tf.Tensor:
        names = self.config.variables()
        variables = dict(zip(names, tf.unstack(numbers, len(names)), strict=True))

        def project(layer: str, task: tf.Tensor | int, x: tf.Tensor) -> tf.Tensor:
            kernel = self._values.matrix(variables[f"{layer}/kernel"], task)
            bias = self._values.vector(variables[f"{layer}/bias"], task)
            return tf.nn.bias_add(tf.matmul(x, kernel), bias)

        def bottleneck(task: tf.Tensor | int, x: tf.Tensor) -> tf.Tensor:
            if self.config.layer_norm:
                gamma, beta = (
                    self._values.vector(variables[f"layer_norm/{name}"], task)
                    for name in ("gamma", "beta")
                )
                x = normalize(x, gamma, beta, INNER_EPSILON)
            for layer in self.config.narrow_layers():
                x = self._activation(project(layer, task, x))
            return project("up", task, x)

        if self._values.tasks == 1:
            return bottleneck(ONLY, tokens)
        return by_task(tokens, tasks, sizes, bottleneck, self._width)


class TaskAdapter(tf_keras.layers.Layer):
    """Takes the place of `Adapter`.

    Args:
      batch: The rows.
      bottlenecks: What computes them.
      prefix: The adapter's path.
    """

    def __init__(self, batch: Batch, bottlenecks: Bottlenecks, prefix: str, **kwargs):
        super().__init__(**kwargs)
        self._batch, self._bottlenecks = batch, bottlenecks
        self._numbers = bottlenecks.at(prefix)

    def call(self, inputs):
        config = self._bottlenecks.config
        output, source = inputs if config.parallel else (inputs, inputs)
        update = self._bottlenecks.updates(source[0], self._batch, self._numbers)[None]
        return output * (1 + update) if config.multiplicative else output + update
