"""Runs in this process; the program is tested from outside in test_run_classifier.py."""

import json
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from adapter_bert_tf import (
    ClassificationHead,
    Task,
    TaskModel,
    Tuning,
    UserError,
    load_encoder,
    load_task,
    save_pack,
)
from adapter_bert_tf.data.examples import Examples
from adapter_bert_tf.data.records import cached_records
from adapter_bert_tf.run.classifier import run_classifier
from adapter_bert_tf.run.settings import ClassifierSettings, SquadSettings, make_settings
from adapter_bert_tf.run.squad import run_squad
from adapter_bert_tf.text.tokenizer import Tokenizer, read_vocabulary
from tests import tiny
from tests.squad.test_questions import mock_rows


@pytest.fixture(scope="module")
def still(tmp_path_factory) -> str:
    """A BERT without dropout, so that two trainings can be compared."""
    return tiny.write_google_bert(
        tmp_path_factory.mktemp("still"), hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )


def _write(folder: pathlib.Path) -> None:
    rows = [f"w{i % 20 + 20 * (i % 2)} w{i % 7},{'no' if i % 2 else 'yes'}" for i in range(50)]
    values = [f"w{i % 40} w{i % 7},{i % 9 / 4}" for i in range(50)]
    for name in ("train", "dev"):
        (folder / f"{name}.csv").write_text("\n".join(["text,label", *rows]) + "\n")
        (folder / f"{name}_values.csv").write_text("\n".join(["text,score", *values]) + "\n")
    texts = [row.split(",")[0] for row in rows]
    (folder / "test.csv").write_text("\n".join(["text", *texts]) + "\n")


def _settings(folder: pathlib.Path, bert: str) -> dict:
    return {
        "train_file": f"{folder}/train.csv",
        "dev_file": f"{folder}/dev.csv",
        "bert": bert,
        "max_seq_length": 16,
        "train_batch_size": 8,
        "num_train_epochs": 2.0,
        "learning_rate": 3e-3,
        "cache_dir": f"{folder}/cache",
    }


@pytest.fixture
def settings(tmp_path, still) -> dict:
    _write(tmp_path)
    return _settings(tmp_path, still)


def _run(folder, strategy=None, **settings) -> Task:
    task = run_classifier(ClassifierSettings(output_dir=str(folder), **settings), strategy)
    assert task is not None
    return task


def _history(folder: pathlib.Path) -> list[dict]:
    return json.loads((folder / "history.json").read_text())["epochs"]


def _losses(folder: pathlib.Path) -> list[float]:
    return [epoch["train"]["loss"] for epoch in _history(folder)]


def _results(folder: pathlib.Path) -> dict:
    return json.loads((folder / "eval_results.json").read_text())


@pytest.fixture(scope="module")
def finished(tmp_path_factory, still) -> tuple[pathlib.Path, dict, Task]:
    """The folder of a run on texts, its settings, and its task."""
    data = tmp_path_factory.mktemp("data")
    _write(data)
    settings = {**_settings(data, still), "test_file": f"{data}/test.csv"}
    parts = {"do_train": True, "do_eval": True, "do_predict": True}
    folder = tmp_path_factory.mktemp("runs") / "finished"
    return folder, settings, _run(folder, **settings, **parts)


@pytest.mark.slow
def test_two_devices_and_padding_follow_the_loss_of_one(finished, tmp_path, two_devices):
    folder, settings, _ = finished
    _run(tmp_path / "two", two_devices, **settings)
    _run(tmp_path / "padded", pad_to_max=True, **settings)
    for other in ("two", "padded"):
        np.testing.assert_allclose(_losses(tmp_path / other), _losses(folder), atol=1e-4)
        assert _history(tmp_path / other)[-1]["dev"] == _history(folder)[-1]["dev"]


