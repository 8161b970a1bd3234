import numpy as np
import pytest
import tensorflow as tf

from adapter_bert_tf import internals
from adapter_bert_tf.encoder.fast.dropout import Dropout


def test_drops_the_share_and_keeps_the_mean():
    dropped = Dropout(0.25)(tf.ones([200, 200]), training=True).numpy()
    assert abs((dropped == 0).mean() - 0.25) < 0.01
    assert abs(dropped.mean() - 1) < 0.02


def test_rates_are_kept_to_a_fraction_and_odd_sizes_are_whole():
    ones = tf.ones([333, 1001])
    dropped = Dropout(0.1)(ones, training=True).numpy()
    assert dropped.shape == (333, 1001)
    assert abs((dropped == 0).mean() - 0.1) < 0.003
    assert np.unique(dropped)[1] == np.float32(1 / 0.9)


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


def test_a_drawn_mask_stays_the_same():
    layer = Dropout(0.3)
    drop = layer.draw()
    ones = tf.ones([50, 40])
    np.testing.assert_array_equal(drop(ones), drop(ones))
    np.testing.assert_allclose(drop(2 * ones), 2 * drop(ones))


def test_masks_are_random_along_every_axis_and_from_draw_to_draw():
    layer, rate, shape = Dropout(0.1, seed=1), 0.1, (64, 32, 128)
    masks = np.array([layer.draw()(tf.ones(shape)) == 0 for _ in range(16)])
    for axis in range(masks.ndim):
        others = tuple(i for i in range(masks.ndim) if i != axis)
        _assert_chance(masks.mean(others), rate, masks.size // masks.shape[axis])
        # Neighbours are dropped together as often as they would be by chance.
        both = masks & np.roll(masks, 1, axis)
        _assert_chance(both.mean(others), rate**2, masks.size // masks.shape[axis])


def _assert_chance(shares: np.ndarray, rate: float, count: int) -> None:
    deviation = np.sqrt(rate * (1 - rate) / count)
    assert np.abs(shares - rate).max() < 6 * deviation
    # Nor are they too even.
    assert shares.std() > 0.5 * deviation


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
    generator = internals.dropout_generator(layer)
    state = generator.state.numpy()
    first = layer(ones, training=True)
    generator.state.assign(state)
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
