import os

import numpy as np
import pytest
import tensorflow as tf

from adapter_bert_tf import UserError
from adapter_bert_tf.data.examples import Examples
from adapter_bert_tf.data.records import LABELS, cached_records, check_lengths, read_records
from adapter_bert_tf.text.inputs import IDS, SEGMENTS
from adapter_bert_tf.text.tokenizer import Tokenizer, Vocabulary

TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b")


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer(Vocabulary(TOKENS, True))


def _cached(folder, tokenizer, examples, max_seq_length=8) -> str:
    return cached_records(examples, tokenizer, max_seq_length, str(folder), "test")


def test_records_have_the_originals_features_without_padding(tmp_path, tokenizer):
    path = _cached(tmp_path, tokenizer, Examples(["a b", "a"], ["b", "b b"], [1, 0]))
    examples = [tf.train.Example.FromString(r.numpy()) for r in tf.data.TFRecordDataset(path)]
    features = examples[1].features.feature
    assert set(features) == {"input_ids", "input_mask", "segment_ids", "label_ids"}
    assert list(features["input_ids"].int64_list.value) == [2, 4, 3, 5, 5, 3]
    assert list(features["input_mask"].int64_list.value) == [1] * 6
    assert list(features["segment_ids"].int64_list.value) == [0, 0, 0, 1, 1, 1]
    assert list(features["label_ids"].int64_list.value) == [0]


def test_what_is_written_is_read(tmp_path, tokenizer):
    columns = read_records(
        _cached(tmp_path, tokenizer, Examples(["a b", "", "b"], None, [2, 0, 1]))
    )
    assert columns[IDS].to_list() == [[2, 4, 5, 3], [2, 3], [2, 5, 3]]
    assert columns[LABELS].numpy().tolist() == [2, 0, 1]
    values = Examples(["a", "b"], None, [2.5, 3.0])
    columns = read_records(_cached(tmp_path, tokenizer, values), tf.float32)
    assert columns[LABELS].numpy().tolist() == [2.5, 3.0]
    assert LABELS not in read_records(_cached(tmp_path, tokenizer, Examples(["a"], None, None)))


def test_a_row_can_have_several_labels(tmp_path, tokenizer):
    labels = [[0, 1, 1], [1, 0, 0]]
    columns = read_records(_cached(tmp_path, tokenizer, Examples(["a", "b"], None, labels)))
    assert columns[LABELS].numpy().tolist() == labels


def test_the_cache_knows_all_that_matters(tmp_path, tokenizer):
    examples = Examples(["a b"], None, [1])
    paths = {
        _cached(tmp_path, tokenizer, examples),
        _cached(tmp_path, tokenizer, examples, max_seq_length=7),
        _cached(tmp_path, tokenizer, Examples(["a b"], None, [0])),
        _cached(tmp_path, tokenizer, Examples(["a"], ["b"], [1])),
        _cached(tmp_path, Tokenizer(Vocabulary(TOKENS, False)), examples),
        _cached(tmp_path, Tokenizer(Vocabulary((*TOKENS, "c"), True)), examples),
    }
    assert len(paths) == 6
    before = os.stat(_cached(tmp_path, tokenizer, examples)).st_mtime_ns
    assert os.stat(_cached(tmp_path, tokenizer, examples)).st_mtime_ns == before
    assert len(os.listdir(tmp_path)) == 6


def test_records_of_the_original_are_read(tmp_path):
    """Padded, and with rows that only fill the last batch."""

    def feature(*values):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    path = str(tmp_path / "train.tf_record")
    with tf.io.TFRecordWriter(path) as writer:
        for real in (1, 1, 0):
            features = {
                "input_ids": feature(2, 4, 3, 0, 0),
                "input_mask": feature(1, 1, 1, 0, 0),
                "segment_ids": feature(0, 0, 0, 0, 0),
                "label_ids": feature(1),
                "is_real_example": feature(real),
            }
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())
    columns = read_records(path)
    assert columns[IDS].to_list() == [[2, 4, 3]] * 2
    assert columns[SEGMENTS].to_list() == [[0, 0, 0]] * 2
    assert columns[LABELS].numpy().tolist() == [1, 1]


@pytest.mark.parametrize("cut", [5, 40])
def test_a_file_cut_short_is_told(tmp_path, tokenizer, cut):
    path = _cached(tmp_path, tokenizer, Examples(["a b"] * 50, None, [1] * 50))
    os.truncate(path, os.path.getsize(path) - cut)
    with pytest.raises(UserError, match="cut short or damaged"):
        read_records(path)


@pytest.mark.parametrize("length", [0, 2**25 + 1, 2**36, 2**40, 2**62, 2**64 - 8])
def test_a_length_beyond_the_file_is_told_before_tensorflow_believes_it(tmp_path, length):
    path = tmp_path / "x.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(b"a" * 100)
    first = path.read_bytes()
    # The checksum of the length is not reached.
    path.write_bytes(first + length.to_bytes(8, "little") + bytes(64))
    with pytest.raises(UserError, match="cut short or damaged"):
        check_lengths(str(path))
    path.write_bytes(first)
    check_lengths(str(path))


def test_other_files_are_told(tmp_path):
    path = tmp_path / "x.tfrecord"
    path.write_bytes(b"")
    with pytest.raises(UserError, match="no records"):
        read_records(str(path))
    path.write_bytes(b"text" * 100)
    with pytest.raises(UserError, match="cut short or damaged"):
        read_records(str(path))


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path, tokenizer, monkeypatch):
    class FullDisk(tf.io.TFRecordWriter):
        def write(self, record):
            raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    monkeypatch.setattr(tf.io, "TFRecordWriter", FullDisk)
    with pytest.raises(UserError, match="No space left on device"):
        _cached(tmp_path, tokenizer, Examples(["a"], None, [1]))
    assert not os.listdir(tmp_path)


def test_large_files_keep_their_order(tmp_path, tokenizer):
    labels = np.random.default_rng(0).integers(0, 5, size=5000).tolist()
    columns = read_records(_cached(tmp_path, tokenizer, Examples(["a"] * 5000, None, labels)))
    assert columns[LABELS].numpy().tolist() == labels
