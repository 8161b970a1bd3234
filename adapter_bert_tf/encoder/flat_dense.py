"""Keras's EinsumDense, computed as one 2-D product."""

import math

import tensorflow as tf
import tf_keras

from adapter_bert_tf.encoder.activations import gelu
from adapter_bert_tf.encoder.compiled import compiled


@tf_keras.utils.register_keras_serializable(package="adapter_bert_tf")
class FlatDense(tf_keras.layers.EinsumDense):
    """`EinsumDense` whose product runs on matrices: same variables, same result.

    An einsum on three axes becomes a batched product, which oneDNN does not fuse with bias and
    activation. On one core with AVX-512 a 2-D product ran at 145 GFLOP/s, the einsum at 77; with
    AVX2, where the arithmetic is the limit, they are alike (`benchmarks/block_speed.py`).
    The equation has to bind the last axes of the input with the first of the kernel.

    With `keeps_input` the layer answers `(output, input)`, and a layer that is given such a
    pair hands its second part on. So a parallel adapter, which stands behind the sub-layer,
    still sees what the sub-layer was given.

    With `compiles` the activation is compiled where that is faster: see `compiled`.
    """

    def __init__(self, *args, keeps_input: bool = False, compiles: bool = False, **kwargs):
        super().__init__(*args, **kwargs)
        self.keeps_input = keeps_input
        self.compiles = compiles

    @classmethod
    def like(cls, layer: tf_keras.layers.EinsumDense, **changes) -> "FlatDense":
        """Returns an unbuilt layer with the configuration of `layer` and `changes`."""
        return cls.from_config({**layer.get_config(), **changes})

    def build(self, input_shape):
        is_pair = isinstance(input_shape, (list, tuple)) and not _is_size(input_shape[0])
        super().build(input_shape[0] if is_pair else input_shape)

    def call(self, inputs, training: bool | None = None):
        inputs, carried = inputs if isinstance(inputs, (list, tuple)) else (inputs, None)
        outputs = self._project(inputs, training)
        if self.keeps_input:
            return outputs, inputs
        return outputs if carried is None else (outputs, carried)

    def _project(self, inputs: tf.Tensor, training: bool | None) -> tf.Tensor:
        input_axes, kernel_axes = self.equation.split("->")[0].split(",")
        bound = len(set(input_axes) & set(kernel_axes))
        bound_size = math.prod(self.kernel.shape[:bound])
        width = math.prod(self.kernel.shape[bound:])
        outputs = tf.matmul(
            tf.reshape(inputs, [-1, bound_size]), _reshaped(self.kernel, [bound_size, width])
        )
        if self.bias is not None:
            outputs = tf.nn.bias_add(outputs, _reshaped(self.bias, [width]))
        if self.activation is not None:
            # Before the last reshape, so that product, bias and activation can be fused.
            outputs = self._activate(outputs, training)
        return tf.reshape(outputs, _outer_shape(inputs, self.kernel, bound))

    def _activate(self, x: tf.Tensor, training: bool | None) -> tf.Tensor:
        # In training nothing is fused, as the gradient needs what the activation was given. In
        # inference oneDNN fuses GELU's erf form for 2 ms on a product of 57 (compiled: 5), but
        # the tanh form takes it 17 (compiled: 4). One call without a graph is not worth compiling.
        wins = training or (self.activation is gelu and not tf.executing_eagerly())
        return compiled(self.activation)(x) if self.compiles and wins else self.activation(x)

    def get_config(self):
        own = {"keeps_input": self.keeps_input, "compiles": self.compiles}
        return {**super().get_config(), **own}


def _is_size(value) -> bool:
    return value is None or isinstance(value, int)


def _reshaped(variable: tf.Variable, shape: list[int]) -> tf.Variable | tf.Tensor:
    # A reshape less is four operations less in a step's graph, and 16 KB less each.
    return variable if variable.shape == shape else tf.reshape(variable, shape)


def _outer_shape(inputs: tf.Tensor, kernel: tf.Variable, bound: int) -> tf.TensorShape | tf.Tensor:
    """The shape of the product over the last `bound` axes, static where it is known."""
    static = inputs.shape[:-bound]
    if static.is_fully_defined():
        return static + kernel.shape[bound:]
    return tf.concat([tf.shape(inputs)[:-bound], kernel.shape[bound:]], 0)
