"""Batches without padding, in which the tokens of all rows are concatenated.

Products and LayerNorms then take time in proportion to the tokens, however long the longest row is.
Padded to the same length, the rows of six GLUE tasks have three times as many tokens. Only
attention needs rows of equal length, and pads a few rows of similar length at a time.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

from adapter_bert_tf.text.inputs import IDS, SEGMENTS

POSITIONS = "positions"

# Takes a task's number and the part of each tensor that belongs to the task.
TaskFunction = Callable[..., tf.Tensor]


@dataclasses.dataclass(frozen=True)
class Rows:
    """The rows of a batch, sorted by task, with their tokens concatenated.

    The rows of a task form a group. Because of the sorting, a group is a slice of the tokens.

    Args:
      ids: Id of each token, `[tokens]`.
      segments: Segment of each token.
      positions: Position of each token in its row.
      row_of: Row of each token.
      token_groups: Group of each token.
      lengths: Number of tokens of each row, `[rows]`.
      tasks: Number of each row's task.
      order: Place of each row in the batch before sorting.
      groups: The task of each group, `[groups]`.
      group_rows: Number of rows of each group.
      group_tokens: Number of tokens of each group.
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
        """Sorts and concatenates the rows of a batch.

        Args:
          inputs: Ids, segments and positions, `[rows, (tokens)]`.
          tasks: Number of each row's task, `[rows]`.
        """
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
        """Returns the arguments of the constructor."""
        return [getattr(self, field.name) for field in dataclasses.fields(self)]

    @property
    def starts(self) -> tf.Tensor:
        """Index of each row's first token, `[rows]`."""
        return tf.cumsum(self.lengths, exclusive=True)

    def first_tokens(self) -> "Rows":
        """Returns the same rows with only the first token of each."""
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

    def in_order(self, rows: tf.Tensor) -> tf.Tensor:
        """Returns `[rows, ...]` in the order that the rows had before sorting."""
        return tf.gather(rows, tf.math.invert_permutation(self.order))


def by_task(
    tensors: tuple[tf.Tensor, ...],
    tasks: tf.Tensor,
    sizes: tf.Tensor,
    function: TaskFunction,
    width: int,
) -> tf.Tensor:
    """Applies a function to each task's part of some tensors, and concatenates the results.

    Args:
      tensors: Tensors of the same length, sorted by task.
      tasks: The tasks that occur, in the order of the tensors.
      sizes: The length of each task's part.
      function: Takes a task's number and its part of each tensor, and returns a matrix.
      width: Width of the result.
    """
    starts = tf.cumsum(sizes, exclusive=True)

    def part(number: tf.Tensor) -> tf.Tensor:
        start = tf.gather(starts, number)
        chosen = slice(start, start + tf.gather(sizes, number))
        return function(tf.gather(tasks, number), *(tensor[chosen] for tensor in tensors))

    return concat_loop(part, tf.size(tasks), width)


def choose(
    number_of_task: Sequence[int], task: tf.Tensor | int, branches: Sequence[Callable]
) -> tf.Tensor:
    """Returns the result of the branch that a task has.

    Args:
      number_of_task: Which of the branches each task has.
      task: The task's number.
      branches: Functions without arguments. If there is a single one, nothing has to be chosen.
    """
    if len(branches) == 1:
        return branches[0]()
    return tf.switch_case(tf.gather(number_of_task, task), branches)


def concat_loop(part: Callable[[tf.Tensor], tf.Tensor], count: tf.Tensor, width: int) -> tf.Tensor:
    """Concatenates the matrices `part(0)`, ..., `part(count - 1)` of `width` columns."""
    parts = tf.TensorArray(tf.float32, count, element_shape=[None, width], infer_shape=False)
    _, parts = tf.while_loop(
        lambda i, _: i < count, lambda i, parts: (i + 1, parts.write(i, part(i))), (0, parts)
    )
    return parts.concat()


# Attention sorts the rows by length and pads this many at a time to the same length. This also
# limits the memory, which grows with the square of the length.
TOGETHER = 8


