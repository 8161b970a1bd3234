import numpy as np
import pytest
import tensorflow as tf

from adapter_bert_tf import RegressionHead
from adapter_bert_tf.data.examples import LabelColumns
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
def test_constants_have_no_correlation():
    for labels, values in ((np.arange(4.0), np.ones(4)), (np.ones(4), np.arange(4.0))):
        found = dict(RegressionHead().evaluate(["pearson", "spearman"], labels, values))
        assert found == {"pearson": 0.0, "spearman": 0.0}


def _columns(*cells: str) -> LabelColumns:
    return LabelColumns("train.csv", ("score",), [(cell,) for cell in cells])


@pytest.mark.parametrize(
    ("cells", "is_recognized"),
    [
        (["1.5", "2"], True),
        (["1", "2"], False),
        (["1.0", "2.0"], False),
        (["1.5", "high"], False),
        (["-0.5", "1e-3"], True),
    ],
)
def test_values_are_numbers_of_which_some_are_not_whole(cells, is_recognized):
    assert RegressionHead.recognizes(_columns(*cells)) is is_recognized
    two = LabelColumns("train.csv", ("a", "b"), [("0.5", "0.5")])
    assert not RegressionHead.recognizes(two)


def test_values_are_read_and_others_are_told():
    assert RegressionHead.read_label(("2.5",), (), _columns()) == 2.5
    for cell in ("high", "nan", "inf", ""):
        with pytest.raises(ValueError, match="expected a number"):
            RegressionHead.read_label((cell,), (), _columns())


def test_answers_are_the_outputs():
    outputs = tf.constant([[0.5], [-2.0]])
    answers = RegressionHead.answers(RegressionHead.activate(outputs), tf.constant([[""]] * 2))
    arrays = {name: values.numpy() for name, values in answers.items()}
    assert [prediction.value for prediction in RegressionHead.predictions(arrays)] == [0.5, -2.0]
    assert RegressionHead.table(arrays, ()) == {"value": [0.5, -2.0]}