@pytest.mark.parametrize(
    "method",
    [
        "full",
        "head",
        pytest.param("top_k", marks=pytest.mark.slow),
        pytest.param("layer_norm", marks=pytest.mark.slow),
    ],
)
def test_every_method_runs(settings, tmp_path, method):
    task = _run(tmp_path / method, adapter=None, tuning=Tuning(method), **settings)
    losses = _losses(tmp_path / method)
    assert losses[1] < losses[0]
    assert task.model.tuning == Tuning(method)


def test_what_a_run_returns_is_what_it_wrote(finished):
    folder, settings, task = finished
    history = _history(folder)
    assert task.metrics == _results(folder)["metrics"]
    assert task.metrics["accuracy"] == max(epoch["dev"]["accuracy"] for epoch in history)
    assert (task.name, task.labels) == ("train", ("no", "yes"))
    assert task.evaluate(settings["dev_file"]) == pytest.approx(task.metrics)
    with open(settings["test_file"]) as file:
        texts = file.read().splitlines()[1:]
    found = [each.probabilities for each in task.predict(texts)]
    np.testing.assert_allclose(found, np.loadtxt(folder / "test_results.tsv"), atol=1e-5)
    # The pack says the same.
    loaded = load_task(folder / "pack")
    assert loaded.metrics == task.metrics
    np.testing.assert_allclose([each.probabilities for each in loaded.predict(texts)], found)


def test_without_an_evaluation_the_last_epoch_is_kept(settings, tmp_path):
    task = _run(tmp_path / "run", do_train=True, **settings)
    assert [epoch["dev"] for epoch in _history(tmp_path / "run")] == [{}, {}]
    assert task.metrics == {}
    assert load_task(tmp_path / "run" / "pack").metrics == {}


def test_the_metric_that_is_asked_for_decides_and_another_one_is_told(settings, tmp_path):
    asked = {**settings, "output_dir": str(tmp_path / "run")}
    run = make_settings(ClassifierSettings, {**asked, "metric": "matthews"})
    assert list(run_classifier(run).metrics) == ["matthews", "accuracy", "macro_f1"]
    with pytest.raises(UserError, match="belongs to a run with metric=matthews, not f1"):
        run_classifier(make_settings(ClassifierSettings, {**asked, "metric": "f1"}))
    wrong = {**asked, "output_dir": str(tmp_path / "wrong"), "metric": "spearman"}
    with pytest.raises(UserError, match="--metric=spearman: expected one of accuracy"):
        run_classifier(make_settings(ClassifierSettings, wrong))


def test_evaluation_alone_takes_the_runs_pack_and_keeps_its_results(finished, tmp_path):
    folder, settings, _ = finished
    with pytest.raises(UserError, match="--pack: nothing is trained, .*run/pack is not there"):
        _run(tmp_path / "run", do_eval=True, **settings)
    before = _results(folder)
    again = _run(folder, do_eval=True, **settings)
    after = _results(folder)
    assert after["metrics"] == again.metrics == before["metrics"]
    assert (after["steps"], after["epochs"]) == (before["steps"], before["epochs"])


def test_a_finished_run_is_not_trained_again(finished, capsys):
    folder, settings, task = finished
    before = (folder / "eval_results.json").stat().st_mtime_ns
    again = _run(folder, **settings)
    assert "this run is finished" in capsys.readouterr().out
    assert (folder / "eval_results.json").stat().st_mtime_ns == before
    assert again.predict(["w1 w2"]) == task.predict(["w1 w2"])
    with pytest.raises(UserError, match="belongs to a run with seed=0, not 5"):
        _run(folder, seed=5, **settings)


def test_going_on_from_a_pack_keeps_its_tuning_and_its_labels(settings, tmp_path, still):
    encoder = load_encoder(still, None)
    model = TaskModel(encoder, ClassificationHead(2), Tuning("top_k", k=2))
    save_pack(model, tmp_path / "pack", labels=["yes", "no"], inputs={"max_seq_length": 16})
    del settings["learning_rate"]
    settings["num_train_epochs"] = 0.3
    task = _run(tmp_path / "run", pack=str(tmp_path / "pack"), **settings)
    assert task.model.tuning == Tuning("top_k", k=2)
    assert task.labels == ("yes", "no")
    assert json.loads((tmp_path / "run" / "settings.json").read_text())["learning_rate"] == 5e-5


