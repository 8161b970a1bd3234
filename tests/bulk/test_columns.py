import json

from adapter_bert_tf.bulk.columns import add_columns, new_names, original_rows
from adapter_bert_tf.data.tables import layout_of, parse_table


def test_names_that_are_taken_get_a_prefix():
    assert new_names(["label", "score"], {"text"}) == ["label", "score"]
    taken = {"label", "predicted_label", "text"}
    assert new_names(["label", "score"], taken) == ["predicted_predicted_label", "score"]
    assert new_names(["a", "a"], ()) == ["a", "predicted_a"]


def test_columns_stand_behind_the_rows_own():
    rows = [{"text": "a"}, {"text": "b", "score": 1}]
    found = add_columns(rows, {"label": ["x", "y"], "score": [0.5, 0.25]})
    assert found == [
        {"text": "a", "label": "x", "predicted_score": 0.5},
        {"text": "b", "score": 1, "label": "y", "predicted_score": 0.25},
    ]
    assert rows == [{"text": "a"}, {"text": "b", "score": 1}]


def test_rows_of_json_keep_their_values():
    rows = [{"text": "a", "id": 7, "tags": ["x"]}, {"text": None, "half": "\ud800"}]
    for content in (json.dumps(rows), "\n".join(map(json.dumps, rows))):
        table = parse_table("a.jsonl", content.encode(), layout_of("a.jsonl"))
        assert original_rows("a.jsonl", content.encode(), table, None) == rows
