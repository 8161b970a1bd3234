import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from adapter_bert_tf.tuning.optimizer import BertAdam, WarmUpAndDecay, create_optimizer


def test_rises_then_goes_on_below_the_nominal_rate():
    schedule = WarmUpAndDecay(1e-3, steps=100, warmup_steps=10)
    rates = np.array([schedule(step) for step in range(100)])
    np.testing.assert_allclose(rates[:9], 1e-4 * np.arange(1, 10), rtol=1e-5)
    np.testing.assert_allclose(rates[9:], 1e-5 * np.arange(90, -1, -1), rtol=1e-4, atol=1e-10)


def test_without_warm_up_and_past_the_end():
    schedule = WarmUpAndDecay(1.0, steps=4, warmup_steps=0)
    assert [float(schedule(step)) for step in range(6)] == [0.75, 0.5, 0.25, 0, 0, 0]


@pytest.mark.parametrize("warmup_steps", [0, 3])
def test_round_trip(warmup_steps):
    schedule = WarmUpAndDecay(1e-3, steps=7, warmup_steps=warmup_steps)
    serialize, deserialize = (
        tf_keras.optimizers.schedules.serialize,
        tf_keras.optimizers.schedules.deserialize,
    )
    assert deserialize(serialize(schedule)).get_config() == schedule.get_config()


def _expected(value, gradients, decay, rates):
    mean = variance = 0.0
    for gradient, rate in zip(gradients, rates, strict=True):
        mean = 0.9 * mean + 0.1 * gradient
        variance = 0.999 * variance + 0.001 * gradient**2
        value = value - rate * (mean / (np.sqrt(variance) + 1e-6) + decay * value)
    return value


def test_is_adam_without_bias_correction_with_decoupled_decay():
    rates = [1e-2 * (1 - update / 5) for update in (1, 2, 3)]
    gradients = [np.array([0.3, -0.2]), np.array([0.1, 0.4]), np.array([-0.5, 0.0])]
    start = np.array([1.0, -2.0])
    variables = {
        name: tf.Variable(start, dtype=tf.float32, name=name)
        for name in ("dense/kernel", "dense/bias", "output_layer_norm/gamma")
    }
    optimizer = create_optimizer(1e-2, steps=5, warmup_steps=0)
    for gradient in gradients:
        # Three equal gradients, small enough that their global norm is not cut.
        pairs = [(tf.constant(gradient, tf.float32), v) for v in variables.values()]
        optimizer.apply_gradients(pairs)
    for name, variable in variables.items():
        decay = 0.01 if name == "dense/kernel" else 0.0
        expected = _expected(start, gradients, decay, rates)
        np.testing.assert_allclose(variable, expected, atol=1e-6, err_msg=name)


def test_a_copy_decays_the_same():
    optimizer = create_optimizer(1e-2, steps=5, warmup_steps=0)
    copy = BertAdam.from_config(optimizer.get_config())
    results = []
    for each in (optimizer, copy):
        bias = tf.Variable([1.0], name="bias")
        each.apply_gradients([(tf.constant([0.0]), bias)])
        results.append(bias.numpy()[0])
    assert results == [1.0, 1.0]


def test_cuts_the_global_norm_at_one():
    a, b = tf.Variable([0.0], name="a"), tf.Variable([0.0], name="b")
    optimizer = create_optimizer(1e-2, steps=5, warmup_steps=0)
    optimizer.apply_gradients([(tf.constant([30.0]), a), (tf.constant([40.0]), b)])
    means = [variable for variable in optimizer.variables if "/m/" in variable.name]
    np.testing.assert_allclose([m.numpy()[0] for m in means], [0.06, 0.08], rtol=1e-5)


def test_sparse_gradients_decay_the_moments_of_absent_rows():
    table = tf.Variable(tf.zeros([3, 2]), name="embeddings")
    optimizer = create_optimizer(1e-2, steps=10, warmup_steps=0)
    for row in (0, 1):
        slices = tf.IndexedSlices(tf.ones([1, 2]) * 0.1, tf.constant([row]), tf.constant([3, 2]))
        optimizer.apply_gradients([(slices, table)])
    rates = [1e-2 * 0.9, 1e-2 * 0.8]
    first = _expected(0.0, [0.1, 0.0], 0.01, rates)
    np.testing.assert_allclose(table[0], [first, first], atol=1e-6)
    np.testing.assert_array_equal(table[2], [0, 0])
