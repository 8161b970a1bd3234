"""Keras's multi-head attention, faster."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tf_keras

from adapter_bert_tf.encoder.arithmetic import attention_scores, mask_bias, scale_query
from adapter_bert_tf.encoder.fast.dense import FlatDense
from adapter_bert_tf.encoder.fast.dropout import Dropout

_Score = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]

# From [batch, length, heads, size] to [batch, heads, length, size], and back.
_SWAPPED = [0, 2, 1, 3]


@tf_keras.utils.register_keras_serializable(package="adapter_bert_tf")
class SelfAttention(tf_keras.layers.Layer):
    """`MultiHeadAttention` with `FlatDense` projections, batched products and the fast `Dropout`.

    Variables, their names and the attributes that lead to them are those of Keras's layer, so its
    checkpoints fit. Query, key and value are `[batch, length, width]`, all of the same width. The
    mask is `[batch, queries, keys]`, or `[batch, 1, keys]` for all queries of a row.

    Args:
      num_heads: Number of heads.
      key_dim: Width of a head's queries and keys.
      value_dim: Width of a head's values, by default the same.
      dropout: Rate of the dropout on the scores.
      use_bias: Whether the projections have biases.
      output_shape: Width of the output, by default that of the query.
      attention_axes: Not supported: Keras's layer has it.
      kernel_initializer: For the kernels of the projections.
      bias_initializer: For their biases.
      **kwargs: Regularizers and constraints of the projections, and the arguments of a Keras layer.
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        output_shape: int | None = None,
        attention_axes: None = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        **kwargs,
    ):
        self._projection = {
            name: kwargs.pop(name, None)
            for name in (
                "kernel_regularizer",
                "bias_regularizer",
                "activity_regularizer",
                "kernel_constraint",
                "bias_constraint",
            )
        }
        # Keras's layer saves the shapes that it was built with.
        for shape in ("query_shape", "key_shape", "value_shape"):
            kwargs.pop(shape, None)
        super().__init__(**kwargs)
        if attention_axes is not None:
            raise ValueError(f"attention_axes={attention_axes}: only Keras's attention has them")
        self._num_heads, self._key_dim, self._value_dim = num_heads, key_dim, value_dim or key_dim
        self._dropout, self._use_bias, self._output_shape = dropout, use_bias, output_shape
        self._kernel_initializer = tf_keras.initializers.get(kernel_initializer)
        self._bias_initializer = tf_keras.initializers.get(bias_initializer)

    def build(self, input_shape):
        shape = tf.TensorShape(input_shape)
        keys, values = (self._num_heads, self._key_dim), (self._num_heads, self._value_dim)
        self._query_dense = self._dense("query", "abc,cde->abde", keys, "de")
        self._key_dense = self._dense("key", "abc,cde->abde", keys, "de")
        self._value_dense = self._dense("value", "abc,cde->abde", values, "de")
        width = (self._output_shape or shape[-1],)
        self._output_dense = self._dense("attention_output", "abcd,cde->abe", width, "e")
        self._dropout_layer = Dropout(self._dropout, dtype=self.dtype_policy)
        # All at once: `_attend_once` uses the variables of keys and values without a call.
        for layer in (self._query_dense, self._key_dense, self._value_dense):
            with tf.name_scope(layer.name):
                layer.build(shape)
        with tf.name_scope(self._output_dense.name):
            self._output_dense.build([*shape[:-1], *values])
        self._dropout_layer.build(())
        super().build(input_shape)

    def _dense(self, name: str, equation: str, shape: tuple[int, ...], bias_axes: str) -> FlatDense:
        def fresh(initializer):
            # Keras warns if one random initializer is used twice.
            return type(initializer).from_config(initializer.get_config())

        return FlatDense(
            equation,
            output_shape=(None, *shape),
            bias_axes=bias_axes if self._use_bias else None,
            kernel_initializer=fresh(self._kernel_initializer),
            bias_initializer=fresh(self._bias_initializer),
            name=name,
            dtype=self.dtype_policy,
            **self._projection,
        )

    def call(
        self,
        query,
        value,
        key=None,
        attention_mask=None,
        return_attention_scores=False,
        training=None,
    ):
        # Keras casts the first input of a layer only.
        value = tf.cast(value, self.compute_dtype)
        key = value if key is None else tf.cast(key, self.compute_dtype)
        bias = None
        if attention_mask is not None:
            bias = mask_bias(attention_mask, self.compute_dtype)[:, None]
        attend = self._attend_once if query.shape[1] == 1 else self._attend
        output, scores = attend(query, key, value, bias, training)
        return (output, scores) if return_attention_scores else output

    def _attend(self, query, key, value, bias, training):
        # Heads move to the front once; the einsums of Keras's layer move axes at each of their
        # operands and gradients. That takes 0.6 of the time, 0.98 of a whole layer's step.
        # One product for query, key and value was not faster than three in training.
        query, key, value = (
            tf.transpose(heads, _SWAPPED)
            for heads in (
                scale_query(self._query_dense(query)),
                self._key_dense(key),
                self._value_dense(value),
            )
        )

        def score(query: tf.Tensor, key: tf.Tensor) -> tf.Tensor:
            return attention_scores(query, key, bias)

        scores = score(query, key)
        attended = self._weigh(score, query, key, value) if training else tf.matmul(scores, value)
        return self._output_dense(tf.transpose(attended, _SWAPPED)), scores

    def _weigh(self, score: _Score, query, key, value) -> tf.Tensor:
        """Returns `drop(score(query, key)) @ value`, with a gradient that keeps no scores.

        They would be 130 MB of what a step of BERT-base keeps. Computing them again takes about
        1 % of the step.
        """
        drop = self._dropout_layer.draw() if self._dropout else tf.identity

        @tf.custom_gradient
        def weigh(query: tf.Tensor, key: tf.Tensor, value: tf.Tensor):
            def backward(gradient: tf.Tensor):
                # Without the dependency TensorFlow would join these scores with the first ones,
                # and keep them.
                with tf.control_dependencies([gradient]):
                    scores = score(query, key)
                of_value = tf.matmul(drop(scores), gradient, transpose_a=True)
                of_scores = drop(tf.matmul(gradient, value, transpose_b=True))
                mean = tf.reduce_sum(scores * of_scores, axis=-1, keepdims=True)
                of_logits = scores * (of_scores - mean)
                of_key = tf.matmul(of_logits, query, transpose_a=True)
                return tf.matmul(of_logits, key), of_key, of_value

            return tf.matmul(drop(score(query, key)), value), backward

        return weigh(query, key, value)

    def _attend_once(self, query, key, value, bias, training):
        """Attends with one query in each row, without computing keys and values.

        A token's key meets one query, and its value gets one weight. So the query goes through
        the key's kernel instead of all tokens, and the weighted sum of the tokens goes through
        the value's kernel. Two of the layer's large products vanish, forward and backward.
        """
        heads = scale_query(self._query_dense(query)[:, 0])
        # The key's bias would add the same to all logits of a head, which softmax takes away.
        asked = tf.einsum("bhd,whd->bhw", heads, self._key_dense.kernel)
        logits = tf.matmul(asked, key, transpose_b=True)[:, :, None]
        scores = tf.nn.softmax(logits if bias is None else logits + bias)
        weights = self._dropout_layer(scores, training=training)[:, :, 0]
        weighed = tf.einsum("bhw,whd->bhd", tf.matmul(weights, value), self._value_dense.kernel)
        if self._value_dense.bias is not None:
            weighed += tf.reduce_sum(weights, -1, keepdims=True) * self._value_dense.bias
        return self._output_dense(weighed[:, None]), scores

    def get_config(self):
        return {
            **super().get_config(),
            **self._projection,
            "num_heads": self._num_heads,
            "key_dim": self._key_dim,
            "value_dim": self._value_dim,
            "dropout": self._dropout,
            "use_bias": self._use_bias,
            "output_shape": self._output_shape,
            "kernel_initializer": tf_keras.initializers.serialize(self._kernel_initializer),
            "bias_initializer": tf_keras.initializers.serialize(self._bias_initializer),
        }
