"""Layers in which each row has the variables of its own task.

The arithmetic is the encoder's (`encoder/adapter.py` and `encoder/arithmetic.py`). The layers here
find the variables of each task, and compute the tokens of each task together. However many layers
there are, the graph has a single function for all adapters, and one for all LayerNorms.
"""

import functools
from collections.abc import Sequence

import tensorflow as tf
import tf_keras

from adapter_bert_tf.encoder.adapter import HOULSBY, AdapterConfig, adapt
from adapter_bert_tf.encoder.adapter_layer import InputOf
from adapter_bert_tf.encoder.arithmetic import layer_norm
from adapter_bert_tf.serve.rows import Batch, by_task, choose
from adapter_bert_tf.serve.values import ONLY, Values


class Adapters:
    """Computes the adapters of all tasks, layers and sites.

    A task without an adapter at some site has one of zeros there, which adds nothing.

    Args:
      forms: The forms of the tasks' adapters.
      form_of_task: Which of the forms each task has.
      values: The tasks' variables.
      norms: The tasks' LayerNorms.
      width: Width of the encoder.
    """

    def __init__(
        self,
        forms: Sequence[AdapterConfig],
        form_of_task: Sequence[int],
        values: Values,
        norms: "Norms",
        width: int,
    ):
        self._forms, self._form_of_task = forms, form_of_task
        self._values, self._norms = values, norms
        self._ranks = {
            name: len(shape) for form in forms for name, shape in form.shapes(width).items()
        }
        self.read_inputs = any(form.design != HOULSBY for form in forms)
        numbers = tf.TensorSpec([None], tf.int32)
        tokens = tf.TensorSpec([None, width], tf.float32)
        self._adapt = tf.function(self._by_task, [tokens, tokens, *[numbers] * 3], autograph=False)

    def at(self, path: str, norm: str) -> list[int]:
        """Returns the numbers of an adapter's variables, and of those of the LayerNorm behind it.

        Args:
          path: The adapter's path.
          norm: The LayerNorm's path.
        """
        return [*self._values.numbers(path, list(self._ranks)), *self._norms.at(norm)]

    def __call__(
        self, output: tf.Tensor, source: tf.Tensor, batch: Batch, numbers: Sequence[int]
    ) -> tf.Tensor:
        """Returns what the adapter makes of a sub-layer's output.

        Args:
          output: The sub-layer's output, `[tokens, width]`.
          source: The sub-layer's input, which some designs read.
          batch: The rows.
          numbers: The numbers of the adapter's variables, from `at`.
        """
        rows = batch.rows
        constant = tf.constant(numbers, tf.int32)
        return self._adapt(output, source, rows.groups, rows.group_tokens, constant)

    def _by_task(self, output, source, tasks, sizes, numbers) -> tf.Tensor:
        names = list(self._ranks)

        def adapt_as(form: AdapterConfig, task, output, source) -> tf.Tensor:
            own = list(form.shapes(output.shape[-1]))
            chosen = tf.gather(numbers, [names.index(name) for name in own])
            values = self._values.of_task(chosen, task, [self._ranks[name] for name in own])

            def norm(tokens: tf.Tensor) -> tf.Tensor:
                return self._norms.of_task(tokens, task, numbers[-2:])

            return adapt(form, output, source, dict(zip(own, values, strict=True)), norm=norm)

        def adapt_task(task: tf.Tensor | int, output: tf.Tensor, source: tf.Tensor) -> tf.Tensor:
            branches = [
                functools.partial(adapt_as, form, task, output, source) for form in self._forms
            ]
            return choose(self._form_of_task, task, branches)

        if self._values.tasks == 1:
            return adapt_task(ONLY, output, source)
        return by_task((output, source), tasks, sizes, adapt_task, output.shape[-1])


class TaskAdapter(tf_keras.layers.Layer):
    """Replaces `Adapter`. Its input is `[1, tokens, width]`.

    Args:
      batch: The rows.
      adapters: Computes all adapters.
      numbers: The numbers of the adapter's variables, from `Adapters.at`.
      source: Where an adapter gets the sub-layer's input from, if one of them reads it.
    """

    def __init__(
        self,
        batch: Batch,
        adapters: Adapters,
        numbers: Sequence[int],
        source: InputOf | None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self._batch, self._adapters, self._source = batch, adapters, source
        self._numbers = list(numbers)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        source = inputs if self._source is None else self._source.take()
        return self._adapters(inputs[0], source[0], self._batch, self._numbers)[None]


class Norms:
    """Computes the LayerNorms of all tasks.

    Args:
      values: The tasks' variables.
      width: Width of the encoder.
      epsilon: The base's epsilon.
    """

    def __init__(self, values: Values, width: int, epsilon: float):
        self._values, self._width, self._epsilon = values, width, epsilon
        numbers, tokens = tf.TensorSpec([None], tf.int32), tf.TensorSpec([None, width], tf.float32)
        self._normalize = tf.function(self._by_task, [tokens, *[numbers] * 3], autograph=False)

    def at(self, path: str) -> list[int]:
        """Returns the numbers of the variables of the LayerNorm at a path."""
        return self._values.numbers(path, ["gamma", "beta"])

    def __call__(self, tokens: tf.Tensor, batch: Batch, numbers: Sequence[int]) -> tf.Tensor:
        """Normalizes `[tokens, width]` with the variables that `at` returned the numbers of."""
        rows = batch.rows
        constant = tf.constant(numbers, tf.int32)
        return self._normalize(tokens, rows.groups, rows.token_groups, constant)

    def of_task(self, tokens: tf.Tensor, task, numbers: tf.Tensor) -> tf.Tensor:
        """Normalizes the tokens of one task, with its variables of these numbers."""
        gamma, beta = self._values.of_task(numbers, task, [1, 1])
        return layer_norm(tokens, gamma, beta, self._epsilon)

    def _by_task(self, tokens, tasks, token_groups, numbers) -> tf.Tensor:
        if self._values.tasks == 1:
            return self.of_task(tokens, ONLY, numbers)
        gamma, beta = (
            tf.gather(self._values.vectors(number, tasks, self._width), token_groups)
            for number in tf.unstack(numbers, 2)
        )
        return layer_norm(tokens, gamma, beta, self._epsilon)


class TaskLayerNorm(tf_keras.layers.Layer):
    """Replaces a LayerNorm. Its input is `[1, tokens, width]`.

    Args:
      batch: The rows.
      norms: Computes all LayerNorms.
      path: Path of the LayerNorm.
    """

    def __init__(self, batch: Batch, norms: Norms, path: str, **kwargs):
        super().__init__(**kwargs)
        self._batch, self._norms = batch, norms
        self._numbers = norms.at(path)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        return self._norms(inputs[0], self._batch, self._numbers)[None]
