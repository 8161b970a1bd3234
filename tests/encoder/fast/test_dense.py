import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from adapter_bert_tf.encoder.activations import gelu
from adapter_bert_tf.encoder.fast.dense import FlatDense

CASES = [
    ("abc,cd->abd", (None, 7), "d", [2, 3, 5]),
    ("abc,cde->abde", (None, 2, 4), "de", [2, 3, 5]),
    ("abcd,cde->abe", (None, 6), "e", [2, 3, 4, 5]),
    ("...x,xy->...y", 7, "y", [2, 3, 5]),
]


@pytest.mark.parametrize(("equation", "output_shape", "bias_axes", "shape"), CASES)
def test_equals_einsum_dense(equation, output_shape, bias_axes, shape):
    x = tf.random.normal(shape)
    theirs = tf_keras.layers.EinsumDense(
        equation, output_shape, bias_axes=bias_axes, activation="tanh", bias_initializer="normal"
    )
    expected = theirs(x)
    ours = FlatDense.from_config(theirs.get_config())
    ours(x)
    assert [v.shape for v in ours.weights] == [v.shape for v in theirs.weights]
    ours.set_weights(theirs.get_weights())
    np.testing.assert_allclose(ours(x), expected, atol=1e-6)

    unknown = tf.function(ours.__call__, input_signature=[tf.TensorSpec([None] * len(shape))])
    np.testing.assert_allclose(unknown(x), expected, atol=1e-6)


def test_its_product_is_a_2d_matmul():
    layer = FlatDense("abc,cd->abd", (None, 7), bias_axes="d")
    graph = tf.function(layer.__call__).get_concrete_function(tf.TensorSpec([2, 3, 5])).graph
    types = [op.type for op in graph.get_operations()]
    assert types.count("MatMul") == 1
    assert not {"Einsum", "BatchMatMulV2"} & set(types)


@pytest.mark.parametrize(("activation", "plain_in_inference"), [("tanh", True), (gelu, False)])
def test_an_activation_is_compiled_where_that_is_faster(activation, plain_in_inference):
    layer = FlatDense("abc,cd->abd", (None, 7), bias_axes="d", activation=activation)
    x = tf.random.normal([2, 3, 5])
    plain = layer(x)  # Without a graph nothing is compiled.
    for training in (True, False):
        found = tf.function(lambda x: layer(x, training=training))(x)  # noqa: B023
        np.testing.assert_allclose(found, plain, atol=1e-6)

    def operations(training: bool) -> list[str]:
        call = tf.function(lambda x: layer(x, training=training)).get_concrete_function(x)
        return [op.type for op in call.graph.get_operations()]

    assert ("Tanh" in operations(training=False)) == plain_in_inference
    assert "Tanh" not in operations(training=True)


def test_builds_from_a_tuple():
    layer = FlatDense("abc,cd->abd", (None, 7), bias_axes="d")
    layer.build((None, 3, 5))
    assert layer.kernel.shape == [5, 7]


def test_without_compiling_an_activation_stays_in_the_graph():
    layer = FlatDense("abc,cd->abd", (None, 7), bias_axes="d", activation=gelu, compiles=False)
    x = tf.random.normal([2, 3, 5])
    graph = tf.function(lambda x: layer(x, training=True)).get_concrete_function(x).graph
    assert "Tanh" in [op.type for op in graph.get_operations()]
    assert FlatDense.from_config(layer.get_config()).compiles is False
