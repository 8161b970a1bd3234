"""Self-attention of rows without padding, in the products that are fastest for a short text."""

import math

import tensorflow as tf
import tf_keras

from adapter_bert_tf.encoder.arithmetic import attention_scores, scale_query
from adapter_bert_tf.encoder.fast.dense import FlatDense
from adapter_bert_tf.serve.rows import TOGETHER, Batch, Padded, concat_loop

_HEADS_LAST = [1, 0, 2]


class RowAttention(tf_keras.layers.Layer):
    """Self-attention in which a token attends only to the tokens of its own row.

    Its input is `[1, tokens, width]`, and it needs no mask.

    Args:
      heads: Number of heads.
      size: Width of a head.
      batch: The rows.
      attention: Computes the attention of all layers.
    """

    def __init__(self, heads: int, size: int, batch: Batch, attention: "Attention", **kwargs):
        super().__init__(**kwargs)
        self._batch, self._attention = batch, attention
        self._projection = _HeadProjection(heads, size, name="by_head")
        self._output_dense = FlatDense(
            "abcd,cde->abe", (None, heads * size), bias_axes="e", name="attention_output"
        )

    def build(self, input_shape):
        shapes = input_shape if isinstance(input_shape, list) else [input_shape]
        with tf.name_scope(self._projection.name):
            self._projection.build(shapes[0])
        super().build(input_shape)

    def call(self, query, key, value, attention_mask=None):
        kernel, bias = self._projection.kernel, self._projection.bias
        firsts = None if self._batch.queries is self._batch.keys else query[0]
        attended = self._attention(key[0], firsts, kernel, bias, self._batch)
        return self._output_dense(attended[None])


class _HeadProjection(tf_keras.layers.Layer):
    """The kernels of queries, keys and values, `[3, heads, width, size]`, and the biases.

    The kernel of a head lies in one piece in the memory, as oneDNN would pack it before a product.
    For a short text a product takes 0.85 of the time of one with a kernel of `[width, 3 * width]`.
    """

    def __init__(self, heads: int, size: int, **kwargs):
        super().__init__(**kwargs)
        self._heads, self._size = heads, size

    def build(self, input_shape):
        width = tf.TensorShape(input_shape)[-1]
        self.kernel = self.add_weight("kernel", [3, self._heads, width, self._size])
        self.bias = self.add_weight("bias", [3, self._heads, self._size])
        super().build(input_shape)


class Attention:
    """Computes the attention of all layers.

    A few rows of equal length are computed as they are. Others are padded, rows of similar length
    together.
    """

    def __init__(self):
        self._all = tf.function(_attend, autograph=False)
        self._firsts = tf.function(_attend_firsts, autograph=False)

    def __call__(
        self,
        tokens: tf.Tensor,
        firsts: tf.Tensor | None,
        kernel: tf.Tensor,
        bias: tf.Tensor,
        batch: Batch,
    ) -> tf.Tensor:
        """Returns the attended values, `[queries, heads, size]`.

        Args:
          tokens: The tokens, `[tokens, width]`.
          firsts: The first token of each row, `[rows, width]`, if only these are queries.
          kernel: Kernels of queries, keys and values, `[3, heads, width, size]`.
          bias: Their biases, `[3, heads, size]`.
          batch: The rows.
        """
        if firsts is None:
            return self._all(tokens, kernel, bias, batch.keys, batch.places, batch.heads_last)
        return self._firsts(tokens, firsts, kernel, bias, batch.keys, batch.places)


