"""Batches without padding, in which the tokens of all rows are concatenated.

Products and LayerNorms then take time in proportion to the tokens, however long the longest row is.
Padded to the same length, the rows of six GLUE tasks have three times as many tokens. Only
attention needs rows of equal length, and pads a few rows of similar length at a time.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

from adapter_bert_tf.encoder.arithmetic import mask_bias
from adapter_bert_tf.serve.forks import Forks

# Takes a task's number and the part of each tensor that belongs to the task.
TaskFunction = Callable[..., tf.Tensor]

# TensorFlow's own choice.
AT_ONCE = 10


@dataclasses.dataclass(frozen=True)
class Rows:
    """Rows sorted by task, with their tokens concatenated. A row is a task on a text.

    The rows of a task form a group. Because of the sorting, a group is a slice of the tokens.

    Args:
      tasks: Number of each row's task, `[rows]`.
      texts: Number of each row's text.
      lengths: Number of tokens of each row.
      row_of: Row of each token, `[tokens]`.
      groups: The task of each group, `[groups]`.
      group_rows: Number of rows of each group.
      group_tokens: Number of tokens of each group.
    """

    tasks: tf.Tensor
    texts: tf.Tensor
    lengths: tf.Tensor
    row_of: tf.Tensor
    groups: tf.Tensor
    group_rows: tf.Tensor
    group_tokens: tf.Tensor

    @classmethod
    def of(cls, tasks: tf.Tensor, texts: tf.Tensor, text_lengths: tf.Tensor) -> "Rows":
        """Returns rows, given in the order of their tasks.

        Args:
          tasks: Number of each row's task, `[rows]`.
          texts: Number of each row's text, `[rows]`.
          text_lengths: Number of tokens of each text, `[texts]`.
        """
        lengths = tf.gather(text_lengths, texts)
        groups, group_of, group_rows = tf.unique_with_counts(tasks)
        row_of = tf.repeat(tf.range(tf.size(lengths)), lengths)
        return cls(
            tasks=tasks,
            texts=texts,
            lengths=lengths,
            row_of=row_of,
            groups=groups,
            group_rows=group_rows,
            group_tokens=tf.math.unsorted_segment_sum(lengths, group_of, tf.size(groups)),
        )

    @property
    def starts(self) -> tf.Tensor:
        """Index of each row's first token, `[rows]`."""
        return tf.cumsum(self.lengths, exclusive=True)

    def steps(self) -> tf.Tensor:
        """Returns how many tokens of its row stand before each token, `[tokens]`."""
        return tf.range(tf.size(self.row_of)) - tf.gather(self.starts, self.row_of)

    def tokens_of(self, starts: tf.Tensor) -> tf.Tensor:
        """Returns where tokens are that are concatenated in another way, `[tokens]`.

        Args:
          starts: Where the first token of each row is there, `[rows]`.
        """
        return tf.gather(starts, self.row_of) + self.steps()


