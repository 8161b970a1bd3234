import numpy as np
import pytest
import tensorflow as tf

from adapter_bert_tf.encoder.activations import ACTIVATIONS
from adapter_bert_tf.encoder.fast.activation import compiled

X = np.linspace(-6, 6, 60).reshape([4, 15]).astype(np.float32)


def _value_and_gradient(activation, x, gradient):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = activation(x)
    return y, tape.gradient(y, x, gradient)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_value_and_gradient_are_the_activations(name):
    x = tf.constant(X)
    gradient = tf.constant(np.cos(X))
    expected = _value_and_gradient(ACTIVATIONS[name], x, gradient)
    found = _value_and_gradient(compiled(ACTIVATIONS[name]), x, gradient)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_keeps_the_type():
    y, gradient = _value_and_gradient(
        compiled(ACTIVATIONS["gelu"]), tf.constant(X, tf.bfloat16), tf.constant(X, tf.bfloat16)
    )
    assert y.dtype == gradient.dtype == tf.bfloat16


def test_layers_share_what_is_compiled():
    assert compiled(ACTIVATIONS["gelu"]) is compiled(ACTIVATIONS["gelu"])
