import numpy as np
import pytest
import tensorflow as tf

from adapter_bert_tf.data.batches import Batches, bucket_lengths
from adapter_bert_tf.data.records import LABELS
from adapter_bert_tf.text.inputs import IDS, SEGMENTS


def _batches(rows=1000, batch_size=32, longest=64, **options) -> Batches:
    """Row i has the label i, and lengths as a text's: many short, few long."""
    random = np.random.default_rng(0)
    lengths = np.minimum(3 + random.geometric(0.1, size=rows), longest)
    ids = tf.RaggedTensor.from_row_lengths(np.arange(lengths.sum(), dtype=np.int32) + 1, lengths)
    columns = {IDS: ids, SEGMENTS: tf.zeros_like(ids), LABELS: tf.range(rows)}
    options.setdefault("lengths", bucket_lengths(longest))
    return Batches(columns, batch_size, **options)


def _labels(dataset) -> list[int]:
    return [int(label) for _, labels, weights in dataset for label in labels[weights > 0]]


@pytest.mark.parametrize("fixed_rows", [False, True])
@pytest.mark.parametrize("rows", [1, 31, 32, 1000])
def test_every_example_comes_once_an_epoch(rows, fixed_rows):
    batches = _batches(rows, fixed_rows=fixed_rows)
    for plan in (batches.shuffled(0, 0), batches.shuffled(0, 1), batches.by_length()):
        assert len(plan) == len(batches) == -(-rows // 32)
        assert sorted(_labels(batches.dataset(plan))) == list(range(rows))


def test_rows_are_whole_and_masked():
    batches = _batches()
    for inputs, labels, _ in batches.dataset(batches.shuffled(0, 0)):
        ids, mask = inputs["input_word_ids"].numpy(), inputs["input_mask"].numpy()
        np.testing.assert_array_equal(ids > 0, mask == 1)
        for row, label in zip(ids, labels, strict=True):
            np.testing.assert_array_equal(row[row > 0], batches.columns[IDS][int(label)])


def test_order_follows_seed_and_epoch():
    batches = _batches()

    def order(seed, epoch):
        return np.concatenate(batches.shuffled(seed, epoch)).tolist()

    assert order(0, 0) == order(0, 0)
    assert len({tuple(order(seed, epoch)) for seed in (0, 1) for epoch in (0, 1)}) == 4


def test_little_is_padding():
    batches = _batches(rows=5000)
    masks = [inputs["input_mask"] for inputs, *_ in batches.dataset(batches.shuffled(0, 0))]
    real = sum(int(tf.reduce_sum(mask)) for mask in masks)
    assert real / sum(int(tf.size(mask)) for mask in masks) > 0.85
    assert {mask.shape[1] for mask in masks} <= set(bucket_lengths(64))


def test_a_tpu_gets_one_shape():
    batches = _batches(rows=100, lengths=[64], fixed_rows=True)
    dataset = batches.dataset(batches.by_length())
    assert {tuple(inputs["input_mask"].shape) for inputs, *_ in dataset} == {(32, 64)}
    inputs, labels, weights = dataset.element_spec
    assert inputs["input_mask"].shape == [32, 64]
    assert labels.shape == weights.shape == [32]


def test_without_labels_there_are_only_inputs():
    batches = _batches(rows=10)
    del batches.columns[LABELS]
    assert [len(batch) for batch in batches.dataset(batches.by_length())] == [1]


@pytest.mark.parametrize("longest", [4, 17, 128, 384, 512])
def test_lengths_rise_to_the_longest(longest):
    lengths = bucket_lengths(longest)
    assert lengths == sorted(set(lengths))
    assert lengths[-1] == longest
    assert len(lengths) < 50