def _attend(
    tokens: tf.Tensor,
    kernel: tf.Tensor,
    bias: tf.Tensor,
    keys: Padded,
    places: tf.Tensor,
    heads_last: tf.Tensor,
) -> tf.Tensor:
    parts, count, width, size = kernel.shape
    kernels = tf.reshape(kernel, [parts * count, 1, width, size])
    biases = tf.reshape(bias, [parts * count, 1, 1, size])
    # The factor is 1, but TensorFlow must not know: see `_scale_and_add`.
    projected = _scale_and_add(tf.matmul(tokens[None, None], kernels), keys.one, biases)

    def weigh(heads: tf.Tensor, masked: tf.Tensor) -> tf.Tensor:
        query, key, value = tf.unstack(heads)
        logits = tf.matmul(query, key, transpose_b=True)
        logits = _scale_and_add(logits, 1 / math.sqrt(size), masked)
        return tf.matmul(tf.nn.softmax(logits), value)

    def as_they_are() -> tf.Tensor:
        heads = tf.reshape(projected, [parts, count, -1, keys.lengths[0], size])
        attended = weigh(heads, tf.reshape(1 - keys.one, [1, 1, 1, 1]))
        # For few tokens this takes a tenth of the time of `tf.transpose`.
        return tf.gather(tf.reshape(attended, [-1, size]), heads_last)

    def padded() -> tf.Tensor:
        # Each head of each token is a row of a matrix, so that one gather pads the rows and also
        # moves the heads behind the rows.
        heads = tf.reshape(projected, [parts, -1, size])

        def together(number: tf.Tensor) -> tf.Tensor:
            chosen = keys.group(keys.heads_of_tokens, number, count)
            masked = keys.group(keys.mask, number, count)[:, :1, None]
            attended = weigh(tf.gather(heads, chosen, axis=1), masked)
            return tf.reshape(attended, [-1, size])

        return tf.gather(concat_loop(together, tf.size(keys.lengths), size), places)

    return tf.cond(keys.are_equal, as_they_are, padded)


def _scale_and_add(product: tf.Tensor, factor: float | tf.Tensor, added: tf.Tensor) -> tf.Tensor:
    """Computes `product * factor + added`, in this form and on four axes.

    oneDNN then does it while it computes the product, which takes no longer for it. TensorFlow
    finds no other form, so neither factor nor addend may be left out or be known to do nothing.
    """
    return product * factor + added


def _attend_firsts(
    tokens: tf.Tensor,
    firsts: tf.Tensor,
    kernel: tf.Tensor,
    bias: tf.Tensor,
    keys: Padded,
    places: tf.Tensor,
) -> tf.Tensor:
    """Attends with one query in each row, without computing keys and values.

    The query goes through the key's kernel instead of all tokens, and the weighted sum of the
    tokens through the value's: see `encoder/fast/attention.py`.
    """
    _, count, width, _ = kernel.shape
    of_query, of_key, of_value = tf.unstack(kernel)
    query = scale_query(tf.matmul(firsts[None], of_query) + bias[0][:, None])
    asked = tf.transpose(tf.matmul(query, of_key, transpose_b=True), _HEADS_LAST)

    def weigh(asked: tf.Tensor, rows: tf.Tensor, masked: tf.Tensor | None) -> tf.Tensor:
        return tf.matmul(attention_scores(asked, rows, masked), rows)

    def as_they_are() -> tf.Tensor:
        return weigh(asked, tf.reshape(tokens, [-1, keys.lengths[0], width]), None)

    def padded() -> tf.Tensor:
        # The rows in the order of `keys`.
        ordered = tf.gather(asked, tf.math.invert_permutation(places[:, 0] // count))

        def together(number: tf.Tensor) -> tf.Tensor:
            rows = tf.gather(tokens, keys.group(keys.tokens, number, count)[:, 0])
            some = ordered[number * TOGETHER : (number + 1) * TOGETHER]
            weighed = weigh(some, rows, keys.group(keys.mask, number, count)[:, :1])
            return tf.reshape(weighed, [-1, width])

        return tf.gather(concat_loop(together, tf.size(keys.lengths), width), places)

    weighed = tf.transpose(tf.cond(keys.are_equal, as_they_are, padded), _HEADS_LAST)
    return _add(tf.transpose(tf.matmul(weighed, of_value), _HEADS_LAST), bias[2])


def _add(attended: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """Adds a bias `[heads, size]`: to a matrix, because an addition on three axes is slow."""
    heads, size = bias.shape
    flat = tf.reshape(attended, [-1, heads * size])
    return tf.reshape(tf.nn.bias_add(flat, tf.reshape(bias, [-1])), [-1, heads, size])
