"""Keras's multi-head attention, faster."""

import math
from collections.abc import Callable

import tensorflow as tf
import tf_keras

from adapter_bert_tf.encoder.dropout import Dropout
from adapter_bert_tf.encoder.flat_dense import FlatDense

_Score = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]

# From [batch, length, heads, width] to [batch, heads, length, width], and back.
_SWAPPED = [0, 2, 1, 3]


@tf_keras.utils.register_keras_serializable(package="adapter_bert_tf")
class SelfAttention(tf_keras.layers.MultiHeadAttention):
    """`MultiHeadAttention` with `FlatDense` projections, batched products and the fast `Dropout`.

    Inputs are `[batch, length, width]`. The mask may be `[batch, 1, length]`, for all queries
    alike.

    With `keeps_input` it answers `(output, query)`: see `FlatDense`.
    """

    def __init__(self, *args, keeps_input: bool = False, **kwargs):
        super().__init__(*args, **kwargs)
        self.keeps_input = keeps_input

    @classmethod
    def like(cls, layer: tf_keras.layers.MultiHeadAttention, **changes) -> "SelfAttention":
        """Returns an unbuilt layer with the configuration of the unbuilt `layer` and `changes`."""
        config = {**layer.get_config(), **changes}
        for shape in ("query_shape", "key_shape", "value_shape"):
            config.pop(shape)
        return cls(**config)

    def _build_from_signature(self, query, value, key=None):
        super()._build_from_signature(query, value, key)
        self._query_dense = _built_dense(self._query_dense, self._query_shape)
        self._key_dense = _built_dense(self._key_dense, self._key_shape)
        self._value_dense = _built_dense(self._value_dense, self._value_shape)
        self._output_dense = FlatDense.like(self._output_dense)
        self._dropout_layer = Dropout(self._dropout, dtype=self._dtype_policy)
        # Not by its first call, of which there may be none before a step is traced.
        self._dropout_layer.build(())

    def _compute_attention(self, query, key, value, attention_mask=None, training=None):
        # The parent's einsums move axes at each of their operands and gradients; here heads move
        # to the front once. That takes 0.6 of the time, 0.98 of a whole layer's step.
        # One product for query, key and value is not faster than three: it was measured.
        query = tf.multiply(query, 1 / math.sqrt(self._key_dim))
        query, key, value = (tf.transpose(heads, _SWAPPED) for heads in (query, key, value))

        def score(query: tf.Tensor, key: tf.Tensor) -> tf.Tensor:
            return self._masked_softmax(tf.matmul(query, key, transpose_b=True), attention_mask)

        scores = score(query, key)
        attended = self._attend(score, query, key, value) if training else scores @ value
        return tf.transpose(attended, _SWAPPED), scores

    def _attend(self, score: _Score, query, key, value) -> tf.Tensor:
        """Returns `drop(score(query, key)) @ value`, whose gradient keeps no scores.

        They would be a seventh of all that a step keeps; computing them again takes 1 % of it.
        """
        drop = self._dropout_layer.draw() if self._dropout else tf.identity

        @tf.custom_gradient
        def attend(query: tf.Tensor, key: tf.Tensor, value: tf.Tensor):
            def backward(gradient: tf.Tensor):
                # Without the dependency TensorFlow would see that it has them, and keep them.
                with tf.control_dependencies([gradient]):
                    scores = score(query, key)
                of_value = tf.matmul(drop(scores), gradient, transpose_a=True)
                of_scores = drop(tf.matmul(gradient, value, transpose_b=True))
                mean = tf.reduce_sum(scores * of_scores, axis=-1, keepdims=True)
                of_logits = scores * (of_scores - mean)
                of_key = tf.matmul(of_logits, query, transpose_a=True)
                return tf.matmul(of_logits, key), of_key, of_value

            return tf.matmul(drop(score(query, key)), value), backward

        return attend(query, key, value)

    def call(
        self,
        query,
        value,
        key=None,
        attention_mask=None,
        return_attention_scores=False,
        training=None,
    ):
        if not self._built_from_signature:
            self._build_from_signature(query, value, key)
        key = value if key is None else key
        if query.shape[1] == 1:
            output, scores = self._attend_once(query, value, key, attention_mask, training)
        else:
            output, scores = super().call(query, value, key, attention_mask, True, training)
        output = (output, query) if self.keeps_input else output
        return (output, scores) if return_attention_scores else output

    def _attend_once(self, query, value, key, attention_mask, training):
        """The parent's output and scores for one query in a row, without keys and values.

        A token's key meets one query, and its value gets one weight. So the query goes through
        the key's kernel instead of all tokens, and the tokens' weighted sum through the value's:
        two of the layer's large products vanish, forward and back.
        """
        mask = self._compute_attention_mask(query, value, key, attention_mask)
        # Keras casts a layer's first input only, and leaves the others to the layers in it.
        key, value = tf.cast(key, self.compute_dtype), tf.cast(value, self.compute_dtype)
        heads = self._query_dense(query)[:, 0] * (1 / math.sqrt(self._key_dim))
        # The key's bias would add the same to all scores of a head, which softmax takes away.
        asked = tf.einsum("bhd,whd->bhw", heads, self._key_dense.kernel)
        scores = self._masked_softmax(tf.matmul(asked, key, transpose_b=True)[:, :, None], mask)
        weights = self._dropout_layer(scores, training=training)[:, :, 0]
        weighed = tf.einsum("bhw,whd->bhd", tf.matmul(weights, value), self._value_dense.kernel)
        if self._value_dense.bias is not None:
            weighed += tf.reduce_sum(weights, -1, keepdims=True) * self._value_dense.bias
        return self._output_dense(weighed[:, None]), scores

    def get_config(self):
        return {**super().get_config(), "keeps_input": self.keeps_input}


def _built_dense(layer: tf_keras.layers.EinsumDense, shape: tf.TensorShape) -> FlatDense:
    """A layer like `layer` with variables: `_attend_once` takes them without a call."""
    dense = FlatDense.like(layer)
    with tf.init_scope(), tf.name_scope(dense.name):
        dense.build(shape)
    return dense
