"""What is computed here instead of by Keras or TensorFlow gives the same."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from adapter_bert_tf.baseline.model import Dropout, _segment_max, _windows
from adapter_bert_tf.baseline.train import _Adagrad, _add_up

# Words of four rows, one of them without any, and one with equal words.
ROWS = tf.constant([0, 0, 0, 1, 3, 3], tf.int64)
WORDS = tf.constant([[1.0, 2], [4, 1], [4, 5], [3, 3], [2, 2], [2, 6]])


def test_windows_end_with_their_rows():
    windows = _windows(WORDS, ROWS, 3).numpy().reshape([6, 3, 2])
    words, rows = WORDS.numpy(), ROWS.numpy()
    for place, window in enumerate(windows):
        for i, found in enumerate(window):
            is_inside = place + i < 6 and rows[place + i] == rows[place]
            np.testing.assert_array_equal(found, words[place + i] if is_inside else [0, 0])


def test_no_words_have_no_windows():
    assert _windows(WORDS[:0], ROWS[:0], 2).shape == [0, 4]


def test_maxima_and_their_gradient_are_tensorflows():
    weights = tf.constant([[1.0, 2], [3, 4], [5, 6], [7, 8]])
    found = []
    for maxima_of in (_segment_max, tf.math.unsorted_segment_max):
        with tf.GradientTape() as tape:
            tape.watch(WORDS)
            maxima = maxima_of(WORDS, ROWS, 4)
            total = tf.reduce_sum(tf.where(maxima > maxima.dtype.min, maxima * weights, 0.0))
        found.append((maxima, tape.gradient(total, WORDS)))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])
    assert np.count_nonzero(found[0][1]) > 6


@pytest.mark.parametrize("rate", [0.0, 0.05, 0.4])
def test_dropout_drops_its_share_and_keeps_the_mean(rate):
    np.random.seed(0)
    dropout, ones = Dropout(rate), tf.ones([1000, 333])
    np.testing.assert_array_equal(dropout(ones), ones)
    dropped = dropout(ones, training=True).numpy()
    assert (dropped == 0).mean() == pytest.approx(rate, abs=0.004)
    assert dropped.mean() == pytest.approx(1, abs=0.005)
    if rate:
        assert (dropout(ones, training=True).numpy() != dropped).any()


def test_adagrad_is_keras():
    start = np.random.default_rng(0).normal(size=[5, 3]).astype(np.float32)
    dense, sparse = tf.constant(start * 2), tf.IndexedSlices(start[:4], tf.constant([1, 4, 1, 0]))
    mine, theirs = tf.Variable(start), tf.Variable(start)
    adagrad, keras = _Adagrad(0.1, [mine]), tf_keras.optimizers.legacy.Adagrad(0.1)
    for gradient in (dense, sparse, dense):
        adagrad.apply([_add_up(gradient)])
        keras.apply_gradients([(gradient, theirs)])
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)