def merge_rows(tasks: tf.Tensor, texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Sorts rows by task, and merges rows of the same task and text.

    Args:
      tasks: Number of each row's task, `[rows]`.
      texts: Number of each row's text, `[rows]`.

    Returns:
      The tasks and the texts of the merged rows, and the merged row of each row.
    """
    # No number of tasks and texts that fits into the memory lets such a key overflow.
    count = tf.cast(tf.reduce_max(tf.concat([texts, [0]], 0)) + 1, tf.int64)
    keys = tf.cast(tasks, tf.int64) * count + tf.cast(texts, tf.int64)
    order = tf.argsort(keys, stable=True)
    merged, row_of = tf.unique(tf.gather(keys, order))
    return (
        tf.cast(merged // count, tf.int32),
        tf.cast(merged % count, tf.int32),
        tf.gather(row_of, tf.math.invert_permutation(order)),
    )


class Texts(NamedTuple):
    """The different texts of a batch, with their tokens concatenated.

    Args:
      ids: Id of each token, `[tokens]`.
      segments: Segment of each token.
      positions: Position of each token in its text.
      lengths: Number of tokens of each text, `[texts]`.
    """

    ids: tf.Tensor
    segments: tf.Tensor
    positions: tf.Tensor
    lengths: tf.Tensor


def by_task(
    tensors: tuple[tf.Tensor, ...],
    tasks: tf.Tensor,
    sizes: tf.Tensor,
    function: TaskFunction,
    width: int,
    at_once: int = AT_ONCE,
) -> tf.Tensor:
    """Applies a function to each task's part of some tensors, and concatenates the results.

    Args:
      tensors: Tensors of the same length, sorted by task.
      tasks: The tasks that occur, in the order of the tensors.
      sizes: The length of each task's part.
      function: Takes a task's number and its part of each tensor, and returns a matrix.
      width: Width of the result.
      at_once: How many parts may be computed at the same time.
    """
    count = tf.size(tasks)
    parts = [
        tf.TensorArray(
            tensor.dtype, count, element_shape=[None, *tensor.shape[1:]], infer_shape=False
        ).split(tensor, sizes)
        for tensor in tensors
    ]

    def part(number: tf.Tensor) -> tf.Tensor:
        return function(tf.gather(tasks, number), *(each.read(number) for each in parts))

    return concat_loop(part, count, width, at_once)


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


def concat_loop(
    part: Callable[[tf.Tensor], tf.Tensor], count: tf.Tensor, width: int, at_once: int = AT_ONCE
) -> tf.Tensor:
    """Concatenates the matrices `part(0)`, ..., `part(count - 1)` of `width` columns.

    Up to `at_once` of them are computed at the same time, and take memory.
    """
    parts = tf.TensorArray(tf.float32, count, element_shape=[None, width], infer_shape=False)
    _, parts = tf.while_loop(
        lambda i, _: i < count,
        lambda i, parts: (i + 1, parts.write(i, part(i))),
        (0, parts),
        parallel_iterations=at_once,
    )
    return parts.concat()


# Attention sorts the rows by length and pads this many at a time to the same length. This also
# limits the memory, which grows with the square of the length. With 8, a mixed batch takes 1.02 to
# 1.03 of the time.
TOGETHER = 4
# Rows that are as long as each other need no padding, and are computed together up to this number.
_TOGETHER_IF_EQUAL = 8


class Padded(NamedTuple):
    """Where attention finds the tokens of padded rows.

    Rows are padded in groups. Within a group the places are `[rows, heads, length]`, flattened.
    This is a tuple because functions of a graph take tuples of tensors as arguments.

    Args:
      tokens: Index of the token at each place, `[places]`. Padding has some token of the same row.
      heads_of_tokens: Index of the head of this token at each place, in `[heads, tokens]`.
      mask: What to add to the logits of each place: see `mask_bias`.
      starts: The first place of each group, `[groups]`.
      sizes: Number of places of each group.
      lengths: The length to which the rows of each group are padded.
      are_equal: Whether the rows are few enough to be computed together, and none is padded.
      one: The number 1, which TensorFlow doesn't know beforehand: see `attention.py`.
    """

    tokens: tf.Tensor
    heads_of_tokens: tf.Tensor
    mask: tf.Tensor
    starts: tf.Tensor
    sizes: tf.Tensor
    lengths: tf.Tensor
    are_equal: tf.Tensor
    one: tf.Tensor

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
        tokens = tf.gather(starts, row) + tf.minimum(step, last)
        sizes = tf.math.segment_sum(padded, groups) * heads
        count = tf.size(lengths)
        are_few = (count > 0) & (count <= _TOGETHER_IF_EQUAL)
        return cls(
            tokens=tokens,
            heads_of_tokens=line % heads * tf.reduce_sum(lengths) + tokens,
            mask=mask_bias(step <= last),
            starts=tf.cumsum(sizes, exclusive=True),
            sizes=sizes,
            lengths=tf.math.segment_max(lengths, groups),
            are_equal=are_few & tf.reduce_all(lengths == lengths[:1]),
            one=tf.cast(count >= 0, tf.float32),
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
      forks: Where rows of tasks on one text, which are computed once until then, part.

    Attributes:
      rows: The rows, with the tokens for which the layers compute outputs.
      queries: The padded places of these tokens.
      places: The place in `queries` of each head of these tokens, `[tokens, heads]`.
      heads_last: The same for tokens that are not padded: the places are `[heads, tokens]`.
      keys: The padded places of all tokens.
      positions: The position of each token of the first layer.
    """

    rows: Rows
    queries: Padded
    places: tf.Tensor
    heads_last: tf.Tensor
    keys: Padded
    positions: tf.Tensor

    def __init__(self, heads: int, forks: Forks):
        self._heads, self._forks = heads, forks

    def start(self, texts: Texts, tasks: tf.Tensor, row_texts: tf.Tensor) -> Texts:
        """Starts a call.

        Args:
          texts: The texts.
          tasks: Number of each row's task, `[rows]`.
          row_texts: Number of each row's text, `[rows]`.

        Returns:
          The tokens of the rows that are computed first.
        """
        self._asked, self._lengths = (tasks, row_texts), texts.lengths
        self._regroup(0)
        starts = tf.gather(tf.cumsum(texts.lengths, exclusive=True), self.rows.texts)
        tokens = self.rows.tokens_of(starts)
        ids, segments, self.positions = (tf.gather(each, tokens) for each in texts[:3])
        return Texts(ids, segments, self.positions, self.rows.lengths)

    def fork(self, point: int, tokens: tf.Tensor) -> tf.Tensor:
        """Hands the tokens on to the rows of the tasks that begin to differ at a point.

        Args:
          point: The point, as in `Forks`.
          tokens: The tokens before, `[tokens, width]`.

        Returns:
          The tokens of all rows from here on.
        """
        if point not in self._forks.stand_ins:
            return tokens
        before, row_before = self.rows, self._row_of
        self._regroup(point)
        # Any of the rows that a row stands for was in the same row before.
        asked = tf.range(tf.size(row_before))
        any_asked = tf.math.unsorted_segment_min(asked, self._row_of, tf.size(self.rows.tasks))
        starts = tf.gather(before.starts, tf.gather(row_before, any_asked))
        return tf.gather(tokens, self.rows.tokens_of(starts))

    def keep_first_tokens(self) -> None:
        """Makes the layers compute only the first token of each row from here on."""
        self._lengths = tf.ones_like(self._lengths)
        self._compute(Rows.of(self.rows.tasks, self.rows.texts, self._lengths))

    def _regroup(self, point: int) -> None:
        tasks, texts = self._asked
        stand_ins = self._forks.stand_ins[point]
        if stand_ins == list(range(len(stand_ins))):
            # No task stands for another one any more, and the rows are merged already.
            self._row_of = tf.range(tf.size(tasks))
        else:
            tasks, texts, self._row_of = merge_rows(tf.gather(stand_ins, tasks), texts)
        rows = Rows.of(tasks, texts, self._lengths)
        self._order = tf.argsort(rows.lengths, stable=True)
        self._starts = tf.gather(rows.starts, self._order)
        self._compute(rows)
        self.keys = self.queries

    def _compute(self, rows: Rows) -> None:
        lengths = tf.gather(rows.lengths, self._order)
        self.rows = rows
        self.queries = Padded.of(lengths, self._starts, self._heads)
        self.places = self._places(rows, lengths)
        count = tf.size(rows.row_of)
        self.heads_last = tf.range(count)[:, None] + tf.range(self._heads) * count

    def _places(self, rows: Rows, lengths: tf.Tensor) -> tf.Tensor:
        _, padded = _pad(lengths)
        starts = tf.cumsum(padded, exclusive=True) * self._heads
        rank = tf.gather(tf.math.invert_permutation(self._order), rows.row_of)
        heads = tf.range(self._heads) * tf.gather(padded, rank)[:, None]
        return (tf.gather(starts, rank) + rows.steps())[:, None] + heads
