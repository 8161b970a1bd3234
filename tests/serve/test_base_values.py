"""The base's variables, as they lie in an export."""

import numpy as np
import pytest

from adapter_bert_tf.base.load import find_base, load_encoder
from adapter_bert_tf.encoder.variables import variables_by_path
from adapter_bert_tf.serve import base_values
from adapter_bert_tf.serve.base_values import from_served, served_width, to_served
from adapter_bert_tf.serve.description import read_export
from adapter_bert_tf.serve.export import export_packs
from tests import tiny
from tests.serve.tasks import TEXTS, ask, expected, load, make_pack


@pytest.fixture
def few_lines(monkeypatch):
    """Makes the tiny BERT's inner width one that needs more columns."""
    monkeypatch.setattr(base_values, "_FEW_LINES", tiny.INNER)


@pytest.mark.parametrize("width", [512, 1536, 3072, 4096, 8, 100, 3080])
def test_rows_are_never_two_kilobytes_apart(width):
    assert served_width(width) % 512
    assert served_width(width) == width or not width % 512


def test_they_are_found_again(bert, few_lines):
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
