"""Self-attention on rows without padding."""

import tensorflow as tf

from adapter_bert_tf.encoder.self_attention import SelfAttention
from adapter_bert_tf.serve.rows import Batch, concat_loop

# Rows that are padded to one length and computed together, in the order of their lengths. It
# bounds the memory too, which grows with the square of the length.
_TOGETHER = 8


class RowAttention(SelfAttention):
    """`SelfAttention` in which the tokens of a row see those of their row only.

    Its input is `[1, tokens, width]`; an attention mask is not needed.
    """

    def __init__(self, *args, batch: Batch, **kwargs):
        super().__init__(*args, **kwargs)
        self._batch = batch

    def _compute_attention(self, query, key, value, attention_mask=None, training=None):
        rows = self._batch.rows
        by_length = tf.argsort(rows.lengths, stable=True)
        lengths = tf.gather(rows.lengths, by_length)
        starts = tf.gather(rows.starts, by_length)
        attend = super()._compute_attention
        heads, size = value.shape[-2:]

        def together(number: tf.Tensor) -> tf.Tensor:
            chosen = slice(number * _TOGETHER, (number + 1) * _TOGETHER)
            length, start = lengths[chosen, None], starts[chosen, None]
            steps = tf.range(tf.reduce_max(length))[None]
            # Padding is any token, as the mask leaves nothing of it.
            tokens = start + tf.minimum(steps, length - 1)
            padded = [tf.gather(each[0], tokens) for each in (query, key, value)]
            output, _ = attend(*padded, attention_mask=(steps < length)[:, None])
            return tf.reshape(output, [-1, heads * size])

        count = (tf.size(lengths) + _TOGETHER - 1) // _TOGETHER
        outputs = concat_loop(together, count, heads * size)
        starts_there = tf.gather(_padded_starts(lengths), tf.math.invert_permutation(by_length))
        places = tf.gather(starts_there - rows.starts, rows.row_of) + tf.range(tf.size(rows.ids))
        return tf.reshape(tf.gather(outputs, places), [1, -1, heads, size]), None


def _padded_starts(lengths: tf.Tensor) -> tf.Tensor:
    """Where the rows start once they are padded, given their lengths in rising order."""
    rows = tf.size(lengths)
    last = tf.minimum((tf.range(rows) // _TOGETHER + 1) * _TOGETHER, rows) - 1
    return tf.cumsum(tf.gather(lengths, last), exclusive=True)
