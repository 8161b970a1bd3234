import numpy as np
import pytest
import tensorflow as tf
from scipy.special import log_softmax

from adapter_bert_tf import ClassificationHead, RegressionHead, SpanHead
from adapter_bert_tf.heads.kinds import HEADS, make_head


@pytest.fixture
def encoded():
    random = np.random.default_rng(0)
    return {
        "pooled_output": tf.constant(random.normal(size=[4, 6]), tf.float32),
        "sequence_output": tf.constant(random.normal(size=[4, 9, 6]), tf.float32),
    }


def test_classification_is_cross_entropy_on_the_pooled_output(encoded):
    head = ClassificationHead(classes=3)
    logits = head(encoded)
    dense = head.output_layer
    np.testing.assert_allclose(logits, encoded["pooled_output"] @ dense.kernel, atol=1e-6)
    labels = np.array([0, 2, 1, 1])
    expected = -log_softmax(logits, axis=-1)[np.arange(4), labels]
    np.testing.assert_allclose(head.loss(labels, logits), expected, atol=1e-6)
    np.testing.assert_allclose(head.loss(labels[:, None], logits), expected, atol=1e-6)


def test_regression_is_squared_error(encoded):
    head = RegressionHead()
    values = head(encoded)
    assert values.shape == [4]
    np.testing.assert_allclose(head.loss(values + 2, values), [4] * 4, atol=1e-5)


def test_span_is_the_mean_of_start_and_end(encoded):
    head = SpanHead()
    logits = head(encoded).numpy()
    assert logits.shape == (4, 9, 2)
    labels = np.array([[0, 3], [8, 8], [2, 1], [5, 6]])
    rows = np.arange(4)
    start = log_softmax(logits[..., 0], axis=-1)[rows, labels[:, 0]]
    end = log_softmax(logits[..., 1], axis=-1)[rows, labels[:, 1]]
    np.testing.assert_allclose(head.loss(labels, logits), -(start + end) / 2, atol=1e-6)


def test_dropout_is_applied_once_and_only_in_training(encoded):
    head = ClassificationHead(classes=3, dropout=0.5)
    ones = {"pooled_output": tf.ones([400, 6])}
    head(ones)
    head.output_layer.kernel.assign(tf.eye(6, 3))
    assert set(np.unique(head(ones, training=True))) == {0.0, 2.0}
    np.testing.assert_array_equal(head(ones), tf.ones([400, 3]))


@pytest.mark.parametrize("kind", HEADS)
def test_settings_make_the_same_head(kind, encoded):
    head = make_head(kind, {"classes": 3} if kind == "classification" else {})
    again = make_head(kind, head.settings())
    assert again.settings() == head.settings()
    assert type(again) is HEADS[kind]
    assert again(encoded).shape == head(encoded).shape
    assert not head.output_layer.bias.numpy().any()
    assert np.abs(head.output_layer.kernel).max() <= 0.04
