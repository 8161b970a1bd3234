import numpy as np
import pytest

from adapter_bert_tf.run.metrics import compute_metrics

LABELS = np.array([1, 1, 1, 0, 0, 1])
PREDICTED = np.array([1, 0, 1, 0, 1, 1])


def test_classes():
    logits = np.eye(2)[PREDICTED]
    found = compute_metrics(["accuracy", "f1", "matthews"], LABELS, logits)
    assert found["accuracy"] == pytest.approx(4 / 6)
    assert found["f1"] == pytest.approx(2 * 3 / (2 * 3 + 1 + 1))
    assert found["matthews"] == pytest.approx((3 * 1 - 1 * 1) / np.sqrt(4 * 4 * 2 * 2))


def test_regression():
    labels = np.array([0.0, 1.0, 2.0, 3.0])
    found = compute_metrics(["pearson", "spearman"], labels, labels**3)
    assert found["spearman"] == pytest.approx(1)
    assert found["pearson"] == pytest.approx(np.corrcoef(labels, labels**3)[0, 1])


@pytest.mark.filterwarnings("ignore::scipy.stats.ConstantInputWarning")
def test_constants_have_no_correlation():
    for labels, values in ((np.arange(4.0), np.ones(4)), (np.ones(4), np.arange(4.0))):
        found = compute_metrics(["pearson", "spearman"], labels, values)
        assert found == {"pearson": 0.0, "spearman": 0.0}
