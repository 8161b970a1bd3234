"""The model of many tasks."""

import dataclasses

import numpy as np
import tensorflow as tf

from adapter_bert_tf.encoder.variables import is_layer_norm, variables_by_path
from adapter_bert_tf.serve.base_values import to_served
from adapter_bert_tf.serve.encoder import TaskEncoder
from adapter_bert_tf.serve.rows import Rows
from adapter_bert_tf.serve.service import Service
from adapter_bert_tf.serve.values import Values

HEAD_KERNEL, HEAD_BIAS = "head/output/kernel", "head/output/bias"


class ServedModel:
    """The tasks of a service on its base.

    Args:
      service: What to serve.
    """

    def __init__(self, service: Service):
        self.values = make_values(service)
        self.encoder = TaskEncoder(
            self.values, service.common_adapter(), **service.base.config.encoder_arguments()
        )
        self.encoder.ensure_built()
        self.base = variables_by_path(self.encoder)
        values = to_served(service.values)
        for path, variable in self.base.items():
            variable.assign(values[path])
        # One graph for all signatures that need it.
        fields = [tf.TensorSpec([None], tf.int32)] * len(dataclasses.fields(Rows))
        self._encode = {
            output: tf.function(
                lambda *fields, encode=encode: encode(Rows(*fields)), fields, autograph=False
            )
            for output, encode in (
                ("pooled_output", self.encoder.pool),
                ("sequence_output", self.encoder.encode),
            )
        }

    def outputs(self, rows: Rows, source: str, function, width: int) -> tf.Tensor:
        """Applies `function(task, logits)` to what the heads make of an output of the encoder.

        Args:
          rows: The batch.
          source: "pooled_output", for a row each, or "sequence_output", for a token each.
          function: From a task's number and its logits to a matrix of that width.
          width: Width of the result.
        """

        def head(task: tf.Tensor, encoded: tf.Tensor) -> tf.Tensor:
            kernel = self.values.matrix(self.values.number(HEAD_KERNEL), task)
            bias = self.values.vector(self.values.number(HEAD_BIAS), task)
            return function(task, tf.nn.bias_add(tf.matmul(encoded, kernel), bias))

        encoded = self._encode[source](*rows.fields())
        by_task = rows.rows_by_task if source == "pooled_output" else rows.tokens_by_task
        return by_task(encoded, head, width)


def make_values(service: Service) -> Values:
    """Returns what the tasks bring, for each variable that one of them may have."""
    defaults = {path: value for path, value in service.values.items() if is_layer_norm(path)}
    width = service.base.config.hidden_size
    brought = {path for task in service.tasks for path in task.tensors}
    for path in (brought | _adapters(service)) - service.values.keys():
        defaults[path] = _of_size_0(path, width)
    return Values(dict(sorted(defaults.items())), [task.tensors for task in service.tasks])


def _adapters(service: Service) -> set[str]:
    """The variables of the adapters, also where no task has one: the graph has all sites in all
    layers that one has."""
    adapter = service.common_adapter()
    if adapter is None:
        return set()
    return {
        f"transformer/layer_{layer}/{site}_adapter/{name}"
        for layer in adapter.in_layers(service.base.config.num_layers)
        for site in adapter.sites
        for name in adapter.variables()
    }


def _of_size_0(path: str, width: int) -> np.ndarray:
    """The variable of an adapter or a head that is not there."""
    *_, layer, kind = path.split("/")
    if layer == "layer_norm":
        return np.zeros(width, np.float32)
    inputs, outputs = width if layer in ("down", "output") else 0, width if layer == "up" else 0
    return np.zeros((inputs, outputs) if kind == "kernel" else outputs, np.float32)
