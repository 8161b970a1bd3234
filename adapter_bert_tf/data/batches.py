"""Batches of examples of like length."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from adapter_bert_tf.data.records import LABELS
from adapter_bert_tf.text.inputs import IDS, MASK, SEGMENTS

# Batches that are sorted by length together: more leave less padding, fewer more chance.
_POOL = 64


def bucket_lengths(max_seq_length: int) -> list[int]:
    """The lengths that rows are padded to: about a tenth apart."""
    lengths, length = [], 0
    while length < max_seq_length:
        length += 2 if length < 16 else 4 if length < 32 else 8 if length < 96 else 16
        lengths.append(min(length, max_seq_length))
    return lengths


def chosen_rows(total: int, count: int | None) -> np.ndarray:
    """Returns so many of all rows, in their order; they don't depend on the run's seed."""
    if count is None or count >= total:
        return np.arange(total)
    return np.sort(np.random.default_rng(0).permutation(total)[:count])


def some_rows(columns: dict[str, Any], count: int | None) -> dict[str, Any]:
    """Returns so many rows of all columns: see `chosen_rows`."""
    rows = chosen_rows(int(columns[IDS].nrows()), count)
    return {name: tf.gather(values, rows) for name, values in columns.items()}


@dataclasses.dataclass
class Batches:
    """Tokenised examples, to be dealt in batches.

    Args:
      columns: Ids, segments and labels, as `read_records` gives them.
      batch_size: Rows of a batch, over all devices.
      lengths: What rows may be padded to, ascending. A single one makes all batches of one
        shape, as a TPU wants it.
      fixed_rows: Whether the last batch is filled up with rows of weight 0.
    """

    columns: dict[str, tf.RaggedTensor | tf.Tensor]
    batch_size: int
    lengths: list[int]
    fixed_rows: bool = False

    def __len__(self) -> int:
        return -(-self.rows // self.batch_size)

    @property
    def rows(self) -> int:
        """Number of examples."""
        return int(self.columns[IDS].nrows())

    def shuffled(self, seed: int, epoch: int) -> list[np.ndarray]:
        """The rows of each batch of an epoch: every example once, like lengths together.

        They depend on nothing but the arguments, so a run can go on from any batch.
        """
        random = np.random.default_rng([seed, epoch])
        order = random.permutation(self.rows)
        pool = self.batch_size * _POOL
        for start in range(0, self.rows, pool):
            part = order[start : start + pool]
            order[start : start + pool] = part[np.argsort(self._sizes[part], kind="stable")]
        batches = self._cut(order)
        random.shuffle(batches)
        return batches

    def by_length(self) -> list[np.ndarray]:
        """The rows of each batch, shortest first: for evaluation, where the order is free."""
        return self._cut(np.argsort(self._sizes, kind="stable"))

    @functools.cached_property
    def _sizes(self) -> np.ndarray:
        return self.columns[IDS].row_lengths().numpy()

    def _cut(self, order: np.ndarray) -> list[np.ndarray]:
        starts = range(0, len(order), self.batch_size)
        return [order[start : start + self.batch_size] for start in starts]

    def padded_length(self, rows: np.ndarray) -> int:
        """What the rows of a batch are padded to."""
        return self.lengths[np.searchsorted(self.lengths, self._sizes[rows].max())]

    def dataset(self, batches: list[np.ndarray]) -> tf.data.Dataset:
        """Yields these batches as `(inputs, labels, weights)`, or `(inputs,)` without labels."""
        return self._deal(batches, self._gather)

    def inputs(self, batches: list[np.ndarray]) -> tf.data.Dataset:
        """Yields the inputs of these batches."""
        return self._deal(batches, self._gather_inputs)

    def _deal(self, batches: list[np.ndarray], gather: Callable) -> tf.data.Dataset:
        rows = tf.ragged.constant([batch.tolist() for batch in batches], tf.int64, ragged_rank=1)
        lengths = [self.padded_length(batch) for batch in batches]
        dataset = tf.data.Dataset.from_tensor_slices((rows, tf.constant(lengths, tf.int64)))
        # Converting it for AutoGraph, which it does not need, takes longer than a short epoch.
        dataset = dataset.map(tf.autograph.experimental.do_not_convert(gather))
        options = tf.data.Options()
        # Workers share each batch, where the default could give them different ones.
        policy = tf.data.experimental.AutoShardPolicy.DATA
        options.experimental_distribute.auto_shard_policy = policy
        # Its thread may hold up the end of an epoch by ten seconds, and a batch takes no time.
        options.autotune.enabled = False
        return dataset.prefetch(2).with_options(options)

    def _gather_inputs(self, rows: tf.Tensor, length: tf.Tensor) -> dict[str, tf.Tensor]:
        total = self.batch_size if self.fixed_rows else tf.size(rows, tf.int64)
        shape = [total, self.lengths[0] if len(self.lengths) == 1 else length]
        ids = tf.gather(self.columns[IDS], rows)
        return {
            IDS: ids.to_tensor(shape=shape),
            MASK: tf.ones_like(ids).to_tensor(shape=shape),
            SEGMENTS: tf.gather(self.columns[SEGMENTS], rows).to_tensor(shape=shape),
        }

    def _gather(self, rows: tf.Tensor, length: tf.Tensor) -> tuple:
        inputs = self._gather_inputs(rows, length)
        if LABELS not in self.columns:
            return (inputs,)
        count = tf.size(rows, tf.int64)
        total = self.batch_size if self.fixed_rows else count
        missing = [0, total - count]
        labels = tf.gather(self.columns[LABELS], rows)
        labels = tf.pad(labels, [missing, *[[0, 0]] * (labels.shape.rank - 1)])
        weights = tf.pad(tf.ones([count]), [missing])
        if self.fixed_rows:
            labels.set_shape([total, *self.columns[LABELS].shape[1:]])
            weights.set_shape([total])
        return inputs, labels, weights
