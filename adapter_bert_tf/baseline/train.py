"""Trains a baseline model, in seconds.

Open in the paper, and chosen here: both optimizers are Adagrad, batches have 128 rows, the model is
scored after each pass over the training rows, the best one is kept, and the training ends early if
for three passes neither the metric was better nor the loss lower by 2 %.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from adapter_bert_tf.baseline.features import Prepared
from adapter_bert_tf.baseline.model import WIDE, BaselineModel
from adapter_bert_tf.data.task import DEV, TRAIN
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.heads.head import Head

BATCH = 128
_PATIENCE, _LOWER = 3, 0.98
_SCORED_TOGETHER = 512
_FIRST_SUM, _EPSILON = 0.1, 1e-7
# Steps of a pass: small sets are not scored after each few steps, large ones more than once.
_FEWEST, _MOST = 16, 128


@dataclasses.dataclass
class Trained:
    """What came of a training.

    Attributes:
      values: The values of the best pass, by path.
      outputs: Its outputs for the dev set.
      steps: Steps in all.
      loss: The last loss.
    """

    values: dict[str, np.ndarray]
    outputs: np.ndarray
    steps: int
    loss: float


class Training:
    """A training of one model.

    Args:
      model: The model.
      head: Knows the loss and the metrics.
      prepared: What it reads.
      labels: Labels by split.
      metric: Name of the metric that decides.
      seed: Seed of the order of the rows.
    """

    def __init__(
        self,
        model: BaselineModel,
        head: Head,
        prepared: Prepared,
        labels: dict[str, np.ndarray],
        metric: str,
        seed: int,
    ):
        self._model, self._head, self._metric = model, head, metric
        self._labels, self._seed = labels, seed
        self._reader = prepared.reader(model.design)
        model.ensure_built(prepared.module.width)
        self._train_labels = tf.constant(labels[TRAIN])
        design = model.design
        self._deep = _Adagrad(design.deep_rate, [*model.deep_variables(), *self._reader.trained])
        self._wide = _Adagrad(design.wide_rate, [model.wide])
        self._steps = tf.function(
            self._do_steps, [tf.TensorSpec([None, None], tf.int32)], autograph=False
        )
        self._forward = tf.function(
            lambda rows: model(self._reader(DEV, rows)),
            [tf.TensorSpec([None], tf.int32)],
            autograph=False,
        )

    @property
    def trained(self) -> list[tf.Variable]:
        """Returns all that is trained."""
        return [*self._deep.variables, *self._wide.variables]

    def run(
        self, watch: Callable[[int, float], None], is_stopped: Callable[[], bool]
    ) -> Trained | None:
        """Trains until the samples are used up, or nothing gets better.

        Args:
          watch: Is told the number of each pass and its metric.
          is_stopped: Whether to end at once.

        Returns:
          The best pass; None if it was ended.
        """
        best: tuple[float, float] = (-math.inf, -math.inf)
        found: Trained | None = None
        since, steps, loss, lowest = 0, 0, math.nan, math.inf
        for number, batches in enumerate(self._batches(), start=1):
            loss = float(self._steps(batches))
            steps += len(batches)
            if is_stopped():
                return None
            if not math.isfinite(loss):
                break
            outputs = self._outputs()
            value = self._score(outputs)
            watch(number, value)
            dev_loss = float(tf.reduce_mean(self._head.loss(self._labels[DEV], outputs)))
            is_lower = dev_loss < _LOWER * lowest
            lowest = dev_loss if is_lower else lowest
            since = 0 if value > best[0] or is_lower else since + 1
            # Of passes that are equally good, the one with the lower loss.
            if (value, -dev_loss) > best:
                best, found = (value, -dev_loss), Trained(self._values(), outputs, steps, loss)
            if since >= _PATIENCE:
                break
        if found is None:
            raise UserError(f"the loss is {loss} after {steps} steps; lower rates are needed")
        return dataclasses.replace(found, steps=steps)

    def _do_steps(self, batches: tf.Tensor) -> tf.Tensor:
        """Does a step for each row of `batches`: in Keras's `fit`, each would go through Python."""

        def step(number: tf.Tensor, _: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return number + 1, self._step(batches[number])

        count = tf.shape(batches)[0]
        return tf.while_loop(lambda i, _: i < count, step, (0, 0.0), parallel_iterations=1)[1]

    def _step(self, rows: tf.Tensor) -> tf.Tensor:
        labels = tf.gather(self._train_labels, rows)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self._deep.variables)
            inputs = self._reader(TRAIN, rows)
            # Each of the batch's features once, for sum, regularization and update alike.
            used, places, uses = tf.unique_with_counts(inputs[WIDE].flat_values)
            inputs[WIDE] = inputs[WIDE].with_flat_values(places)
            weights = tf.gather(self._model.wide, used)
            tape.watch(weights)
            outputs = self._model(inputs, training=True, wide=weights)
            loss = tf.reduce_mean(self._head.loss(labels, outputs))
            total = loss + self._model.penalty(weights, uses, tf.size(rows))
        of_weights, *of_deep = tape.gradient(total, [weights, *self._deep.variables])
        self._deep.apply([_add_up(each) for each in of_deep])
        self._wide.apply([tf.IndexedSlices(of_weights, used)])
        return loss

    def _batches(self) -> Iterator[np.ndarray]:
        """Yields the rows of each batch of a pass, until all samples are used up."""
        rows = len(self._labels[TRAIN])
        batch = min(BATCH, rows)
        random = np.random.default_rng(self._seed)
        per_pass = min(max(rows // batch, _FEWEST), _MOST)
        left = max(1, self._model.design.samples // batch)
        order = np.zeros([0], np.int32)
        while left > 0:
            steps = min(per_pass, left)
            while len(order) < steps * batch:
                order = np.concatenate([order, random.permutation(rows).astype(np.int32)])
            yield order[: steps * batch].reshape([steps, batch])
            order, left = order[steps * batch :], left - steps

    def _outputs(self) -> np.ndarray:
        rows = np.arange(len(self._labels[DEV]), dtype=np.int32)
        starts = range(0, len(rows), _SCORED_TOGETHER)
        parts = [self._forward(rows[start : start + _SCORED_TOGETHER]) for start in starts]
        return np.concatenate(parts)

    def _score(self, outputs: np.ndarray) -> float:
        return dict(self._head.evaluate([self._metric], self._labels[DEV], outputs))[self._metric]

    def _values(self) -> dict[str, np.ndarray]:
        values = {name: each.numpy() for name, each in self._model.variables_by_path().items()}
        module = {f"module/{i}": each.numpy() for i, each in enumerate(self._reader.trained)}
        return values | module


def _add_up(gradient: tf.Tensor | tf.IndexedSlices | None) -> tf.Tensor | tf.IndexedSlices | None:
    """Adds up the gradients of equal rows."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    used, places = tf.unique(gradient.indices)
    sums = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(used))
    return tf.IndexedSlices(sums, used)


class _Adagrad:
    """Adagrad with Keras's defaults and a rate of its own for a part of the model.

    TensorFlow's kernels are called directly, because Keras would add up the gradients of equal rows
    again.
    """

    def __init__(self, rate: float, variables: list[tf.Variable]):
        self.variables = variables
        self._rate = rate
        self._sums = [tf.Variable(tf.fill(each.shape, _FIRST_SUM)) for each in variables]

    def apply(self, gradients: list[tf.Tensor | tf.IndexedSlices | None]) -> None:
        """Changes the variables. Rows of sparse gradients are different ones."""
        for variable, total, gradient in zip(self.variables, self._sums, gradients, strict=True):
            places = {"var": variable.handle, "accum": total.handle}
            rates = {"lr": self._rate, "epsilon": _EPSILON}
            if isinstance(gradient, tf.IndexedSlices):
                tf.raw_ops.ResourceSparseApplyAdagradV2(
                    **places, **rates, grad=gradient.values, indices=gradient.indices
                )
            elif gradient is not None:
                tf.raw_ops.ResourceApplyAdagradV2(**places, **rates, grad=gradient)
