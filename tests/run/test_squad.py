"""Runs in this process; the program is tested from outside in test_run_squad.py."""

import json
import logging

import numpy as np
import pytest

from adapter_bert_tf import UserError, load_task
from adapter_bert_tf.run.settings import SquadSettings
from adapter_bert_tf.run.squad import run_squad
from adapter_bert_tf.tuning.methods import Tuning
from tests import squad_lib


@pytest.fixture
def settings(tmp_path, bert) -> dict:
    words = [f"w{number}" for number in range(40)]
    path = tmp_path / "squad.json"
    path.write_text(json.dumps({"data": squad_lib.articles(0, words, paragraphs=8)}))
    return {
        "train_file": str(path),
        "predict_file": str(path),
        "bert": bert,
        "max_seq_length": 32,
        "doc_stride": 8,
        "max_query_length": 8,
        "train_batch_size": 8,
        "num_train_epochs": 1.0,
        "cache_dir": f"{tmp_path}/cache",
    }


def _run(folder, strategy=None, **settings) -> dict[str, list]:
    task = run_squad(SquadSettings(output_dir=str(folder), **settings), strategy)
    assert task is not None
    return json.loads((folder / "nbest_predictions.json").read_text())


def test_full_tuning_leaves_the_unused_pooler_in_peace(settings, tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        _run(tmp_path / "run", adapter=None, tuning=Tuning("full"), **settings)
    assert "Gradients do not exist" not in caplog.text


@pytest.mark.slow
def test_two_devices_and_one_shape_answer_alike(settings, tmp_path, two_devices):
    one = _run(tmp_path / "one", **settings)
    settings = {**settings, "do_predict": True, "pack": f"{tmp_path}/one/pack"}
    others = {
        "two devices": _run(tmp_path / "two", two_devices, **settings),
        "one shape": _run(tmp_path / "padded", pad_to_max=True, predict_batch_size=5, **settings),
    }
    for answers in others.values():
        assert answers.keys() == one.keys()
        for name, n_best in answers.items():
            assert n_best[0]["text"] == one[name][0]["text"]
            np.testing.assert_allclose(n_best[0]["start_logit"], one[name][0]["start_logit"], 1e-4)


def test_a_file_without_answers_is_answered_but_not_scored(settings, tmp_path):
    articles = squad_lib.articles(1, ["w1", "w2", "w3"])
    for article in articles:
        for question in article["paragraphs"][0]["qas"]:
            del question["answers"]
    path = tmp_path / "test.json"
    path.write_text(json.dumps({"data": articles}))
    answers = _run(tmp_path / "run", **{**settings, "predict_file": str(path)})
    assert len(answers) == 12
    assert json.loads((tmp_path / "run" / "eval_results.json").read_text())["metrics"] == {}


@pytest.mark.slow
def test_v2_finds_a_threshold(settings, tmp_path):
    path = tmp_path / "v2.json"
    path.write_text(json.dumps({"data": squad_lib.articles(2, ["w1", "w2", "w3"], negative=True)}))
    files = {"train_file": str(path), "predict_file": str(path), "version_2_with_negative": True}
    folder = tmp_path / "run"
    _run(folder, **{**settings, **files})
    odds = json.loads((folder / "null_odds.json").read_text())
    predictions = json.loads((folder / "predictions.json").read_text())
    assert all((text == "") == (odds[name] > 0) for name, text in predictions.items())
    metrics = json.loads((folder / "eval_results.json").read_text())["metrics"]
    assert metrics["best_f1"] >= metrics["f1"]

    # With the threshold that it found, it reaches the score that it promised.
    found = metrics["best_f1_thresh"]
    again = {"do_predict": True, "pack": f"{folder}/pack", "null_score_diff_threshold": found}
    _run(tmp_path / "again", **{**settings, **files, **again})
    metrics_again = json.loads((tmp_path / "again" / "eval_results.json").read_text())["metrics"]
    assert metrics_again["f1"] == pytest.approx(metrics["best_f1"])

    # The finished run chooses anew too, and trains nothing.
    history = (folder / "history.json").read_text()
    _run(folder, **{**settings, **files, "null_score_diff_threshold": found})
    assert json.loads((folder / "eval_results.json").read_text())["metrics"] == metrics_again
    assert (folder / "history.json").read_text() == history


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"do_train": False}, "--pack: nothing is trained"),
        ({"train_file": "no.json"}, "--train_file=no.json: no such file"),
        ({"max_query_length": 29}, "--max_query_length=29: leaves no room"),
        ({"doc_stride": 0}, "--doc_stride=0: expected a whole number from 1"),
        ({"max_seq_length": 64}, "--max_seq_length=64: the base takes 32"),
        ({"do_train": False, "do_predict": False}, "--do_train or --do_predict"),
    ],
)
def test_wrong_settings_are_told(changes, told, settings, tmp_path):
    with pytest.raises(UserError, match=told):
        _run(tmp_path / "run", **{**settings, **changes})
    assert not (tmp_path / "run").exists()


def test_files_of_our_own_are_not_mixed_with_tfds(settings, tmp_path):
    del settings["train_file"]
    with pytest.raises(UserError, match="--do_train: give --train_file"):
        _run(tmp_path / "run", **settings)


def test_the_task_of_a_run_answers_as_its_file_says(settings, tmp_path):
    words = [f"w{number}" for number in range(40)]
    folder = tmp_path / "run"
    _run(folder, **settings)
    (epoch,) = json.loads((folder / "history.json").read_text())["epochs"]
    assert set(epoch["train"]) == {"loss"}
    assert set(epoch["dev"]) == {"exact_match", "f1"}
    task = load_task(folder / "pack")
    assert task.metrics == epoch["dev"]
    predictions = json.loads((folder / "predictions.json").read_text())
    for article in squad_lib.articles(0, words, paragraphs=8)[:2]:
        (paragraph,) = article["paragraphs"]
        for question in paragraph["qas"]:
            answer = task.answer(question["question"], paragraph["context"])
            assert answer.text == predictions[question["id"]]

    # They are not replaced by the answers to other questions.
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"data": squad_lib.articles(1, ["w1", "w2"])}))
    with pytest.raises(UserError, match="has the answers to .*squad.json; give another folder"):
        _run(folder, **{**settings, "do_predict": True, "predict_file": str(other)})
    assert json.loads((folder / "predictions.json").read_text()) == predictions


def test_without_questions_to_answer_it_only_trains(settings, tmp_path):
    del settings["predict_file"]
    task = run_squad(SquadSettings(output_dir=str(tmp_path / "run"), **settings))
    assert task is not None
    assert task.metrics == {}
    assert (tmp_path / "run" / "pack" / "pack.json").exists()
    assert not (tmp_path / "run" / "predictions.json").exists()
