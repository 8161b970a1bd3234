import numpy as np
import pytest
import tensorflow as tf
from scipy.special import log_softmax

from adapter_bert_tf import ClassificationHead, UserError
from adapter_bert_tf.data.labels import MOST_CLASSES
from tests.heads.encoded import encoded

LABELS = np.array([1, 1, 1, 0, 0, 1])
PREDICTED = np.array([1, 0, 1, 0, 1, 1])


def test_the_metric_that_is_asked_for_decides():
    two, three = ClassificationHead(2), ClassificationHead(3)
    assert two.choose_metrics() == ("accuracy", "macro_f1")
    assert two.choose_metrics(["matthews"]) == ("matthews",)
    assert two.choose_metrics(["accuracy", "f1"], "f1") == ("f1", "accuracy")
    assert two.choose_metrics(["matthews"], "accuracy") == ("accuracy", "matthews")
    for head, name in ((three, "f1"), (two, "pearson"), (two, "")):
        with pytest.raises(UserError, match=f"--metric={name}: expected one of accuracy, "):
            head.choose_metrics(["accuracy"], name)


def test_is_cross_entropy_on_the_pooled_output():
    head = ClassificationHead(classes=3)
    logits = head(encoded())
    dense = head.output_layer
    np.testing.assert_allclose(logits, encoded()["pooled_output"] @ dense.kernel, atol=1e-6)
    labels = np.array([0, 2, 1, 1])
    expected = -log_softmax(logits, axis=-1)[np.arange(4), labels]
    np.testing.assert_allclose(head.loss(labels, logits), expected, atol=1e-6)
    np.testing.assert_allclose(head.loss(labels[:, None], logits), expected, atol=1e-6)


def test_dropout_is_applied_once_and_only_in_training():
    head = ClassificationHead(classes=3, dropout=0.5)
    ones = {"pooled_output": tf.ones([400, 6]), "sequence_output": tf.fill([400, 1, 6], 7.0)}
    head(ones)
    head.output_layer.kernel.assign(tf.eye(6, 3))
    assert set(np.unique(head(ones, training=True))) == {0.0, 2.0}
    np.testing.assert_array_equal(head(ones), tf.ones([400, 3]))


def test_metrics():
    head = ClassificationHead(2)
    found = dict(head.evaluate(["accuracy", "f1", "matthews"], LABELS, np.eye(2)[PREDICTED]))
    assert found["accuracy"] == pytest.approx(4 / 6)
    assert found["f1"] == pytest.approx(2 * 3 / (2 * 3 + 1 + 1))
    assert found["matthews"] == pytest.approx((3 * 1 - 1 * 1) / np.sqrt(4 * 4 * 2 * 2))


def test_the_default_metrics_take_any_number_of_classes():
    head = ClassificationHead(3)
    labels, predicted = np.array([0, 1, 2, 2]), np.array([0, 1, 2, 1])
    found = dict(head.evaluate(head.default_metrics, labels, np.eye(3)[predicted]))
    # F1 is 1, 2/3 and 2/3.
    assert found == pytest.approx({"accuracy": 3 / 4, "macro_f1": (1 + 2 / 3 + 2 / 3) / 3})


def test_answers_name_the_most_probable_label():
    logits = tf.constant([[0.0, 2.0, 1.0], [3.0, 0.0, 0.0]])
    names = tf.constant([["x", "y", "z"]] * 2)
    answers = ClassificationHead.answers(ClassificationHead.activate(logits), names)
    arrays = {name: values.numpy() for name, values in answers.items()}
    first, second = ClassificationHead.predictions(arrays)
    assert (first.label, second.label) == ("y", "x")
    for prediction in (first, second):
        assert prediction.score == max(prediction.probabilities)
        assert sum(prediction.probabilities) == pytest.approx(1)
    table = ClassificationHead.table(arrays, ["x", "y", "z"])
    assert table["label"] == ["y", "x"]
    assert [table[f"probability_{name}"][0] for name in "xyz"] == list(first.probabilities)


@pytest.mark.parametrize("classes", [0, -1, MOST_CLASSES + 1, "3", 2.0])
def test_wrong_numbers_of_classes_are_told(classes):
    with pytest.raises(ValueError, match="classes: expected a whole number from 1"):
        ClassificationHead(classes)
