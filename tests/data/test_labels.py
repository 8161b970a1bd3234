import pytest

from adapter_bert_tf import UserError
from adapter_bert_tf.data.labels import LabelColumns, Number, OneLabel, SeveralLabels


def _columns(*cells: str, separator: str | None = None) -> LabelColumns:
    return LabelColumns("train.csv", ("label",), [(cell,) for cell in cells], separator)


def test_classes_are_read_from_a_column():
    form, columns = OneLabel(), _columns("b", "a", "b")
    assert form.recognizes(columns)
    labels = form.labels_in(columns)
    assert labels == ("a", "b")
    assert [form.read_label(cells, labels, columns) for cells in columns.cells] == [1, 0, 1]
    with pytest.raises(ValueError, match="unknown label 'c'; known are a, b"):
        form.read_label(("c",), labels, columns)
    with pytest.raises(UserError, match="train.csv: column 'label' has a single value"):
        form.labels_in(_columns("b", "b"))


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
    assert Number().recognizes(_columns(*cells)) is is_recognized
    two = LabelColumns("train.csv", ("a", "b"), [("0.5", "0.5")])
    assert not Number().recognizes(two)


def test_values_are_read_and_others_are_told():
    assert Number().read_label(("2.5",), (), _columns()) == 2.5
    for cell in ("high", "nan", "inf", ""):
        with pytest.raises(ValueError, match="expected a number"):
            Number().read_label((cell,), (), _columns())


def test_several_labels_stand_in_a_cell_or_in_columns():
    form, columns = SeveralLabels(), _columns("b; a", "", "c", separator=";")
    assert form.recognizes(columns)
    labels = form.labels_in(columns)
    assert labels == ("a", "b", "c")
    read = [form.read_label(cells, labels, columns) for cells in columns.cells]
    assert read == [[1, 1, 0], [0, 0, 0], [0, 0, 1]]
    apart = LabelColumns("train.csv", ("a", "b"), [("1", "no")])
    assert form.recognizes(apart)
    assert form.read_label(("1", "no"), form.labels_in(apart), apart) == [1, 0]
    with pytest.raises(ValueError, match="column 'b' has 'perhaps'; expected 0 or 1"):
        form.read_label(("1", "perhaps"), ("a", "b"), apart)
