"""Adapters and LayerNorms in which each row has the variables of its own task.

The arithmetic is the encoder's (`encoder/adapter.py` and `encoder/arithmetic.py`). A site is a
LayerNorm with the adapter before it, if there is one. The tokens of each task are computed
together: a task's LayerNorm with its adapter, so that its vectors need not be repeated for each
token. However many layers there are, the graph has a single function for all sites with adapters,
and one for all others.
"""

import functools
from collections.abc import Sequence

import tensorflow as tf
import tf_keras

from adapter_bert_tf.encoder.adapter import HOULSBY, AdapterConfig, change
from adapter_bert_tf.encoder.adapter_layer import InputOf
from adapter_bert_tf.encoder.arithmetic import layer_norm
from adapter_bert_tf.serve.rows import Batch, TaskFunction, by_task, choose
from adapter_bert_tf.serve.values import ONLY, Values


class Sites:
    """Computes the adapters and LayerNorms of all tasks and layers.

    A task without an adapter at some site has one of zeros there, which adds nothing.

    Args:
      forms: The forms of the tasks' adapters.
      form_of_task: Which of the forms each task has.
      values: The tasks' variables.
      width: Width of the encoder.
      epsilon: The base's epsilon.
    """

    def __init__(
        self,
        forms: Sequence[AdapterConfig],
        form_of_task: Sequence[int],
        values: Values,
        width: int,
        epsilon: float,
    ):
        self._forms, self._form_of_task = forms, form_of_task
        self._values, self._width, self._epsilon = values, width, epsilon
        self._ranks = {
            name: len(shape) for form in forms for name, shape in form.shapes(width).items()
        }
        self.read_inputs = any(form.design != HOULSBY for form in forms)
        numbers = tf.TensorSpec([None], tf.int32)
        tokens = tf.TensorSpec([None, width], tf.float32)
        self._normalize, self._adapt = (
            tf.function(function, [*[tokens] * count, *[numbers] * 3], autograph=False)
            for function, count in ((self._normalize_tasks, 1), (self._adapt_tasks, 3))
        )

    def at(self, norm: str, adapter: str | None = None) -> list[int]:
        """Returns the numbers of the variables of a site.

        Args:
          norm: The path of its LayerNorm.
          adapter: The path of its adapter.
        """
        numbers = self._values.numbers(norm, ["gamma", "beta"])
        return numbers + (self._values.numbers(adapter, list(self._ranks)) if adapter else [])

    def normalize(self, total: tf.Tensor, batch: Batch, numbers: Sequence[int]) -> tf.Tensor:
        """Computes a site without an adapter.

        Args:
          total: The sum that is normalized, `[tokens, width]`.
          batch: The rows.
          numbers: The numbers of its variables, from `at`.
        """
        rows = batch.rows
        constant = tf.constant(numbers, tf.int32)
        return self._normalize(total, rows.groups, rows.group_tokens, constant)

    def adapt(
        self,
        total: tf.Tensor,
        output: tf.Tensor,
        source: tf.Tensor,
        batch: Batch,
        numbers: Sequence[int],
    ) -> tf.Tensor:
        """Computes a site with an adapter.

        Args:
          total: The sum of the sub-layer's output and the residual, `[tokens, width]`.
          output: The sub-layer's output.
          source: The sub-layer's input, which some designs read.
          batch: The rows.
          numbers: The numbers of its variables, from `at`.
        """
        rows = batch.rows
        constant = tf.constant(numbers, tf.int32)
        return self._adapt(total, output, source, rows.groups, rows.group_tokens, constant)

    def _normalize_tasks(self, total, tasks, sizes, numbers) -> tf.Tensor:
        def normalize_task(task: tf.Tensor | int, total: tf.Tensor) -> tf.Tensor:
            return self._norm(total, task, numbers)

        return self._by_task((total,), tasks, sizes, normalize_task)

    def _adapt_tasks(self, total, output, source, tasks, sizes, numbers) -> tf.Tensor:
        names = list(self._ranks)

        def change_as(form: AdapterConfig, task, output, source) -> tf.Tensor:
            own = list(form.shapes(self._width))
            chosen = tf.gather(numbers[2:], [names.index(name) for name in own])
            values = self._values.of_task(chosen, task, [self._ranks[name] for name in own])
            norm = functools.partial(self._norm, task=task, numbers=numbers)
            return change(form, output, source, dict(zip(own, values, strict=True)), norm=norm)

        def adapt_task(task: tf.Tensor | int, total, output, source=None) -> tf.Tensor:
            branches = [
                functools.partial(change_as, form, task, output, source) for form in self._forms
            ]
            return self._norm(total + choose(self._form_of_task, task, branches), task, numbers)

        read = (total, output, source) if self.read_inputs else (total, output)
        return self._by_task(read, tasks, sizes, adapt_task)

    def _norm(self, tokens: tf.Tensor, task: tf.Tensor | int, numbers: tf.Tensor) -> tf.Tensor:
        gamma, beta = self._values.of_task(numbers[:2], task, [1, 1])
        return layer_norm(tokens, gamma, beta, self._epsilon)

    def _by_task(
        self, tensors: tuple[tf.Tensor, ...], tasks, sizes, function: TaskFunction
    ) -> tf.Tensor:
        if self._values.tasks == 1:
            return function(ONLY, *tensors)
        return by_task(tensors, tasks, sizes, function, self._width)


class Site(tf_keras.layers.Layer):
    """Replaces a LayerNorm, and the adapter before it. Its input is `[1, tokens, width]`.

    Args:
      batch: The rows.
      sites: Computes all sites.
      numbers: The numbers of its variables, from `Sites.at`.
      output: Where an adapter gets the sub-layer's output from; None without an adapter.
      source: Where it gets the sub-layer's input from, if one of the adapters reads it.
    """

    def __init__(
        self,
        batch: Batch,
        sites: Sites,
        numbers: Sequence[int],
        output: InputOf | None = None,
        source: InputOf | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self._batch, self._sites, self._numbers = batch, sites, list(numbers)
        self._output, self._source = output, source

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        total = inputs[0]
        if self._output is None:
            return self._sites.normalize(total, self._batch, self._numbers)[None]
        output = self._output.take()[0]
        source = output if self._source is None else self._source.take()[0]
        return self._sites.adapt(total, output, source, self._batch, self._numbers)[None]
