import numpy as np
import pytest
import tensorflow as tf

from adapter_bert_tf import RegressionHead
from tests.heads.encoded import encoded


def test_is_squared_error():
    head = RegressionHead()
    values = head(encoded())
    assert values.shape == [4]
    np.testing.assert_allclose(head.loss(values + 2, values), [4] * 4, atol=1e-5)
    np.testing.assert_allclose(head.loss((values + 2)[:, None], values), [4] * 4, atol=1e-5)


def test_metrics():
    labels = np.array([0.0, 1.0, 2.0, 3.0])
    found = dict(RegressionHead().evaluate(["pearson", "spearman"], labels, labels**3))
    assert found["spearman"] == pytest.approx(1)
    assert found["pearson"] == pytest.approx(np.corrcoef(labels, labels**3)[0, 1])


@pytest.mark.filterwarnings("ignore::scipy.stats.ConstantInputWarning")
def test_constants_and_single_values_have_no_correlation():
    rising, same = np.arange(4.0), np.ones(4)
    for labels, values in ((rising, same), (same, rising), (rising[:1], rising[:1])):
        found = dict(RegressionHead().evaluate(["pearson", "spearman"], labels, values))
        assert found == {"pearson": 0.0, "spearman": 0.0}


def test_answers_are_the_outputs():
    outputs = tf.constant([[0.5], [-2.0]])
    answers = RegressionHead.answers(RegressionHead.activate(outputs), tf.constant([[""]] * 2))
    arrays = {name: values.numpy() for name, values in answers.items()}
    assert [prediction.value for prediction in RegressionHead.predictions(arrays)] == [0.5, -2.0]
    assert RegressionHead.table(arrays, ()) == {"value": [0.5, -2.0]}
