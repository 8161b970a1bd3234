"""What classifier and SQuAD runs have in common."""

import types

import pytest
import tensorflow as tf

from adapter_bert_tf import ClassificationHead, TaskModel, UserError, load_encoder
from adapter_bert_tf.run.common import check_rows, identify, make_model
from adapter_bert_tf.run.settings import ClassifierSettings, make_settings
from adapter_bert_tf.text.inputs import IDS, SEGMENTS
from adapter_bert_tf.tuning.methods import Tuning
from tests import tiny
from tests.serve.tasks import make_pack


def test_what_was_fetched_is_named_with_its_digest(bert):
    model = TaskModel(load_encoder(bert), ClassificationHead(2))
    settings = make_settings(ClassifierSettings, {"task": "CoLA", "bert": bert})
    assert not [name for name in identify(settings, model, {})["digests"] if "from" in name]
    model.encoder.base.fetched["https://example.com/bert"] = "0" * 64
    digests = identify(settings, model, {})["digests"]
    assert digests["files from https://example.com/bert"] == "0" * 64


@pytest.mark.parametrize(
    ("ids", "segments", "told"),
    [
        ([2, tiny.WORDS, 3], [0, 0, 0], "token ids beyond the base's vocabulary; expected 0 to 49"),
        ([2, -1, 3], [0, 0, 0], "token ids beyond"),
        ([2, 5, 3], [0, 2, 0], "unknown segments; expected 0 to 1"),
        ([2, 5, 3], [0, -1, 0], "unknown segments"),
        ([2] * 9, [0] * 9, "a row has 9 tokens, more than --max_seq_length"),
    ],
)
def test_rows_that_the_base_does_not_know_are_refused(ids, segments, told):
    sizes = types.SimpleNamespace(vocab_size=tiny.WORDS, type_vocab_size=2)
    columns = {IDS: tf.ragged.constant([ids]), SEGMENTS: tf.ragged.constant([segments])}
    with pytest.raises(UserError, match=told):
        check_rows("a.tfrecord", columns, 8, types.SimpleNamespace(config=sizes))


def _values(bert, seed: int, strategy) -> dict[str, bytes]:
    settings = make_settings(ClassifierSettings, {"task": "CoLA", "bert": bert, "seed": seed})
    model = make_model(settings, ClassificationHead, ("0", "1"), strategy)
    return {path: each.numpy().tobytes() for path, each in model.variables_by_path().items()}


def test_the_seed_decides_what_is_new_also_under_a_strategy_that_is_given(bert, two_devices):
    one = tf.distribute.get_strategy()
    first = _values(bert, 3, one)
    assert first == _values(bert, 3, two_devices) == _values(bert, 3, one)
    other = _values(bert, 4, one)
    changed = {path.split("/")[0] for path in first if first[path] != other[path]}
    assert "head" in changed


def _adapted(bert, **values) -> tuple[int, ...] | None:
    settings = make_settings(ClassifierSettings, {"task": "CoLA", "bert": bert, **values})
    strategy = tf.distribute.get_strategy()
    return make_model(settings, ClassificationHead, ("0", "1"), strategy).encoder.adapter.layers


@pytest.mark.parametrize(
    ("flags", "layers"),
    [
        ({}, None),
        ({"from_layer": 2}, (2,)),
        ({"adapter_layers": (0, 2), "from_layer": 1}, (2,)),
        ({"adapter_layers": (1, 2)}, (1, 2)),
    ],
)
def test_below_what_is_trained_a_new_run_has_no_adapters(bert, flags, layers):
    assert _adapted(bert, **flags) == layers


def test_a_pack_keeps_the_adapters_that_it_has(bert, tmp_path):
    pack = make_pack(bert, tmp_path / "pack", tuning=Tuning(from_layer=2), max_seq_length=24)
    assert _adapted(bert, pack=pack, from_layer=2, adapter_size=4) is None