def test_a_pack_of_other_labels_or_another_kind_is_told(finished, settings, tmp_path):
    pack = str(finished[0] / "pack")
    for name in ("train", "dev"):
        path = tmp_path / f"{name}.csv"
        path.write_text(path.read_text().replace(",no", ",never"))
    with pytest.raises(UserError, match="unknown label 'never'"):
        _run(tmp_path / "second", pack=pack, **settings)
    settings |= {"train_file": None, "dev_file": None, "task": "CoLA", "data_dir": str(tmp_path)}
    for name in ("train", "dev"):
        (tmp_path / f"{name}.tsv").write_text("a\t1\t\tw1\nb\t0\t\tw2\n")
    with pytest.raises(UserError, match="pack: has the labels no, yes; the task has 0, 1"):
        _run(tmp_path / "third", pack=pack, **settings)


def test_a_dev_set_is_drawn_and_said_so(settings, tmp_path, capsys):
    del settings["dev_file"]
    settings["num_train_epochs"] = 0.3
    path = tmp_path / "train.csv"
    path.write_text(path.read_text() + "w1,\nw2,\n")
    task = _run(tmp_path / "run", skip_unlabelled=True, **settings)
    printed = capsys.readouterr().out
    assert printed.count(f"note     {path}: left out 2 rows without a label\n") == 1
    assert f"note     {path}: 5 of 50 rows, drawn with the seed, are the dev set\n" in printed
    assert "45 training examples" in printed
    assert (task.metrics["accuracy"] * 5) % 1 == pytest.approx(0)


@pytest.fixture(scope="module")
def values(tmp_path_factory, still) -> tuple[pathlib.Path, dict]:
    """The folder of a regression, and its settings."""
    data = tmp_path_factory.mktemp("values")
    _write(data)
    files = {"train_file": f"{data}/train_values.csv", "dev_file": f"{data}/dev_values.csv"}
    settings = {**_settings(data, still), **files}
    _run(data / "run", **settings)
    return data, settings


def test_values_are_learned(values):
    folder, _ = values
    losses = _losses(folder / "run")
    assert losses[1] < losses[0]
    assert _results(folder / "run")["metrics"].keys() == {"pearson", "spearman"}


def test_a_regression_predicts_texts_without_values(values, tmp_path):
    data, settings = values
    settings = {**settings, "train_file": None, "dev_file": None, "test_file": f"{data}/test.csv"}
    pack = str(data / "run" / "pack")
    task = _run(tmp_path / "run", do_predict=True, pack=pack, **settings)
    with open(settings["test_file"]) as file:
        texts = file.read().splitlines()[1:]
    found = [each.value for each in task.predict(texts)]
    written = np.loadtxt(tmp_path / "run" / "test_results.tsv")
    np.testing.assert_allclose(found, written, atol=1e-5)


def test_a_pack_without_names_predicts_texts_without_labels(settings, tmp_path, still):
    model = TaskModel(load_encoder(still, None), ClassificationHead(3), Tuning("head"))
    save_pack(model, tmp_path / "pack", inputs={"max_seq_length": 16})
    files = {"train_file": None, "dev_file": None, "test_file": f"{tmp_path}/test.csv"}
    pack = str(tmp_path / "pack")
    task = _run(tmp_path / "run", do_predict=True, pack=pack, **{**settings, **files})
    assert task.labels == ("0", "1", "2")
    assert np.loadtxt(tmp_path / "run" / "test_results.tsv").shape == (50, 3)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"train_file": None}, "--do_train: there is no train set"),
        ({"do_train": True, "do_predict": True}, "--do_predict: there is no test set"),
        ({"dev_file": "/nowhere.csv"}, "/nowhere.csv"),
    ],
)
def test_missing_sets_are_told_and_the_folder_stays_free(settings, tmp_path, changes, told):
    with pytest.raises(UserError, match=told):
        _run(tmp_path / "run", **{**settings, **changes})
    assert not (tmp_path / "run").exists()