class Padded(NamedTuple):
    """Where attention finds the tokens of padded rows.

    Rows are padded in groups. Within a group the places are `[rows, heads, length]`, flattened.
    This is a tuple because functions of a graph take tuples of tensors as arguments.

    Args:
      tokens: Index of the token at each place, `[places]`. Padding has some token of the same row.
      heads: The head at each place.
      is_token: Whether there is a token at each place, and not padding.
      starts: The first place of each group, `[groups]`.
      sizes: Number of places of each group.
      lengths: The length to which the rows of each group are padded.
    """

    tokens: tf.Tensor
    heads: tf.Tensor
    is_token: tf.Tensor
    starts: tf.Tensor
    sizes: tf.Tensor
    lengths: tf.Tensor

    @classmethod
    def of(cls, lengths: tf.Tensor, starts: tf.Tensor, heads: int) -> "Padded":
        """Pads rows.

        Args:
          lengths: Number of tokens of each row, in the order in which they are grouped.
          starts: Index of each row's first token.
          heads: Number of attention heads.
        """
        groups, padded = _pad(lengths)
        # A line holds the places of one head in one row.
        lines = tf.repeat(padded, heads)
        line_starts = tf.cumsum(lines, exclusive=True)
        line = tf.repeat(tf.range(tf.size(lines)), lines)
        step = tf.range(tf.size(line)) - tf.gather(line_starts, line)
        row = line // heads
        last = tf.gather(lengths, row) - 1
        sizes = tf.math.segment_sum(padded, groups) * heads
        return cls(
            tokens=tf.gather(starts, row) + tf.minimum(step, last),
            heads=line % heads,
            is_token=step <= last,
            starts=tf.cumsum(sizes, exclusive=True),
            sizes=sizes,
            lengths=tf.math.segment_max(lengths, groups),
        )

    def group(self, values: tf.Tensor, number: tf.Tensor, heads: int) -> tf.Tensor:
        """Returns one group's part of values that are given for all places."""
        start, size, length = (each[number] for each in (self.starts, self.sizes, self.lengths))
        return tf.reshape(values[start : start + size], [-1, heads, length])


def _pad(lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the group of each row, and the length to which the row is padded."""
    groups = tf.range(tf.size(lengths)) // TOGETHER
    return groups, tf.gather(tf.math.segment_max(lengths, groups), groups)


class Batch:
    """The rows that the encoder is being called with.

    Keras hands only the tokens from layer to layer. The layers of an export share this object to
    find out where rows begin and which task they belong to, while a call is being traced.

    Args:
      heads: Number of attention heads.

    Attributes:
      rows: The rows, with the tokens for which the layers compute outputs.
      queries: The padded places of these tokens.
      places: The place in `queries` of each head of these tokens, `[tokens, heads]`.
      keys: The padded places of all tokens.
    """

    rows: Rows
    queries: Padded
    places: tf.Tensor
    keys: Padded

    def __init__(self, heads: int):
        self._heads = heads

    def set(self, rows: Rows) -> None:
        """Starts a call with these rows."""
        self._order = tf.argsort(rows.lengths, stable=True)
        self._starts = tf.gather(rows.starts, self._order)
        self._compute(rows)
        self.keys = self.queries

    def keep_first_tokens(self) -> None:
        """Makes the layers compute only the first token of each row from here on."""
        self._compute(self.rows.first_tokens())

    def _compute(self, rows: Rows) -> None:
        lengths = tf.gather(rows.lengths, self._order)
        self.rows = rows
        self.queries = Padded.of(lengths, self._starts, self._heads)
        self.places = self._places(rows, lengths)

    def _places(self, rows: Rows, lengths: tf.Tensor) -> tf.Tensor:
        _, padded = _pad(lengths)
        starts = tf.cumsum(padded, exclusive=True) * self._heads
        rank = tf.gather(tf.math.invert_permutation(self._order), rows.row_of)
        step = tf.range(tf.size(rows.ids)) - tf.gather(rows.starts, rows.row_of)
        heads = tf.range(self._heads) * tf.gather(padded, rank)[:, None]
        return (tf.gather(starts, rank) + step)[:, None] + heads
