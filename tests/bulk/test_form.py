import csv
import io
import json

import pytest

from adapter_bert_tf.bulk.form import form_of

ROWS = [{"a": 'x, "y"\nz', "b": 1.5}, {"a": None, "b": True, "c": ["é", {"d": 1}]}]
NAMES = ["a", "b", "c"]


@pytest.mark.parametrize(("path", "delimiter"), [("a.csv", ","), ("a.TSV", "\t"), ("a", ",")])
def test_cells_can_be_read_back(path, delimiter):
    text = "\n".join(form_of(path).lines(NAMES, ROWS))
    header, first, second = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    assert header == NAMES
    assert first == ['x, "y"\nz', "1.5", ""]
    assert second[:2] == ["", "true"]
    assert json.loads(second[2]) == ["é", {"d": 1}]


def test_json_has_an_object_per_line_and_no_header():
    form = form_of("out/a.jsonl")
    assert form.header(NAMES) is None
    lines = list(form.lines(NAMES, [*ROWS, {"half": "\ud800"}]))
    assert [json.loads(line) for line in lines] == [*ROWS, {"half": "\ud800"}]
    assert all(line.encode() and "\n" not in line for line in lines)