def test_an_export_that_could_not_be_written_is_told_before_training(settings, tmp_path):
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "saved_model.pb").write_text("")
    with pytest.raises(UserError, match="exists already"):
        _run(tmp_path / "run", export_dir=str(tmp_path / "1"), **settings)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_records_of_the_original_can_be_trained_on(settings, tmp_path):
    examples = Examples(["w1 w2 w3", "w3"] * 10, None, [0, 1] * 10)
    tokenizer = Tokenizer(read_vocabulary(f"{settings['bert']}/vocab.txt"))
    path = cached_records(examples, tokenizer, 16, str(tmp_path), "records")
    settings |= {"train_file": path, "dev_file": path}
    task = _run(tmp_path / "run", **settings)
    assert len(_history(tmp_path / "run")) == 2
    assert (task.name, task.labels) == ("records", ("0", "1"))
    with pytest.raises(UserError, match="more than --max_seq_length"):
        _run(tmp_path / "short", **{**settings, "max_seq_length": 4})
    small = tiny.write_google_bert(tmp_path / "bert")
    with pytest.raises(UserError, match="has labels beyond the 2 classes"):
        more = Examples(["w1", "w2", "w3"], None, [0, 1, 2])
        dev = cached_records(more, tokenizer, 16, str(tmp_path), "records")
        _run(tmp_path / "more", **{**settings, "dev_file": dev, "bert": small})


def test_a_base_without_a_vocabulary_is_told(settings, tmp_path):
    bert = tiny.write_google_bert(tmp_path / "bert", vocabulary=False)
    with pytest.raises(UserError, match="give --vocab_file"):
        _run(tmp_path / "run", **{**settings, "bert": bert})
    assert not (tmp_path / "run").exists()


def test_the_run_is_exported(finished, tmp_path):
    folder, settings, task = finished
    _run(folder, export_dir=str(tmp_path / "models"), **settings)
    signature = tf.saved_model.load(str(tmp_path / "models" / "1")).signatures["serving_default"]
    found = signature(text=tf.constant(["w1 w2"]))["probabilities"].numpy()[0]
    np.testing.assert_allclose(found, task.predict(["w1 w2"])[0].probabilities, atol=1e-5)


@pytest.mark.slow
def test_changed_data_base_or_pack_at_the_same_path_is_refused(settings, tmp_path):
    bert = tiny.write_google_bert(tmp_path / "bert")
    settings |= {"bert": bert, "num_train_epochs": 0.2}
    _run(tmp_path / "first", **settings)
    pack = str(tmp_path / "first" / "pack")
    _run(tmp_path / "run", **settings, pack=pack)
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    dev = tmp_path / "dev.csv"
    text = dev.read_text()
    dev.write_text(text.replace("w2 ", "w4 "))
    with pytest.raises(UserError, match="another dev set"):
        _run(tmp_path / "run", **settings, pack=pack)
    dev.write_text(text)
    _run(tmp_path / "other", **settings, seed=5)
    shutil.rmtree(pack)
    shutil.copytree(tmp_path / "other" / "pack", pack)
    with pytest.raises(UserError, match="another pack"):
        _run(tmp_path / "run", **settings, pack=pack)
    tiny.write_google_bert(tmp_path / "bert", seed=1)
    with pytest.raises(UserError, match="another base"):
        _run(tmp_path / "first", **settings)
    after = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert after == before


