"""LayerNorm with its gradient by formula."""

import tensorflow as tf
import tf_keras


@tf_keras.utils.register_keras_serializable(package="adapter_bert_tf")
class LayerNorm(tf_keras.layers.LayerNormalization):
    """Keras's LayerNorm over the last axis: same variables, same result.

    Keras's consists of small operations, and the gradient of each of them passes over the whole
    tensor. By formula, forward and backward pass take about half of the time.
    """

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        @tf.custom_gradient
        def normalize(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor):
            centered = x - _mean(x)
            factor = tf.math.rsqrt(_mean(tf.square(centered)) + self.epsilon)
            normal = centered * factor

            def backward(gradient: tf.Tensor):
                rows = list(range(x.shape.rank - 1))
                shares = gradient * normal
                inner = gradient * gamma
                inner = inner - _mean(inner) - normal * _mean(shares * gamma)
                return inner * factor, tf.reduce_sum(shares, rows), tf.reduce_sum(gradient, rows)

            return normal * gamma + beta, backward

        return normalize(
            tf.cast(inputs, self.compute_dtype),
            tf.convert_to_tensor(self.gamma),
            tf.convert_to_tensor(self.beta),
        )


def _mean(x: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(x, axis=-1, keepdims=True)
