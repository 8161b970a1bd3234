"""A batch without padding: the tokens of all rows in one line."""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from adapter_bert_tf.text.inputs import IDS, SEGMENTS

POSITIONS = "positions"

# From a task's number, and what the batch has of the task, to the result.
TaskFunction = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


@dataclasses.dataclass(frozen=True)
class Rows:
    """The rows of a batch, sorted by task, their tokens end to end.

    Products and LayerNorms then cost what there are tokens, however long the longest row is:
    rows of six GLUE tasks, padded, are three times as many. And what belongs to a task is
    one slice.

    Args:
      ids: The tokens, `[tokens]`.
      segments: Their segments.
      positions: Their places in their rows.
      row_of: The rows that they are in.
      token_groups: The groups that they are in.
      lengths: Tokens of each row, `[rows]`.
      tasks: Number of each row's task.
      order: The place in the batch that each row came from.
      groups: The tasks that occur, `[groups]`.
      group_rows: Rows of each of them.
      group_tokens: Tokens of each of them.
    """

    ids: tf.Tensor
    segments: tf.Tensor
    positions: tf.Tensor
    row_of: tf.Tensor
    token_groups: tf.Tensor
    lengths: tf.Tensor
    tasks: tf.Tensor
    order: tf.Tensor
    groups: tf.Tensor
    group_rows: tf.Tensor
    group_tokens: tf.Tensor

    @classmethod
    def line_up(cls, inputs: dict[str, tf.RaggedTensor], tasks: tf.Tensor) -> "Rows":
        """Makes rows of ragged inputs, `[rows, (tokens)]`, and the number of each row's task."""
        order = tf.argsort(tasks, stable=True)
        ids, segments, positions = (
            tf.gather(inputs[name], order) for name in (IDS, SEGMENTS, POSITIONS)
        )
        lengths = tf.cast(ids.row_lengths(), tf.int32)
        tasks = tf.gather(tasks, order)
        groups, group_of, group_rows = tf.unique_with_counts(tasks)
        row_of = tf.cast(ids.value_rowids(), tf.int32)
        return cls(
            ids=ids.flat_values,
            segments=segments.flat_values,
            positions=positions.flat_values,
            row_of=row_of,
            token_groups=tf.gather(group_of, row_of),
            lengths=lengths,
            tasks=tasks,
            order=order,
            groups=groups,
            group_rows=group_rows,
            group_tokens=tf.math.unsorted_segment_sum(lengths, group_of, tf.size(groups)),
        )

    def fields(self) -> list[tf.Tensor]:
        """The constructor's arguments."""
        return [getattr(self, field.name) for field in dataclasses.fields(self)]

    @property
    def starts(self) -> tf.Tensor:
        """The first token of each row."""
        return tf.cumsum(self.lengths, exclusive=True)

    def first_tokens(self) -> "Rows":
        """The same rows with their first tokens only."""
        ids, segments, positions, groups = (
            tf.gather(each, self.starts)
            for each in (self.ids, self.segments, self.positions, self.token_groups)
        )
        return dataclasses.replace(
            self,
            ids=ids,
            segments=segments,
            positions=positions,
            row_of=tf.range(tf.size(ids)),
            token_groups=groups,
            lengths=tf.ones_like(self.lengths),
            group_tokens=self.group_rows,
        )

    def tokens_by_task(self, tokens: tf.Tensor, function: TaskFunction, width: int) -> tf.Tensor:
        """Applies `function(task, part)` to each task's part of `[tokens, ...]`."""
        return by_task(tokens, self.groups, self.group_tokens, function, width)

    def rows_by_task(self, rows: tf.Tensor, function: TaskFunction, width: int) -> tf.Tensor:
        """Applies `function(task, part)` to each task's part of `[rows, ...]`."""
        return by_task(rows, self.groups, self.group_rows, function, width)

    def in_order(self, rows: tf.Tensor) -> tf.Tensor:
        """Puts `[rows, ...]` back into the batch's order."""
        return tf.gather(rows, tf.math.invert_permutation(self.order))


def by_task(
    tensor: tf.Tensor, tasks: tf.Tensor, sizes: tf.Tensor, function: TaskFunction, width: int
) -> tf.Tensor:
    """Applies `function(task, part)` to the parts of `tensor`, which have those sizes."""
    starts = tf.cumsum(sizes, exclusive=True)

    def part(number: tf.Tensor) -> tf.Tensor:
        start = tf.gather(starts, number)
        chosen = tensor[start : start + tf.gather(sizes, number)]
        return function(tf.gather(tasks, number), chosen)

    return concat_loop(part, tf.size(tasks), width)


def concat_loop(part: Callable[[tf.Tensor], tf.Tensor], count: tf.Tensor, width: int) -> tf.Tensor:
    """Concatenates `part(0)` to `part(count - 1)`, which are matrices of that width."""
    parts = tf.TensorArray(tf.float32, count, element_shape=[None, width], infer_shape=False)
    _, parts = tf.while_loop(
        lambda i, _: i < count, lambda i, parts: (i + 1, parts.write(i, part(i))), (0, parts)
    )
    return parts.concat()
