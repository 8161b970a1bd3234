"""The model that computes many tasks on one base."""

import functools

import numpy as np
import tensorflow as tf

from adapter_bert_tf.encoder.arithmetic import dense
from adapter_bert_tf.encoder.variables import is_layer_norm, variables_by_path
from adapter_bert_tf.heads.text import TextForm
from adapter_bert_tf.serve.encoder import TaskEncoder
from adapter_bert_tf.serve.forks import Forks
from adapter_bert_tf.serve.lineup import Lineup
from adapter_bert_tf.serve.rows import TaskFunction, Texts, by_task, choose
from adapter_bert_tf.serve.service import Service
from adapter_bert_tf.serve.values import Values, to_served


class ServedModel:
    """The encoder of a service, and the heads of its tasks.

    Args:
      service: What to serve.
    """

    def __init__(self, service: Service):
        self.values = make_values(service)
        self.encoder = TaskEncoder(
            self.values,
            service.adapter_places(),
            *service.adapter_forms(),
            Forks(service.first_points()),
            **service.base.config.encoder_arguments(),
        )
        self.encoder.ensure_built()
        self.base = variables_by_path(self.encoder)
        values = to_served(service.values)
        for path, variable in self.base.items():
            variable.assign(values[path])
        self._forms, self._form_of_task = service.head_forms()
        # Signatures that need the same output share one function of the graph.
        numbers = tf.TensorSpec([None], tf.int32)
        signature = [Texts(*[numbers] * 4), numbers, numbers]
        self._firsts, self._tokens = (
            tf.function(encode, signature, autograph=False)
            for encode in (self.encoder.encode_firsts, self.encoder.encode)
        )

    def of_rows(self, asked: Lineup, function: TaskFunction, width: int) -> tf.Tensor:
        """Computes the logits of each row, and returns what a function makes of them.

        Args:
          asked: The batch.
          function: Takes a task's number and its logits, and returns a matrix of `width` columns.
          width: Width of the result.
        """

        def logits_as(form: TextForm, task, pooled, first) -> tf.Tensor:
            layers = {name: functools.partial(self._dense, task, name) for name in form.layers}
            return form.logits(pooled, first, layers)

        def head(task: tf.Tensor, pooled: tf.Tensor, first: tf.Tensor) -> tf.Tensor:
            branches = [
                functools.partial(logits_as, form, task, pooled, first) for form in self._forms
            ]
            return function(task, choose(self._form_of_task, task, branches))

        rows, encoded = asked.rows(), self._firsts(*asked[:3])
        return by_task(encoded, rows.groups, rows.group_rows, head, width)

    def of_tokens(self, asked: Lineup, function: TaskFunction, width: int) -> tf.Tensor:
        """Does the same with the logits of each token."""

        def head(task: tf.Tensor, tokens: tf.Tensor) -> tf.Tensor:
            return function(task, self._dense(task, "output", tokens))

        rows, encoded = asked.rows(), self._tokens(*asked[:3])
        return by_task((encoded,), rows.groups, rows.group_tokens, head, width)

    def _dense(self, task: tf.Tensor, layer: str, x: tf.Tensor) -> tf.Tensor:
        numbers = tf.constant(self.values.numbers(f"head/{layer}", ["kernel", "bias"]))
        return dense(x, *self.values.of_task(numbers, task, [2, 1]))


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
    places = service.adapter_places()
    if places is None:
        return {}
    config = service.base.config
    shapes: dict[str, tuple[int, ...]] = {}
    for form in service.adapter_forms()[0]:
        shapes |= form.shapes(config.hidden_size, size=1)
    return {
        f"transformer/layer_{layer}/{site}_adapter/{name}": np.zeros(shape, np.float32)
        for layer in places.in_layers(config.num_layers)
        for site in places.sites
        for name, shape in shapes.items()
    }
