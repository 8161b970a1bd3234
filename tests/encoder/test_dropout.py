import numpy as np
import pytest
import tensorflow as tf

from adapter_bert_tf.encoder.dropout import Dropout


def test_drops_the_share_and_keeps_the_mean():
    dropped = Dropout(0.25)(tf.ones([200, 200]), training=True).numpy()
    assert abs((dropped == 0).mean() - 0.25) < 0.01
    assert abs(dropped.mean() - 1) < 0.02


def test_rates_are_kept_to_a_fraction_and_odd_sizes_are_whole():
    ones = tf.ones([333, 1001])
    dropped = Dropout(0.1)(ones, training=True).numpy()
    assert dropped.shape == (333, 1001)
    assert abs((dropped == 0).mean() - 0.1) < 0.003
    assert np.unique(dropped)[1] == np.float32(65536 / (65536 - 6554))


@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
def test_the_gradient_follows_the_mask(dtype, in_graph):
    layer, x = Dropout(0.5, dtype=dtype), tf.ones([64], dtype)

    def value_and_gradient(x: tf.Tensor):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x, training=True)
        return y, tape.gradient(y, x)

    y, gradient = (tf.function(value_and_gradient) if in_graph else value_and_gradient)(x)
    assert gradient.dtype == dtype
    assert set(y.numpy().astype(float)) == {0.0, 2.0}
    np.testing.assert_array_equal(gradient, y)


def test_masks_differ_between_calls_and_layers_also_in_a_graph():
    layers = [Dropout(0.5), Dropout(0.5)]
    ones = tf.ones([64])
    call = tf.function(lambda: [layer(ones, training=True) for layer in layers])
    masks = [mask.numpy() for _ in range(2) for mask in call()]
    assert len({mask.tobytes() for mask in masks}) == 4


def test_a_restored_generator_repeats_its_masks():
    layer = Dropout(0.5)
    ones = tf.ones([64])
    layer(ones, training=True)
    state = layer.generator.state.numpy()
    first = layer(ones, training=True)
    layer.generator.state.assign(state)
    np.testing.assert_array_equal(layer(ones, training=True), first)


def test_has_no_weights_and_adds_nothing_to_checkpoints(tmp_path):
    layer = Dropout(0.5)
    layer(tf.ones([4]), training=True)
    assert not layer.weights
    saved = tf.train.Checkpoint(layer=layer).save(str(tmp_path / "c"))
    names = tf.train.load_checkpoint(saved).get_variable_to_shape_map()
    assert not [name for name in names if name.startswith("layer/")]


def test_rate_zero_and_inference_change_nothing():
    ones = tf.ones([8])
    np.testing.assert_array_equal(Dropout(0.0)(ones, training=True), ones)
    np.testing.assert_array_equal(Dropout(0.9)(ones, training=False), ones)
