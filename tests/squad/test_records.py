import json

import numpy as np
import pytest
import tensorflow as tf

from adapter_bert_tf.data.records import LABELS
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.squad.questions import read_squad, to_train
from adapter_bert_tf.squad.records import cached_span_records, read_span_records, span_features
from adapter_bert_tf.squad.windows import WindowSizes
from adapter_bert_tf.text.inputs import IDS
from adapter_bert_tf.text.tokenizer import Tokenizer, read_vocabulary
from tests import squad_lib

SIZES = WindowSizes(max_seq_length=28, doc_stride=7, max_query_length=6)


@pytest.fixture(scope="module")
def vocab_file(bert) -> str:
    return f"{bert}/vocab.txt"


@pytest.fixture(scope="module")
def tokenizer(vocab_file) -> Tokenizer:
    return Tokenizer(read_vocabulary(vocab_file, lower_case=True))


def _write(tmp_path, seed: int, negative: bool = False) -> str:
    path = tmp_path / "squad.json"
    words = [f"w{number}" for number in range(40)]
    path.write_text(json.dumps({"data": squad_lib.articles(seed, words, negative=negative)}))
    return str(path)


@pytest.mark.parametrize("seed", range(8))
def test_training_windows_are_model_gardens(seed, tokenizer, vocab_file, tmp_path):
    negative = seed % 2 == 1
    path = _write(tmp_path, seed, negative)
    features = span_features(to_train(read_squad(path), path, negative), tokenizer, SIZES)
    expected = squad_lib.features(path, vocab_file, SIZES, True, negative)[1]
    ids = features[IDS].to_tensor(shape=[None, SIZES.max_seq_length])
    np.testing.assert_array_equal(ids, [feature.input_ids for feature in expected])
    for ours, theirs in (
        ("unique_ids", "unique_id"),
        ("start_positions", "start_position"),
        ("end_positions", "end_position"),
    ):
        values = [getattr(feature, theirs) for feature in expected]
        np.testing.assert_array_equal(features[ours].flat_values, values)
    assert np.any(features["start_positions"].flat_values)


def test_records_hold_windows_and_positions(tokenizer, tmp_path):
    path = _write(tmp_path, 0)
    questions = to_train(read_squad(path), path, False)
    features = span_features(questions, tokenizer, SIZES)
    records = cached_span_records(questions, tokenizer, SIZES, str(tmp_path / "cache"), "squad")
    columns = read_span_records(records)
    assert columns[IDS].to_list() == features[IDS].to_list()
    np.testing.assert_array_equal(columns[LABELS][:, 0], features["start_positions"].flat_values)
    np.testing.assert_array_equal(columns[LABELS][:, 1], features["end_positions"].flat_values)


def test_the_cache_tells_other_settings_apart(tokenizer, tmp_path):
    path = _write(tmp_path, 0)
    questions = to_train(read_squad(path), path, False)
    others = (SIZES, WindowSizes(28, 8, 6), WindowSizes(28, 7, 5), WindowSizes(27, 7, 6))
    cache = str(tmp_path / "cache")
    names = {cached_span_records(questions, tokenizer, each, cache, "squad") for each in others}
    assert len(names) == len(others)


def test_records_without_positions_are_refused(tmp_path):
    path = str(tmp_path / "other.tfrecord")
    numbers = tf.train.Feature(int64_list=tf.train.Int64List(value=[1, 2]))
    names = ("input_ids", "input_mask", "segment_ids")
    example = tf.train.Example(features=tf.train.Features(feature=dict.fromkeys(names, numbers)))
    with tf.io.TFRecordWriter(path) as writer:
        writer.write(example.SerializeToString())
    with pytest.raises(UserError, match="has no start_positions"):
        read_span_records(path)
