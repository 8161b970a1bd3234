"""What goes in comes out."""

import numpy as np
import pytest
import tensorflow as tf

from adapter_bert_tf.base.load import find_base, load_encoder
from adapter_bert_tf.encoder.variables import variables_by_path
from adapter_bert_tf.serve import values as values_module
from adapter_bert_tf.serve.export import export_packs, read_export
from adapter_bert_tf.serve.values import Values, from_served, served_width, split, to_served
from tests import tiny
from tests.serve.tasks import TEXTS, ask, expected, load, make_pack

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
    numbers = tf.constant([values.number("gamma"), values.number("kernel")])
    for found, wanted in zip(values.of_task(numbers, task, [1, 2]), (gamma, kernel), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_they_are_split_again(values):
    flat, _ = values.tracked
    defaults, tasks = split(flat.numpy(), values.layout())
    np.testing.assert_equal(defaults, DEFAULTS)
    np.testing.assert_equal(tasks, [{k: v for k, v in t.items() if k != "other"} for t in TASKS])


def test_too_few_are_told(values):
    flat, _ = values.tracked
    with pytest.raises(ValueError, match="values instead of"):
        split(flat.numpy()[:-1], values.layout())


@pytest.fixture
def few_lines(monkeypatch):
    """Makes the tiny BERT's inner width one that needs more columns."""
    monkeypatch.setattr(values_module, "_FEW_LINES", tiny.INNER)


@pytest.mark.parametrize("width", [512, 1536, 3072, 4096, 8, 100, 3080])
def test_rows_are_never_two_kilobytes_apart(width):
    assert served_width(width) % 512
    assert served_width(width) == width or not width % 512


def test_the_base_is_found_again_in_an_export(bert, few_lines):
    base = variables_by_path(load_encoder(bert))
    base = {path: variable.numpy() for path, variable in base.items()}
    served = to_served(base)
    assert served["transformer/layer_0/intermediate/bias"].shape == (tiny.INNER + 8,)
    assert sum(map(np.count_nonzero, served.values())) == sum(map(np.count_nonzero, base.values()))
    found = from_served(served, tiny.INNER)
    assert found.keys() == base.keys()
    for path, value in base.items():
        np.testing.assert_array_equal(found[path], value)


def test_more_columns_change_no_answer_and_are_not_part_of_the_base(bert, few_lines, tmp_path):
    pack = make_pack(bert, tmp_path / "pack", "a", max_seq_length=24)
    version = export_packs(find_base(bert), [pack], tmp_path / "model")
    answers = ask(load(version)["serving_default"], text=TEXTS)
    np.testing.assert_allclose(answers["probabilities"], expected(bert, pack), atol=1e-5)
    base, _ = read_export(version)
    before = dict(find_base(bert).read())
    for path, value in base.read():
        np.testing.assert_array_equal(value, before[path])
