import numpy as np
import tensorflow as tf
import tf_keras

from adapter_bert_tf.encoder.fast.layer_norm import LayerNorm


def _pair():
    """Keras's layer and ours, with the same variables."""
    theirs = tf_keras.layers.LayerNormalization(
        epsilon=1e-6, gamma_initializer="normal", beta_initializer="normal"
    )
    theirs.build([None, None, 12])
    ours = LayerNorm.from_config(theirs.get_config())
    ours.build([None, None, 12])
    ours.set_weights(theirs.get_weights())
    return theirs, ours


def _output_and_gradients(layer, x, gradient):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = layer(x)
    return [y, *tape.gradient(y, [x, layer.gamma, layer.beta], gradient)]


def test_output_and_gradients_are_kerass():
    x, gradient = tf.random.normal([3, 5, 12], mean=3, stddev=2), tf.random.normal([3, 5, 12])
    theirs, ours = _pair()
    expected = _output_and_gradients(theirs, x, gradient)
    for one, other in zip(_output_and_gradients(ours, x, gradient), expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_takes_shapes_that_are_not_known():
    theirs, ours = _pair()
    x, gradient = tf.random.normal([3, 5, 12]), tf.random.normal([3, 5, 12])
    signature = [tf.TensorSpec([None, None, 12])] * 2
    call = tf.function(lambda *values: _output_and_gradients(ours, *values), signature)
    for one, other in zip(
        call(x, gradient), _output_and_gradients(theirs, x, gradient), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_a_row_of_equal_values_has_finite_gradients():
    _, ours = _pair()
    ones = tf.ones([1, 2, 12])
    assert all(np.isfinite(value).all() for value in _output_and_gradients(ours, ones, ones))
