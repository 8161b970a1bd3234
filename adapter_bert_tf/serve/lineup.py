"""Turns the rows of requests into a batch in which nothing is computed twice."""

from typing import NamedTuple

import tensorflow as tf

from adapter_bert_tf.serve.rows import Rows, Texts, merge_rows
from adapter_bert_tf.text.inputs import IDS, SEGMENTS

POSITIONS = "positions"


class Lineup(NamedTuple):
    """What a batch asks: tasks on texts, each text and each row once.

    Args:
      texts: The different texts.
      tasks: Number of each row's task, `[rows]`, sorted.
      row_texts: Number of each row's text, `[rows]`.
      row_of: The row of each row of the batch before rows were merged and sorted.
    """

    texts: Texts
    tasks: tf.Tensor
    row_texts: tf.Tensor
    row_of: tf.Tensor

    @classmethod
    def of(cls, inputs: dict[str, tf.RaggedTensor], tasks: tf.Tensor) -> "Lineup":
        """Sorts and merges the rows of a batch.

        Args:
          inputs: Ids, segments and positions, `[rows, (tokens)]`.
          tasks: Number of each row's task, `[rows]`.
        """
        texts, text_of = different_texts(inputs)
        return cls(texts, *merge_rows(tasks, text_of))

    def rows(self) -> Rows:
        """Returns the rows."""
        return Rows.of(self.tasks, self.row_texts, self.texts.lengths)

    def in_order(self, rows: tf.Tensor | tf.RaggedTensor) -> tf.Tensor | tf.RaggedTensor:
        """Returns `[rows, ...]` for the rows of the batch."""
        return tf.gather(rows, self.row_of)


def different_texts(inputs: dict[str, tf.RaggedTensor]) -> tuple[Texts, tf.Tensor]:
    """Returns the different texts among rows of ids, segments and positions, and each row's."""
    first, text_of = _different(inputs)
    ids, segments, positions = (
        tf.gather(inputs[name], first) for name in (IDS, SEGMENTS, POSITIONS)
    )
    lengths = tf.cast(ids.row_lengths(), tf.int32)
    return Texts(ids.flat_values, segments.flat_values, positions.flat_values, lengths), text_of


def _different(inputs: dict[str, tf.RaggedTensor]) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the first row with each of the different texts, and the text of each row."""
    ids, segments, positions = (
        tf.cast(inputs[name], tf.int64) for name in (IDS, SEGMENTS, POSITIONS)
    )
    # All that is known of a token in one number. No vocabulary has 2 ** 32 tokens.
    tokens = ids.with_flat_values(
        ids.flat_values + segments.flat_values * 2**32 + positions.flat_values * 2**40
    )
    different, text_of = tf.raw_ops.UniqueV2(x=tokens.to_tensor(-1), axis=[0])
    rows = tf.range(tf.size(text_of))
    return tf.math.unsorted_segment_min(rows, text_of, tf.shape(different)[0]), text_of
