"""What a classifier run says of its data and its scores."""

import contextlib
import csv
import io
import json
import pathlib

import numpy as np
import pytest

from adapter_bert_tf.run.classifier import run_classifier
from adapter_bert_tf.run.settings import ClassifierSettings, make_settings


def _write(path: pathlib.Path, rows: list[tuple[str, str]]) -> str:
    lines = [f"{text},{label}" for text, label in rows]
    path.write_text("\n".join(["text,label", *lines]) + "\n")
    return str(path)


def _rows(count: int, shares: dict[str, int]) -> list[tuple[str, str]]:
    labels = [label for label, share in shares.items() for _ in range(share)]
    return [(f"w{i % 40} w{i % 7}", labels[i % len(labels)]) for i in range(count)]


def _run(folder: pathlib.Path, bert: str, **settings):
    given = {"bert": bert, "max_seq_length": 16, "cache_dir": f"{folder}/cache"}
    return run_classifier(
        make_settings(ClassifierSettings, {"output_dir": f"{folder}/run", **given, **settings})
    )


@pytest.fixture(scope="module")
def run(bert, tmp_path_factory) -> tuple[pathlib.Path, str]:
    """A run on seven rows of one class for one of the other, and what it printed."""
    folder = tmp_path_factory.mktemp("results")
    train = _write(folder / "train.csv", _rows(200, {"many": 7, "few": 1}))
    test = _write(folder / "test.csv", [('"w1  ""quoted"""', "many"), ("w2", "few")])
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        task = _run(
            folder,
            bert,
            train_file=train,
            test_file=test,
            do_train=True,
            do_eval=True,
            do_predict=True,
            num_train_epochs=3.0,
            learning_rate=3e-3,
        )
    assert task is not None
    return folder / "run", printed.getvalue()


def test_the_plan_shows_columns_classes_dev_set_and_lengths(run):
    lines = {line.split()[0]: line for line in run[1].splitlines() if line.split()}
    assert "text from text, label from label" in lines["columns"]
    assert "few" in lines["classes"]
    assert "many" in lines["classes"]
    assert lines["dev"].split()[1] == "20"
    assert "at most" in lines["tokens"]


def test_macro_f1_stands_beside_accuracy_and_one_class_is_warned_of(run):
    folder, printed = run
    metrics = json.loads((folder / "eval_results.json").read_text())["metrics"]
    assert metrics["macro_f1"] < 0.6 < metrics["accuracy"] < 1
    assert "warning: all 20 rows are predicted as many" in printed


def test_the_confusion_table_counts_every_dev_row(run):
    folder, printed = run
    with open(folder / "confusion.csv") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["label", "few", "many"]
    counts = np.array([row[1:] for row in rows[1:]], int)
    assert counts.sum() == 20
    accuracy = json.loads((folder / "eval_results.json").read_text())["metrics"]["accuracy"]
    assert np.trace(counts) / 20 == pytest.approx(accuracy)
    assert "predicted" in printed


def test_predictions_have_the_texts_and_agree_with_test_results(run):
    folder, _ = run
    with open(folder / "predictions.csv") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == ["0", "1"]
    assert rows[0]["text"] == 'w1  "quoted"'
    expected = np.loadtxt(folder / "test_results.tsv")
    found = [[float(row[f"probability_{name}"]) for name in ("few", "many")] for row in rows]
    np.testing.assert_allclose(found, expected, atol=1e-7)
    assert [row["label"] for row in rows] == [("few", "many")[i] for i in expected.argmax(1)]
