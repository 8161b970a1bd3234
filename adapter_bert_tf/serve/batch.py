"""What the layers inside the encoder know of the batch."""

from typing import NamedTuple

import tensorflow as tf

from adapter_bert_tf.serve.rows import Rows

# Rows that are padded to one length and computed together, in the order of their lengths. It
# bounds the memory too, which grows with the square of the length.
TOGETHER = 8


class Padded(NamedTuple):
    """Rows as attention needs them: padded, and the heads in front of the tokens.

    A tuple, so that it can be handed to a part of the graph.

    Args:
      tokens: The token at each place, `[places]`; for padding it is any of the row's.
      heads: The head at each place.
      is_token: Whether it is no padding.
      starts: Where each group of rows that are padded together starts, `[groups]`.
      sizes: Places that it takes.
      lengths: Tokens that it is padded to.
    """

    tokens: tf.Tensor
    heads: tf.Tensor
    is_token: tf.Tensor
    starts: tf.Tensor
    sizes: tf.Tensor
    lengths: tf.Tensor

    @classmethod
    def of(cls, lengths: tf.Tensor, starts: tf.Tensor, heads: int) -> "Padded":
        """Pads rows of those lengths, which start at those tokens."""
        groups, padded = _pad(lengths)
        # A line is what one head has of a row.
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
        """What a group has of values at all places, `[rows, heads, length]`."""
        start, size, length = (each[number] for each in (self.starts, self.sizes, self.lengths))
        return tf.reshape(values[start : start + size], [-1, heads, length])


def _pad(lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The group of each row, and what the row is padded to."""
    groups = tf.range(tf.size(lengths)) // TOGETHER
    return groups, tf.gather(tf.math.segment_max(lengths, groups), groups)


class Batch:
    """Hands what is known of the call that is being traced to the layers inside the encoder.

    Args:
      heads: Of the encoder's attention.

    Attributes:
      rows: The rows, with the tokens that the layers compute.
      queries: These, padded.
      places: Where each head of these tokens is in `queries`, `[tokens, heads]`.
      keys: All tokens, padded.
    """

    rows: Rows
    queries: Padded
    places: tf.Tensor
    keys: Padded

    def __init__(self, heads: int):
        self._heads = heads

    def set(self, rows: Rows) -> None:
        """Begins the call for those rows."""
        self._order = tf.argsort(rows.lengths, stable=True)
        self._starts = tf.gather(rows.starts, self._order)
        self._compute(rows)
        self.keys = self.queries

    def keep_first_tokens(self) -> None:
        """From here on the layers compute the first token of each row only."""
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
