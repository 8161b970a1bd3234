import threading

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from adapter_bert_tf import Adapter, AdapterConfig
from adapter_bert_tf.encoder.adapter_layer import InputOf
from adapter_bert_tf.encoder.variables import variables_by_path

WIDTH = 12


def _adapter(**choices) -> Adapter:
    return Adapter(AdapterConfig(size=4, init_scale=0.5, **choices))


def _values(adapter: Adapter) -> dict[str, np.ndarray]:
    return {path: variable.numpy() for path, variable in variables_by_path(adapter).items()}


def _gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


@pytest.fixture
def x():
    return np.random.default_rng(0).normal(size=[2, 5, WIDTH]).astype(np.float32)


def test_is_a_bottleneck_with_a_skip(x):
    adapter = _adapter()
    output = adapter(x)
    v = _values(adapter)
    expected = x + _gelu(x @ v["down/kernel"] + v["down/bias"]) @ v["up/kernel"] + v["up/bias"]
    np.testing.assert_allclose(output, expected, atol=1e-5)


def test_parallel_reads_the_input_of_the_sub_layer(x):
    adapter = _adapter(parallel=True)
    source = x[:, ::-1]
    output = adapter(x, source)
    v = _values(adapter)
    np.testing.assert_allclose(
        output, x + _gelu(source @ v["down/kernel"]) @ v["up/kernel"], atol=1e-5
    )


def test_pfeiffer_reads_the_norm_of_output_and_input(x):
    adapter = Adapter(
        AdapterConfig(size=4, init_scale=0.5, design="pfeiffer"), norm=lambda tokens: 3 * tokens + 1
    )
    source = x[:, ::-1]
    output = adapter(x, source)
    v = _values(adapter)
    read = 3 * (x + source) + 1
    np.testing.assert_allclose(
        output, x + _gelu(read @ v["down/kernel"]) @ v["up/kernel"], atol=1e-4
    )


def test_scaling_is_a_factor_of_what_is_added(x):
    adapter = _adapter(scaling=-2.5)
    output = adapter(x)
    v = _values(adapter)
    update = _gelu(x @ v["down/kernel"]) @ v["up/kernel"]
    np.testing.assert_allclose(output, x - 2.5 * update, atol=1e-5)


def test_multiplicative_scales(x):
    adapter = _adapter(multiplicative=True)
    output = adapter(x)
    v = _values(adapter)
    np.testing.assert_allclose(
        output, x * (1 + _gelu(x @ v["down/kernel"]) @ v["up/kernel"]), atol=1e-5
    )


def test_inner_layer_norm_makes_the_bottleneck_blind_to_scale(x):
    adapter = _adapter(layer_norm=True)
    update = adapter(x) - x
    np.testing.assert_allclose(adapter(3 * x) - 3 * x, update, atol=1e-4)
    without = _adapter()
    assert np.abs((without(3 * x) - 3 * x) - (without(x) - x)).max() > 1e-2


def test_more_hidden_layers(x):
    adapter = _adapter(hidden_layers=3, activation="relu")
    output = adapter(x)
    v = _values(adapter)
    hidden = x
    for name in ("down", "hidden_1", "hidden_2"):
        hidden = np.maximum(hidden @ v[f"{name}/kernel"], 0)
    np.testing.assert_allclose(output, x + hidden @ v["up/kernel"], atol=1e-5)


@pytest.mark.parametrize(
    ("choices", "count"),
    [
        ({}, 2 * 4 * WIDTH + 4 + WIDTH),
        ({"hidden_layers": 2}, 2 * 4 * WIDTH + 4 + WIDTH + 4 * 4 + 4),
        ({"layer_norm": True}, 2 * 4 * WIDTH + 4 + WIDTH + 2 * WIDTH),
    ],
)
def test_parameters_follow_the_formula(x, choices, count):
    adapter = _adapter(**choices)
    adapter(x)
    assert adapter.count_params() == count


def test_starts_as_truncated_normal_with_zero_biases(x):
    adapter = Adapter(AdapterConfig(size=200, init_scale=1e-2))
    adapter(x)
    v = _values(adapter)
    assert np.abs(v["down/kernel"]).max() <= 2e-2
    assert 0.5e-2 < v["down/kernel"].std() < 1.2e-2
    assert not v["down/bias"].any()
    assert not v["up/bias"].any()


def test_dropout_comes_before_the_bottleneck():
    adapter = Adapter(AdapterConfig(size=4, init_scale=0.0), dropout=0.5)
    ones = tf.ones([4, 8, WIDTH])
    dropped = adapter(ones, training=True).numpy()
    assert set(np.unique(dropped)) == {0.0, 2.0}
    np.testing.assert_array_equal(adapter(ones, training=False), ones)


@pytest.mark.parametrize(
    ("given", "sites", "scaling", "parallel"),
    [
        ({}, ("attention", "feed_forward"), 1.0, False),
        ({"design": "pfeiffer"}, ("feed_forward",), 1.0, False),
        ({"design": "parallel"}, ("feed_forward",), 4.0, True),
        ({"parallel": True}, ("attention", "feed_forward"), 1.0, True),
        ({"design": "parallel", "scaling": 1, "sites": ["attention"]}, ("attention",), 1, True),
    ],
    ids=str,
)
def test_a_design_says_what_is_not_given(given, sites, scaling, parallel):
    config = AdapterConfig(**given)
    assert (config.sites, config.scaling, config.parallel) == (sites, scaling, parallel)
    assert (config.design == "parallel") == parallel
    assert AdapterConfig(**config.to_dict()) == config


def test_config_round_trip(x):
    adapter = _adapter(parallel=True, layer_norm=True, sites=["attention"])
    again = Adapter.from_config(adapter.get_config())
    assert again.config == adapter.config
    assert AdapterConfig(**adapter.config.to_dict()) == adapter.config


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"size": 0}, "size"),
        ({"size": 1.5}, "size"),
        ({"hidden_layers": 0}, "hidden_layers"),
        ({"init_scale": -1.0}, "init_scale"),
        ({"sites": ()}, "sites"),
        ({"sites": ("pooler",)}, "pooler"),
        ({"activation": "step"}, "step"),
        ({"design": "odd"}, "design: expected one of houlsby, pfeiffer, parallel"),
        ({"design": "pfeiffer", "parallel": True}, "pfeiffer is not parallel"),
        ({"scaling": float("nan")}, "scaling"),
        ({"epsilon": -1.0}, "adapter"),
    ],
)
def test_wrong_choices_are_told(wrong, told):
    with pytest.raises(ValueError, match=told):
        AdapterConfig(**wrong)


def test_a_layer_is_wrapped_once_for_all_threads(x):
    dense = tf_keras.layers.Dense(3)
    source = InputOf(dense)
    found = {}

    def call(number):
        dense(x + number)
        found[number] = source.take()

    threads = [threading.Thread(target=call, args=[number]) for number in range(20)]
    for thread in threads:
        thread.start()
        thread.join()
    for number, inputs in found.items():
        np.testing.assert_allclose(inputs, x + number)
    # What is wrapped is the class's own method, not another wrapper.
    wrapped = [cell.cell_contents for cell in dense.call.__closure__]
    assert tf_keras.layers.Dense.call.__get__(dense) in wrapped
