"""Self-attention on rows without padding."""

import functools
from collections.abc import Callable

import tensorflow as tf

from adapter_bert_tf.encoder.self_attention import SelfAttention
from adapter_bert_tf.serve.batch import TOGETHER, Batch, ByLength
from adapter_bert_tf.serve.rows import concat_loop


class RowAttention(SelfAttention):
    """`SelfAttention` in which the tokens of a row see those of their row only.

    Its input is `[1, tokens, width]`; an attention mask is not needed.

    Args:
      batch: The rows.
      loop: What is shared with the other layers.
    """

    def __init__(self, *args, batch: Batch, loop: "Loop", **kwargs):
        super().__init__(*args, **kwargs)
        self._batch, self._loop = batch, loop

    def _compute_attention(self, query, key, value, attention_mask=None, training=None):
        attend = super()._compute_attention
        output = self._loop(attend, (query[0], key[0], value[0]), self._batch.by_length)
        return output[None], None


class Loop:
    """Computes rows of like lengths together: one function of the graph, for all layers."""

    def __init__(self):
        self._function = None

    def __call__(self, attend: Callable, heads: tuple[tf.Tensor, ...], rows: ByLength) -> tf.Tensor:
        """Returns `[tokens, heads, size]` for query, key and value of that shape."""
        if self._function is None:
            # Of the layer that comes first, as no other has any other numbers in it.
            self._function = tf.function(functools.partial(_loop, attend), autograph=False)
        return self._function(heads, rows.lengths, rows.starts, rows.places)


def _loop(
    attend: Callable,
    heads: tuple[tf.Tensor, ...],
    lengths: tf.Tensor,
    starts: tf.Tensor,
    places: tf.Tensor,
) -> tf.Tensor:
    shape = heads[-1].shape[1:]

    def together(number: tf.Tensor) -> tf.Tensor:
        chosen = slice(number * TOGETHER, (number + 1) * TOGETHER)
        length, start = lengths[chosen, None], starts[chosen, None]
        steps = tf.range(tf.reduce_max(length))[None]
        # Padding is any token, as the mask leaves nothing of it.
        tokens = start + tf.minimum(steps, length - 1)
        padded = [tf.gather(each, tokens) for each in heads]
        output, _ = attend(*padded, attention_mask=(steps < length)[:, None])
        return tf.reshape(output, [-1, shape.num_elements()])

    count = (tf.size(lengths) + TOGETHER - 1) // TOGETHER
    outputs = concat_loop(together, count, shape.num_elements())
    return tf.reshape(tf.gather(outputs, places), [-1, *shape])
