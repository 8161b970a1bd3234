import numpy as np
import pytest
import tf_keras

from adapter_bert_tf.tuning.schedule import WarmUpAndDecay


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
