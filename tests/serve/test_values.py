"""What goes in comes out."""

import numpy as np
import pytest
import tensorflow as tf

from adapter_bert_tf.serve.values import Values, split

RANDOM = np.random.default_rng(0)
DEFAULTS = {"gamma": np.ones(5, np.float32), "kernel": np.zeros([5, 0], np.float32)}
TASKS = [
    {"gamma": RANDOM.normal(size=5).astype(np.float32)},
    {"kernel": RANDOM.normal(size=[5, 3]).astype(np.float32), "other": np.ones(2, np.float32)},
    {"kernel": RANDOM.normal(size=[5, 16]).astype(np.float32)},
]


@pytest.fixture(scope="module")
def values() -> Values:
    return Values(DEFAULTS, TASKS)


@pytest.mark.parametrize("task", range(len(TASKS)))
def test_a_task_has_its_own_values_or_the_defaults(values, task):
    gamma, kernel = (TASKS[task].get(name, DEFAULTS[name]) for name in ("gamma", "kernel"))
    np.testing.assert_array_equal(values.vector(values.number("gamma"), task), gamma)
    np.testing.assert_array_equal(values.matrix(values.number("kernel"), task), kernel)


def test_the_values_of_several_tasks(values):
    found = values.vectors(tf.constant(values.number("gamma")), tf.constant([2, 0]), 5)
    np.testing.assert_array_equal(found, [DEFAULTS["gamma"], TASKS[0]["gamma"]])


def test_they_are_split_again(values):
    flat, _ = values.variables
    defaults, tasks = split(flat.numpy(), values.layout())
    np.testing.assert_equal(defaults, DEFAULTS)
    np.testing.assert_equal(tasks, [{k: v for k, v in t.items() if k != "other"} for t in TASKS])


def test_too_few_are_told(values):
    flat, _ = values.variables
    with pytest.raises(ValueError, match="values instead of"):
        split(flat.numpy()[:-1], values.layout())