def test_evaluation_uses_the_packs_inputs_and_leaves_the_results_alone(settings, tmp_path):
    _run(tmp_path / "run", **{**settings, "max_seq_length": 3 + 1})
    results = (tmp_path / "run" / "eval_results.json").read_bytes()
    trained = _results(tmp_path / "run")["metrics"]
    _run(tmp_path / "run", **settings, do_eval=True)
    assert (tmp_path / "run" / "eval_results.json").read_bytes() == results
    found = json.loads((tmp_path / "run" / "evaluation.json").read_text())
    assert found["metrics"] == trained
    assert found["settings"]["max_seq_length"] == 4


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"tuning": "full"}, "tuning method=full: the pack .* has method=adapters"),
        pytest.param(
            {"adapter_size": 8},
            "adapter size=8: the pack .* has size=64",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_flags_that_contradict_a_pack_are_refused(settings, tmp_path, given, told):
    settings |= {"num_train_epochs": 0.2}
    _run(tmp_path / "first", **settings)
    pack = str(tmp_path / "first" / "pack")
    values = {**settings, **given, "pack": pack, "output_dir": str(tmp_path / "second")}
    with pytest.raises(UserError, match=told):
        run_classifier(make_settings(ClassifierSettings, values))
    same = {**values, "tuning": "adapters", "adapter_size": 64}
    assert run_classifier(make_settings(ClassifierSettings, same)) is not None


@pytest.mark.parametrize("program", ["classifier", "squad"])
def test_the_commands_as_asked_for_run_in_an_empty_folder(program, bert, tmp_path, monkeypatch):
    """`--task=CoLA --adapter_size=64` and nothing at all, on TFDS's mock data and a tiny BERT."""
    monkeypatch.chdir(tmp_path)
    small = {"bert": bert, "cache_dir": str(tmp_path / "cache"), "num_train_epochs": 1.0}
    # SQuAD's answers have to stand in their contexts, which random texts don't give.
    questions = {"as_dataset_fn": mock_rows} if program == "squad" else {}
    with tfds.testing.mock_data(num_examples=12, **questions):
        if program == "classifier":
            values = {"task": "CoLA", "adapter_size": 64, "max_seq_length": 32, **small}
            settings = make_settings(ClassifierSettings, values)
            task = run_classifier(settings)
        else:
            sizes = {"max_seq_length": 32, "doc_stride": 8, "max_query_length": 8}
            settings = make_settings(SquadSettings, {**sizes, **small})
            task = run_squad(settings)
    assert task is not None
    folder = pathlib.Path(settings.output_dir)
    assert folder.parts[0] == "runs"
    assert {"pack", "eval_results.json", "settings.json"} <= {
        path.name for path in folder.iterdir()
    }


@pytest.mark.slow
def test_a_finished_run_is_scored_if_it_was_not_yet(settings, tmp_path):
    settings |= {"num_train_epochs": 0.2}
    _run(tmp_path / "run", **settings, do_train=True)
    assert not _results(tmp_path / "run")["metrics"]
    _run(tmp_path / "run", **settings, do_train=True, do_eval=True)
    found = json.loads((tmp_path / "run" / "evaluation.json").read_text())["metrics"]
    assert found.keys() == {"accuracy", "macro_f1"}


def test_files_of_another_run_or_pack_are_not_replaced(settings, tmp_path):
    settings |= {"num_train_epochs": 0.2, "test_file": f"{tmp_path}/test.csv"}
    for name in ("first", "second"):
        _run(tmp_path / name, **settings)
    pack = str(tmp_path / "first" / "pack")
    with pytest.raises(UserError, match="belongs to another run"):
        _run(tmp_path / "second", **settings, pack=pack, do_predict=True)
    with pytest.raises(UserError, match="would be replaced"):
        _run(tmp_path / "first", **settings, pack=pack)


@pytest.mark.slow
def test_values_from_python_are_written_as_json(settings, tmp_path):
    given = {"adapter_layers": range(1, 3), "adapter_size": np.int64(4), "num_train_epochs": 0.2}
    values = {**settings, **given, "output_dir": str(tmp_path / "run")}
    assert run_classifier(make_settings(ClassifierSettings, values)) is not None
    assert _results(tmp_path / "run")["settings"]["adapter"]["layers"] == [1, 2]
    again = {**values, "pack": str(tmp_path / "run" / "pack"), "output_dir": str(tmp_path / "on")}
    assert run_classifier(make_settings(ClassifierSettings, again)) is not None
