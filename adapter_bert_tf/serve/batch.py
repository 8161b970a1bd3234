"""What the layers inside the encoder know of the batch."""

import dataclasses

import tensorflow as tf

from adapter_bert_tf.serve.rows import Rows

# Rows that are padded to one length and computed together, in the order of their lengths. It
# bounds the memory too, which grows with the square of the length.
TOGETHER = 8


@dataclasses.dataclass(frozen=True)
class ByLength:
    """The rows in the order of their lengths, for what has to pad them.

    Args:
      lengths: Their lengths.
      starts: Where each starts in the line of all tokens.
      places: Where each token of that line is, once the rows are padded.
    """

    lengths: tf.Tensor
    starts: tf.Tensor
    places: tf.Tensor

    @classmethod
    def of(cls, rows: Rows) -> "ByLength":
        """Sorts the rows."""
        order = tf.argsort(rows.lengths, stable=True)
        lengths = tf.gather(rows.lengths, order)
        starts = tf.gather(_padded_starts(lengths), tf.math.invert_permutation(order))
        places = tf.gather(starts - rows.starts, rows.row_of) + tf.range(tf.size(rows.ids))
        return cls(lengths, tf.gather(rows.starts, order), places)


def _padded_starts(lengths: tf.Tensor) -> tf.Tensor:
    """Where the rows start once they are padded, given their lengths in rising order."""
    rows = tf.size(lengths)
    last = tf.minimum((tf.range(rows) // TOGETHER + 1) * TOGETHER, rows) - 1
    return tf.cumsum(tf.gather(lengths, last), exclusive=True)


class Batch:
    """Hands what is known of the call that is being traced to the layers inside the encoder."""

    rows: Rows
    by_length: ByLength

    def set(self, rows: Rows) -> None:
        """Begins the call for those rows."""
        self.rows, self.by_length = rows, ByLength.of(rows)
