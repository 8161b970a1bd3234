import json

import pandas as pd
import pytest
import tensorflow as tf

from adapter_bert_tf import TaskModel, UserError, load_task, tune

TEXTS = [f"w{i % 20 + 20 * (i % 2)} w{i % 7}" for i in range(40)]
LABELS = ["no" if i % 2 else "yes" for i in range(40)]
ROWS = list(zip(TEXTS, LABELS, strict=True))


@pytest.fixture(autouse=True)
def _eager(monkeypatch):
    """Quicker than tracing, for a few steps."""
    compiled = TaskModel.compile
    monkeypatch.setattr(
        TaskModel, "compile", lambda self, **kwargs: compiled(self, run_eagerly=True, **kwargs)
    )


@pytest.fixture
def settings(bert, tmp_path) -> dict:
    return {
        "bert": bert,
        # A path, as Python users have it.
        "output_dir": tmp_path / "run",
        "cache_dir": tmp_path / "cache",
        "max_seq_length": 8,
        "train_batch_size": 20,
        "num_train_epochs": 1,
        "adapter_size": 4,
    }


def _written(tmp_path) -> None:
    lines = ["text,label", *(",".join(row) for row in ROWS)]
    (tmp_path / "train.csv").write_text("\n".join(lines))


@pytest.mark.parametrize("form", ["path", "DataFrame", "tuples", "Dataset"])
def test_examples_of_any_form_are_tuned_on(settings, tmp_path, form):
    _written(tmp_path)
    examples = {
        "path": tmp_path / "train.csv",
        "DataFrame": pd.DataFrame(ROWS, columns=["text", "label"]),
        "tuples": ROWS,
        "Dataset": tf.data.Dataset.from_tensor_slices({"text": TEXTS, "label": LABELS}),
    }[form]
    task = tune(examples, examples, **settings)
    assert task.labels == ("no", "yes")
    assert task.evaluate(examples) == pytest.approx(task.metrics)
    assert task.model.encoder.adapter.size == 4
    if form == "path":
        again = load_task(tmp_path / "run" / "pack")
        assert again.predict(TEXTS) == task.predict(TEXTS)


@pytest.mark.slow
def test_values_are_tuned_on(settings):
    rows = [(text, i % 7 / 2) for i, text in enumerate(TEXTS)]
    task = tune(rows, rows, **settings)
    assert task.head.kind == "regression"
    assert task.metrics.keys() == {"pearson", "spearman"}
    whole = [(text, i % 7) for i, text in enumerate(TEXTS)]
    settings["output_dir"] = settings["output_dir"].with_name("whole")
    assert tune(whole, regression=True, **settings).head.kind == "regression"


def test_pairs_are_tuned_on(settings):
    task = tune([(text, "w1", label) for text, label in ROWS], **settings)
    assert task.takes_pairs
    assert len(task.predict(["w1"], ["w2"])) == 1


def test_the_same_call_does_not_train_again_and_other_examples_are_refused(settings, capsys):
    first = tune(ROWS, ROWS, **settings)
    again = tune(ROWS, ROWS, **settings)
    assert "this run is finished" in capsys.readouterr().out
    assert again.predict(TEXTS) == first.predict(TEXTS)
    with pytest.raises(UserError, match="train.jsonl: belongs to a run with other examples"):
        tune(ROWS[1:], ROWS, **settings)
    with open(settings["output_dir"] / "data" / "train.jsonl") as file:
        assert [json.loads(line) for line in file] == [
            {"text": text, "label": label} for text, label in ROWS
        ]


@pytest.mark.slow
def test_columns_can_be_named(settings):
    frame = pd.DataFrame({"body": TEXTS, "verdict": LABELS, "label": 3})
    task = tune(frame, text_column="body", label_column="verdict", **settings)
    assert task.labels == ("no", "yes")


def test_a_signal_is_an_interrupt(settings, monkeypatch):
    monkeypatch.setattr("adapter_bert_tf.run.tune.run_classifier", lambda _: None)
    with pytest.raises(KeyboardInterrupt, match="the same call resumes it"):
        tune(ROWS, **settings)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"output_dir": None}, "output_dir: expected a folder"),
        ({"adapter_width": 3}, "unknown settings: adapter_width"),
        ({"learning_rate": "3e-4"}, "--learning_rate='3e-4': expected a number"),
        ({"train": None}, "expected either --task, or files of your own"),
        ({"train": []}, "no examples"),
        ({"train": [("a", "b", "c", "d")]}, "example 1: expected"),
        ({"text_column": "body"}, "--text_column=body: no such column"),
    ],
)
def test_wrong_calls_are_told_in_one_line(settings, changes, told):
    values = {**settings, "train": ROWS, **changes}
    with pytest.raises(UserError, match=told) as error:
        tune(**values)
    assert "\n" not in str(error.value)
