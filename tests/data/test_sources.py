import json

import numpy as np
import pytest
import tensorflow_datasets as tfds

from adapter_bert_tf import UserError
from adapter_bert_tf.data.sources import OriginalFiles, OwnFiles, Tfds, find_task
from adapter_bert_tf.data.tables import Table
from adapter_bert_tf.data.task import DEV, TEST, TRAIN
from adapter_bert_tf.heads.kinds import TEXT_LABELS

TABLE = [("good film", "pos"), ('a "bad", film', "neg"), ("fine", "pos")]


def _own(tables, **options) -> OwnFiles:
    return OwnFiles(tables, TEXT_LABELS, **options)


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
    source = _own({TRAIN: train_file})
    assert source.labels == ("neg", "pos")
    assert source.task.name == "reviews"
    examples = source.read(TRAIN)
    assert examples.texts == [text for text, _ in TABLE]
    assert examples.labels == [1, 0, 1]
    assert examples.pairs is None


def test_numbers_that_are_not_whole_make_a_regression(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text("sentence1,sentence2,score\na,b,1.5\nc,d,2\n")
    source = _own({TRAIN: str(path)})
    assert (source.task.kind, source.labels) == ("regression", ())
    examples = source.read(TRAIN)
    assert (examples.pairs, examples.labels) == (["b", "d"], [1.5, 2.0])


def test_columns_can_be_named_and_a_test_file_needs_no_label(tmp_path):
    (tmp_path / "train.tsv").write_text("id\tbody\tverdict\n1\tx\tyes\n2\ty\tno\n")
    (tmp_path / "test.tsv").write_text("id\tbody\n3\tz\n")
    files = {TRAIN: f"{tmp_path}/train.tsv", TEST: f"{tmp_path}/test.tsv"}
    source = _own(files, text_column="body", label_columns=["verdict"])
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
    with pytest.raises(UserError, match=told) as error:
        _own({TRAIN: str(tmp_path / name)}, **columns).read(TRAIN)
    assert "\n" not in str(error.value)


def test_odd_json_is_read_or_told(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "\\ud800x", "label": true}\n{"text": "y", "label": false}\n')
    source = _own({TRAIN: str(path)})
    assert source.labels == ("false", "true")
    assert source.read(TRAIN).texts == ["x", "y"]
    path.write_text('{"text": "x", "label": 1}\n{"label": 2}\n')
    with pytest.raises(UserError, match="a.jsonl:2: 'text' is missing"):
        _own({TRAIN: str(path)}).read(TRAIN)


def test_whole_numbers_can_be_values(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,score\nx,1\ny,5\nz,9\n")
    assert _own({TRAIN: str(path)}).task.kind == "classification"
    source = _own({TRAIN: str(path)}, kind="regression")
    assert source.read(TRAIN).labels == [1.0, 5.0, 9.0]
    path.write_text("text,score\nx,1\ny,nan\n")
    with pytest.raises(UserError, match="a.csv:3: expected a number"):
        _own({TRAIN: str(path)}, kind="regression").read(TRAIN)


def test_labels_of_a_test_file_are_not_read(tmp_path):
    (tmp_path / "t.csv").write_text("text,label\nx,1\ny,0\n")
    (tmp_path / "p.csv").write_text("text,label\nz,-1\n")
    source = _own({TRAIN: f"{tmp_path}/t.csv", TEST: f"{tmp_path}/p.csv"})
    assert source.read(TEST).labels is None


def test_tfds_that_fails_is_told(monkeypatch):
    def fail(*_args, **_kwargs):
        raise ConnectionError("no network\nat all")

    monkeypatch.setattr(tfds, "builder", fail)
    with pytest.raises(UserError, match="no network; give --data_dir, a folder with dev.tsv"):
        Tfds(find_task("RTE")).read(TRAIN)


def test_a_label_that_training_does_not_know_is_told(tmp_path):
    (tmp_path / "t.csv").write_text("text,label\nx,1\ny,0\n")
    (tmp_path / "d.csv").write_text("text,label\nx,1\ny,2\n")
    source = _own({TRAIN: f"{tmp_path}/t.csv", DEV: f"{tmp_path}/d.csv"})
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
        OriginalFiles(find_task("CoLA"), str(tmp_path / "nowhere"), TEXT_LABELS)


def _numbered(tmp_path, rows: int, name: str = "train") -> str:
    path = tmp_path / f"{name}.csv"
    lines = [f"text {i},{'yes' if i % 3 else 'no'}" for i in range(rows)]
    path.write_text("\n".join(["text,label", *lines]) + "\n")
    return str(path)


def test_a_tenth_of_the_training_rows_is_drawn_for_evaluation(tmp_path):
    path = _numbered(tmp_path, 105)

    def parts(seed):
        source = _own({TRAIN: path}, split_seed=seed)
        assert source.splits == [TRAIN, DEV]
        return [source.read(split) for split in (TRAIN, DEV)], source.notes

    (train, dev), notes = parts(seed=0)
    assert (len(train), len(dev)) == (95, 10)
    assert sorted(train.texts + dev.texts) == sorted(f"text {i}" for i in range(105))
    # Labels stay with their texts.
    for examples in (train, dev):
        numbers = [int(text.split()[1]) for text in examples.texts]
        assert examples.labels == [int(bool(number % 3)) for number in numbers]
    assert notes == [f"{path}: 10 of 105 rows, drawn with the seed, are the dev set"]
    assert parts(seed=0)[0] == [train, dev]
    assert parts(seed=1)[0][1] != dev


def test_nothing_is_drawn_where_there_is_a_dev_set_or_none_is_wanted(tmp_path):
    train, dev = _numbered(tmp_path, 20), _numbered(tmp_path, 12, "dev")
    given = _own({TRAIN: train, DEV: dev}, split_seed=0)
    assert [len(given.read(split)) for split in (TRAIN, DEV)] == [20, 12]
    alone = _own({TRAIN: train})
    assert alone.splits == [TRAIN]
    assert len(alone.read(TRAIN)) == 20
    assert given.notes == alone.notes == []


def test_a_test_file_is_not_split(tmp_path):
    files = {TRAIN: _numbered(tmp_path, 20), TEST: _numbered(tmp_path, 11, "test")}
    source = _own(files, split_seed=0)
    assert [len(source.read(split)) for split in (TRAIN, DEV, TEST)] == [18, 2, 11]


def test_too_few_rows_are_not_split(tmp_path):
    with pytest.raises(UserError, match="9 rows are too few to split; give --dev_file"):
        _own({TRAIN: _numbered(tmp_path, 9)}, split_seed=0).read(TRAIN)


def test_rows_without_a_label_are_left_out_only_if_that_is_asked_for(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,label\na,yes\nb,\nc,no\nd,\n")
    with pytest.raises(UserError, match="a.csv:3: 'label' is missing"):
        _own({TRAIN: str(path)}).read(TRAIN)
    source = _own({TRAIN: str(path), TEST: str(path)}, skip_unlabelled=True)
    read = source.read(TRAIN)
    assert (read.texts, read.labels) == (["a", "c"], [1, 0])
    assert source.notes == [f"{path}: left out 2 rows without a label"]
    assert source.read(TEST).texts == ["a", "b", "c", "d"]
    path.write_text("text,label\na,\nb,\n")
    with pytest.raises(UserError, match="no row has a label"):
        _own({TRAIN: str(path)}, skip_unlabelled=True).read(TRAIN)


def test_encoding_and_delimiter_are_passed_on(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("text#label\nhällo#yes\nx#no\n".encode("cp437"))
    source = _own({TRAIN: str(path)}, encoding="cp437", delimiter="#")
    assert source.read(TRAIN).texts == ["hällo", "x"]
    with pytest.raises(UserError, match="which column is the text"):
        _own({TRAIN: str(path)}, encoding="cp437")
    assert _own({TRAIN: str(path)}, delimiter="#").read(TRAIN).texts != ["hällo", "x"]


def test_what_is_unusual_about_a_file_is_noted_once(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("text;label\ncafé;yes\nx;no\n".encode("latin-1"))
    source = _own({TRAIN: str(path)}, split_seed=None)
    for _ in range(2):
        source.read(TRAIN)
    assert source.notes == [
        f"{path}: read as CP1252",
        f"{path}: read with semicolons between columns",
    ]


def test_a_known_kind_without_labels_needs_no_label_column_to_predict(tmp_path):
    path = tmp_path / "test.csv"
    path.write_text("text\na\nb\n")
    for kind, labels in (("regression", ()), ("classification", ("no", "yes"))):
        source = _own({TEST: str(path)}, kind=kind, labels=labels)
        assert source.read(TEST).texts == ["a", "b"]
        source = _own({DEV: str(path)}, kind=kind, labels=labels)
        with pytest.raises(UserError, match="no column of labels; name it with --label_column"):
            source.read(DEV)


def test_a_table_in_memory_is_read_like_a_file():
    rows = [(1, {"text": "a", "label": "yes"}), (2, {"text": "b", "label": "no"})]
    source = _own({TRAIN: Table(("text", "label"), rows)})
    assert source.read(TRAIN).labels == [1, 0]
    source = _own({DEV: Table(("text", "label"), rows)}, kind="classification", labels=("yes",))
    with pytest.raises(UserError, match="dev:2: unknown label 'no'; known are yes"):
        source.read(DEV)
