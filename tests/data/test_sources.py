import json

import numpy as np
import pytest
import tensorflow_datasets as tfds

from adapter_bert_tf import UserError
from adapter_bert_tf.data.sources import OriginalFiles, OwnFiles, Tfds, find_task
from adapter_bert_tf.data.task import DEV, TEST, TRAIN

TABLE = [("good film", "pos"), ('a "bad", film', "neg"), ("fine", "pos")]


@pytest.fixture(params=["csv", "tsv", "jsonl"])
def train_file(request, tmp_path) -> str:
    path = tmp_path / f"reviews.{request.param}"
    if request.param == "csv":
        lines = ["text,label", "good film,pos", '"a ""bad"", film",neg', "fine,pos"]
    elif request.param == "tsv":
        lines = ["text\tlabel", *(f"{text}\t{label}" for text, label in TABLE)]
    else:
        lines = [json.dumps({"text": text, "label": label}) for text, label in TABLE]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_own_files_of_each_kind(train_file):
    source = OwnFiles({TRAIN: train_file})
    assert source.labels == ("neg", "pos")
    assert source.task.name == "reviews"
    examples = source.read(TRAIN)
    assert examples.texts == [text for text, _ in TABLE]
    assert examples.labels == [1, 0, 1]
    assert examples.pairs is None


def test_numbers_that_are_not_whole_make_a_regression(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text("sentence1,sentence2,score\na,b,1.5\nc,d,2\n")
    source = OwnFiles({TRAIN: str(path)})
    assert (source.task.kind, source.labels) == ("regression", ())
    examples = source.read(TRAIN)
    assert (examples.pairs, examples.labels) == (["b", "d"], [1.5, 2.0])


def test_columns_can_be_named_and_a_test_file_needs_no_label(tmp_path):
    (tmp_path / "train.tsv").write_text("id\tbody\tverdict\n1\tx\tyes\n2\ty\tno\n")
    (tmp_path / "test.tsv").write_text("id\tbody\n3\tz\n")
    files = {TRAIN: f"{tmp_path}/train.tsv", TEST: f"{tmp_path}/test.tsv"}
    source = OwnFiles(files, text_column="body", label_column="verdict")
    assert source.read(TRAIN).labels == [1, 0]
    assert source.read(TEST).texts == ["z"]
    assert source.read(TEST).labels is None


@pytest.mark.parametrize(
    ("name", "content", "columns", "told"),
    [
        ("a.csv", "body,label\nx,1\ny,0\n", {}, "which column is the text"),
        ("a.csv", "text,mark\nx,1\n", {}, "--label_column"),
        ("a.csv", "text,label\nx,1\n", {"text_column": "body"}, "--text_column=body: no such"),
        ("a.csv", "text,label\nx,1\ny,1\n", {}, "single value"),
        ("a.csv", "text,text\nx,1\n", {}, "same name"),
        ("a.jsonl", '{"text": "x"\n', {}, "a.jsonl:1: not JSON"),
        ("a.jsonl", "[1]\n", {}, "a.jsonl:1: expected a JSON object"),
        ("a.jsonl", '{"text": "x", "label": 1}\n{"text": "y", "label": null}\n', {}, ":2: 'label'"),
        ("a.csv", "text,label\nx,1\ny,\n", {}, "a.csv:3: 'label' is missing"),
        ("a.xlsx", "text", {}, "a name that ends in"),
    ],
)
def test_wrong_tables_are_told(tmp_path, name, content, columns, told):
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=told):
        OwnFiles({TRAIN: str(tmp_path / name)}, **columns)


def test_odd_json_is_read_or_told(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "\\ud800x", "label": true}\n{"text": "y", "label": false}\n')
    source = OwnFiles({TRAIN: str(path)})
    assert source.labels == ("false", "true")
    assert source.read(TRAIN).texts == ["x", "y"]
    path.write_text('{"text": "x", "label": 1}\n{"label": 2}\n')
    with pytest.raises(UserError, match="a.jsonl:2: 'text' is missing"):
        OwnFiles({TRAIN: str(path)}).read(TRAIN)


