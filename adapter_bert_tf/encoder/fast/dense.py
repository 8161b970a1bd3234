"""Keras's EinsumDense, computed as one product of matrices."""

import math

import tensorflow as tf
import tf_keras

from adapter_bert_tf.encoder.arithmetic import dense
from adapter_bert_tf.encoder.fast.activation import activation


@tf_keras.utils.register_keras_serializable(package="adapter_bert_tf")
class FlatDense(tf_keras.layers.EinsumDense):
    """`EinsumDense` whose product runs on matrices: same variables, same result.

    An einsum on three axes becomes a batched product, which oneDNN does not fuse with bias and
    activation. On one core with AVX-512 a product of matrices ran at 145 GFLOP/s, the einsum at 77.
    With AVX2 both reach the limit of the processor (`benchmarks/block_speed.py`).

    The equation has to bind the last axes of the input with the first of the kernel.

    Args:
      *args: The arguments of `EinsumDense`.
      compiles: Whether XLA may compile the activation.
      **kwargs: The arguments of `EinsumDense`.
    """

    def __init__(self, *args, compiles: bool = True, **kwargs):
        super().__init__(*args, **kwargs)
        self.compiles = compiles

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        bound = self._bound_axes()
        inputs_size = math.prod(self.kernel.shape[:bound])
        width = math.prod(self.kernel.shape[bound:])
        outputs = dense(
            tf.reshape(inputs, [-1, inputs_size]),
            _reshaped(self.kernel, [inputs_size, width]),
            None if self.bias is None else _reshaped(self.bias, [width]),
        )
        if self.activation not in (None, tf_keras.activations.linear):
            # Before the last reshape, so that product, bias and activation can be fused.
            activate = activation(self.activation, training) if self.compiles else self.activation
            outputs = activate(outputs)
        return tf.reshape(outputs, _outer_shape(inputs, self.kernel, bound))

    def _bound_axes(self) -> int:
        input_axes, kernel_axes = self.equation.split("->")[0].split(",")
        return len(set(input_axes) & set(kernel_axes))

    def get_config(self):
        return {**super().get_config(), "compiles": self.compiles}


def _reshaped(variable: tf.Variable, shape: list[int]) -> tf.Variable | tf.Tensor:
    # One reshape less makes four operations less in a step's graph.
    return variable if variable.shape == shape else tf.reshape(variable, shape)


def _outer_shape(inputs: tf.Tensor, kernel: tf.Variable, bound: int) -> list[int] | tf.Tensor:
    """Returns the shape of the product over the last `bound` axes, static where it can be."""
    outer, width = inputs.shape[:-bound].as_list(), kernel.shape[bound:]
    if outer.count(None) <= 1:
        return [-1 if size is None else size for size in outer] + width.as_list()
    return tf.concat([tf.shape(inputs)[:-bound], width], 0)
