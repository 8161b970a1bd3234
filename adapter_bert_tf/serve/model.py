"""The model that computes many tasks on one base."""

import dataclasses

import numpy as np
import tensorflow as tf

from adapter_bert_tf.encoder.variables import is_layer_norm, variables_by_path
from adapter_bert_tf.serve.encoder import TaskEncoder
from adapter_bert_tf.serve.rows import Rows
from adapter_bert_tf.serve.service import Service
from adapter_bert_tf.serve.values import Values, to_served

HEAD_KERNEL, HEAD_BIAS = "head/output/kernel", "head/output/bias"


class ServedModel:
    """The encoder of a service, and the heads of its tasks.

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
        # Signatures that need the same output share one function of the graph.
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
        """Computes the logits of each task, and returns what a function makes of them.

        Args:
          rows: The batch.
          source: The output that the heads read: "pooled_output" gives a result for each row, and
            "sequence_output" one for each token.
          function: Takes a task's number and its logits, and returns a matrix of `width` columns.
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
    """Returns the tasks' values, for every variable that one of the tasks has."""
    defaults = {path: value for path, value in service.values.items() if is_layer_norm(path)}
    width = service.base.config.hidden_size
    brought = {path for task in service.tasks for path in task.tensors}
    # A task without an adapter at some site gets one that is all zeros, which adds nothing. Its
    # size is 1: on CPUs with AVX-512, oneDNN ends the process at a product of size 0.
    adapters = _adapters(service)
    for path in brought - service.values.keys() - adapters.keys():
        # Every task has its own head, so this default is never used.
        defaults[path] = np.zeros((width, 1) if path.endswith("/kernel") else (1,), np.float32)
    defaults |= adapters
    return Values(dict(sorted(defaults.items())), [task.tensors for task in service.tasks])


def _adapters(service: Service) -> dict[str, np.ndarray]:
    """Returns an adapter of zeros for each layer and site at which some task has an adapter."""
    adapter = service.common_adapter()
    if adapter is None:
        return {}
    config = service.base.config
    return {
        f"transformer/layer_{layer}/{site}_adapter/{name}": np.zeros(shape, np.float32)
        for layer in adapter.in_layers(config.num_layers)
        for site in adapter.sites
        for name, shape in adapter.shapes(config.hidden_size, size=1).items()
    }