def test_whole_numbers_can_be_values(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,score\nx,1\ny,5\nz,9\n")
    assert OwnFiles({TRAIN: str(path)}).task.kind == "classification"
    source = OwnFiles({TRAIN: str(path)}, regression=True)
    assert source.read(TRAIN).labels == [1.0, 5.0, 9.0]
    path.write_text("text,score\nx,1\ny,nan\n")
    with pytest.raises(UserError, match="a.csv:3: expected a number"):
        OwnFiles({TRAIN: str(path)}, regression=True).read(TRAIN)


def test_labels_of_a_test_file_are_not_read(tmp_path):
    (tmp_path / "t.csv").write_text("text,label\nx,1\ny,0\n")
    (tmp_path / "p.csv").write_text("text,label\nz,-1\n")
    source = OwnFiles({TRAIN: f"{tmp_path}/t.csv", TEST: f"{tmp_path}/p.csv"})
    assert source.read(TEST).labels is None


def test_tfds_that_fails_is_told(monkeypatch):
    def fail(*_args, **_kwargs):
        raise ConnectionError("no network\nat all")

    monkeypatch.setattr(tfds, "load", fail)
    with pytest.raises(UserError, match="no network; or give --data_dir"):
        Tfds(find_task("RTE")).read(TRAIN)


def test_a_label_that_training_does_not_know_is_told(tmp_path):
    (tmp_path / "t.csv").write_text("text,label\nx,1\ny,0\n")
    (tmp_path / "d.csv").write_text("text,label\nx,1\ny,2\n")
    source = OwnFiles({TRAIN: f"{tmp_path}/t.csv", DEV: f"{tmp_path}/d.csv"})
    with pytest.raises(UserError, match="d.csv:3: unknown label '2'"):
        source.read(DEV)


def test_tfds_labels_are_ours(tmp_path):
    """TFDS counts entailment, neutral, contradiction."""

    def examples(self, *_args, **_kwargs):
        import tensorflow as tf

        rows = {
            "premise": ["p0", "p1", "p2"],
            "hypothesis": ["h0", "h1", "h2"],
            "label": np.array([0, 1, 2], np.int64),
            # TFDS keeps them in another order than the files have.
            "idx": np.array([1, 2, 0], np.int32),
        }
        return tf.data.Dataset.from_tensor_slices(rows)

    source = Tfds(find_task("MNLI"))
    with tfds.testing.mock_data(num_examples=3, as_dataset_fn=examples):
        dev = source.read("dev_matched")
        test = source.read("test_matched")
    assert dict(zip(dev.texts, (source.labels[i] for i in dev.labels), strict=True)) == {
        "p0": "entailment",
        "p1": "neutral",
        "p2": "contradiction",
    }
    assert (dev.texts, dev.pairs) == (["p2", "p0", "p1"], ["h2", "h0", "h1"])
    assert test.labels is None


@pytest.mark.parametrize("name", ["CoLA", "SST-2", "MRPC", "STS-B", "QQP", "QNLI", "RTE", "WNLI"])
def test_every_glue_task_is_in_tfds(name):
    source = Tfds(find_task(name))
    with tfds.testing.mock_data(num_examples=4):
        examples = source.read(TRAIN)
    assert len(examples) == len(examples.labels) == 4
    assert (examples.pairs is None) == (find_task(name).pair is None)
    if source.labels:
        assert set(examples.labels) <= set(range(len(source.labels)))


def test_tasks_outside_of_tfds_need_a_folder(tmp_path):
    with pytest.raises(UserError, match="SMSSpamCollection"):
        Tfds(find_task("sms_spam"))
    with pytest.raises(UserError, match="no such folder"):
        OriginalFiles(find_task("CoLA"), str(tmp_path / "nowhere"))
