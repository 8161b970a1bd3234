import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from adapter_bert_tf import UserError
from adapter_bert_tf.data.memory import to_table

ROWS = [("good film", "pos"), ("bad film", "neg")]
AS_DICTS = [{"text": text, "label": label} for text, label in ROWS]


def test_a_path_stays_a_path(tmp_path):
    assert to_table("train.csv") == "train.csv"
    assert to_table(tmp_path / "train.csv") == f"{tmp_path}/train.csv"


@pytest.mark.parametrize(
    "examples",
    [
        ROWS,
        [list(row) for row in ROWS],
        pd.DataFrame(ROWS, columns=["text", "label"]),
        tf.data.Dataset.from_tensor_slices(
            {"text": [row[0] for row in ROWS], "label": [row[1] for row in ROWS]}
        ),
    ],
    ids=["tuples", "lists", "DataFrame", "Dataset"],
)
def test_all_forms_give_the_same_table(examples):
    table = to_table(examples)
    assert [row for _, row in table.rows] == AS_DICTS
    assert [number for number, _ in table.rows] == [1, 2]
    assert set(table.columns) == {"text", "label"}


def test_three_values_are_a_pair_and_its_label():
    table = to_table([("a", "b", 1)])
    assert table.rows == [(1, {"text": "a", "text_pair": "b", "label": "1"})]


def test_numbers_are_written_as_people_write_them():
    numbers = [1, np.int64(1), True, np.float32(0.5), 2.5]
    found = [row["label"] for _, row in to_table([("a", number) for number in numbers]).rows]
    assert found == ["1", "1", "True", "0.5", "2.5"]
    dataset = tf.data.Dataset.from_tensor_slices({"text": ["é"], "label": [3]})
    assert to_table(dataset).rows == [(1, {"text": "é", "label": "3"})]


def test_empty_cells_are_missing():
    frame = pd.DataFrame({"text": ["a", "b", "c"], "label": ["x", None, float("nan")]})
    assert ["label" in row for _, row in to_table(frame).rows] == [True, False, False]


@pytest.mark.parametrize(
    ("examples", "told"),
    [
        ([], "no examples"),
        (pd.DataFrame({"text": [], "label": []}), "no examples"),
        ([("a", "b"), "text"], r"example 2: expected \(text, label\) or .*, not 'text'"),
        ([("a",)], "example 1: expected"),
        (tf.data.Dataset.from_tensor_slices(["a"]), "example 1: expected a dictionary, not bytes"),
        (3, "expected a path, a DataFrame, a list"),
        (None, "expected a path, a DataFrame, a list"),
    ],
    ids=str,
)
def test_other_things_are_told(examples, told):
    with pytest.raises(UserError, match=told) as error:
        to_table(examples)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("label", [["a", "b"], np.array([0, 1]), {"a": 1}])
def test_several_values_in_a_column_are_told(label):
    with pytest.raises(UserError, match="example 1: expected one value in a column"):
        to_table([("text", label)])


def test_missing_values_of_pandas_are_missing():
    frame = pd.DataFrame({"text": ["a", "b"], "label": pd.array([1, pd.NA], "Int64")})
    assert to_table(frame).rows == [(1, {"text": "a", "label": "1"}), (2, {"text": "b"})]
