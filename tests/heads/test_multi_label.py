"""Several labels at once, from files to an export."""

import numpy as np
import pytest
import sklearn.metrics
import tensorflow as tf

from adapter_bert_tf import UserError, load_task, tune
from adapter_bert_tf.data.sources import OwnFiles
from adapter_bert_tf.data.tables import Table
from adapter_bert_tf.heads.kinds import TEXT_LABELS
from adapter_bert_tf.heads.multi_label import MultiLabelHead
from adapter_bert_tf.serve.export import export
from tests.serve.tasks import make_pack

LABELS = ("cold", "dark", "warm")


def _table(*rows: dict[str, str]) -> Table:
    return Table(tuple(dict.fromkeys(name for row in rows for name in row)), list(enumerate(rows)))


def _source(table: Table, **options) -> OwnFiles:
    return OwnFiles({"dev": table}, TEXT_LABELS, **options)


def test_labels_separated_by_a_character():
    rows = [{"text": "a", "label": "warm; dark"}, {"text": "b", "label": ""}]
    source = _source(_table(*rows, {"text": "c", "label": "cold"}), separator=";")
    assert source.kind == MultiLabelHead.kind
    assert source.labels == LABELS
    assert source.read("dev").labels == [[0, 1, 1], [0, 0, 0], [1, 0, 0]]


def test_a_column_for_each_label():
    rows = [{"text": "a", "x": "1", "y": "no"}, {"text": "b", "x": "", "y": "True"}]
    source = _source(_table(*rows), label_columns=["x", "y"])
    assert source.kind == MultiLabelHead.kind
    assert source.labels == ("x", "y")
    assert source.read("dev").labels == [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    ("row", "options", "told"),
    [
        (
            {"text": "a", "label": "hot"},
            {"separator": ";", "labels": LABELS},
            "unknown label 'hot'",
        ),
        ({"text": "a", "x": "maybe", "y": "1"}, {"label_columns": ["x", "y"]}, "'x' has 'maybe'"),
        ({"text": "a", "label": " ; "}, {"separator": ";"}, "has no labels"),
    ],
)
def test_wrong_labels_are_told_in_one_line(row, options, told):
    with pytest.raises(UserError, match=told):
        _source(_table(row), kind="multi_label", **options).read("dev")


def test_metrics_are_those_of_the_labels_above_one_half():
    random = np.random.default_rng(0)
    labels, logits = (
        random.integers(2, size=[40, 3]).astype(np.float32),
        random.normal(size=[40, 3]),
    )
    found = dict(MultiLabelHead(3).evaluate(["micro_f1", "macro_f1"], labels, logits))
    expected = sklearn.metrics.f1_score(
        labels > 0, 1 / (1 + np.exp(-logits)) > 0.5, average="micro"
    )
    assert found["micro_f1"] == pytest.approx(expected)
    assert found["macro_f1"] != found["micro_f1"]


def test_the_loss_is_the_binary_cross_entropy():
    logits, labels = tf.constant([[2.0, -1.0]]), tf.constant([[1.0, 0.0]])
    expected = -np.mean(np.log([1 / (1 + np.exp(-2)), 1 - 1 / (1 + np.exp(1))]))
    np.testing.assert_allclose(MultiLabelHead(2).loss(labels, logits), [expected], rtol=1e-5)


@pytest.fixture(scope="module")
def pack(bert, tmp_path_factory) -> str:
    """A task tuned for two epochs: a word from 0 to 9 means one label, from 10 to 19 another."""
    folder = tmp_path_factory.mktemp("multi_label")
    random = np.random.default_rng(0)
    rows = [
        {
            "text": " ".join(f"w{i}" for i in words),
            "label": "|".join(sorted({LABELS[i // 10] for i in words})),
        }
        for words in (random.integers(30, size=random.integers(1, 5)) for _ in range(60))
    ]
    dataset = tf.data.Dataset.from_tensor_slices(
        {name: [row[name] for row in rows] for name in ("text", "label")}
    )
    task = tune(
        dataset,
        dataset.take(30),
        output_dir=str(folder / "run"),
        bert=bert,
        label_separator="|",
        adapter_size=4,
        max_seq_length=16,
        train_batch_size=16,
        num_train_epochs=2.0,
        cache_dir=str(folder / "cache"),
    )
    assert task.metrics.keys() == {"micro_f1", "macro_f1"}
    return str(folder / "run" / "pack")


def test_a_tuned_task_predicts_labels_and_is_served_beside_other_kinds(pack, bert, tmp_path):
    task, texts = load_task(pack), ["w1 w11", "w25", "w3 w4 w5"]
    assert task.labels == LABELS
    predictions = task.predict(texts)
    for found in predictions:
        above = [label for label, p in zip(LABELS, found.probabilities, strict=True) if p >= 0.5]
        assert list(found.labels) == above
    other = make_pack(bert, tmp_path / "other", "other", classes=4, max_seq_length=16)
    version = export([pack, other], str(tmp_path / "model"))
    answer = tf.saved_model.load(version).signatures["serving_default"]
    names = [task.name, "other", task.name, task.name]
    rows = {"text": tf.constant([*texts[:1], "w2", *texts[1:]]), "task": tf.constant(names)}
    answers = {name: value.numpy() for name, value in answer(**rows).items()}
    for row, found in zip((0, 2, 3), predictions, strict=True):
        np.testing.assert_allclose(
            answers["probabilities"][row, :3], found.probabilities, atol=1e-5
        )
        there = [
            label.decode()
            for label, present in zip(answers["labels"][row], answers["present"][row], strict=True)
            if present
        ]
        assert tuple(there) == found.labels
        assert answers["label"][row] == b""
    assert not answers["present"][1].any()
    assert answers["label"][1] != b""


def test_evaluation_agrees_with_predictions(pack):
    rows = [("w1 w11", "cold|dark"), ("w25", "warm"), ("w3", "cold")]
    task = load_task(pack)
    found = task.evaluate(rows, label_separator="|")
    predicted = [prediction.labels for prediction in task.predict([text for text, _ in rows])]
    hits = sum(
        len(set(one) & set(label.split("|")))
        for one, (_, label) in zip(predicted, rows, strict=True)
    )
    total = sum(map(len, predicted)) + 4
    assert found["micro_f1"] == pytest.approx(2 * hits / total)


def test_columns_are_matched_with_labels_by_name():
    table = _table({"text": "a", "y": "0", "x": "1"}, {"text": "b", "y": "1", "x": "0"})
    options = {"label_columns": ["y", "x"], "kind": "multi_label"}
    assert _source(table, labels=("x", "y"), **options).read("dev").labels == [[1, 0], [0, 1]]
    with pytest.raises(UserError, match="label columns"):
        _source(table, labels=("x", "z"), **options).read("dev")
    with pytest.raises(UserError, match="need --label_separator"):
        _source(table, label_columns=["x"], kind="multi_label").read("dev")
    with pytest.raises(UserError, match="a class stands in one column"):
        _source(table, label_columns=["x", "y"], kind="classification").read("dev")
