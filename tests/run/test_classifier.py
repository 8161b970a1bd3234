"""Runs in this process; the program is tested from outside in test_run_classifier.py."""

import json

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from adapter_bert_tf import UserError
from adapter_bert_tf.data.examples import Examples
from adapter_bert_tf.data.records import cached_records
from adapter_bert_tf.run.classifier import ClassifierRun
from adapter_bert_tf.run.classifier_settings import ClassifierSettings
from adapter_bert_tf.text.tokenizer import Tokenizer, read_vocabulary
from adapter_bert_tf.tuning.methods import Tuning
from tests import tiny


@pytest.fixture(scope="module")
def still(tmp_path_factory) -> str:
    """A BERT without dropout, so that two trainings can be compared."""
    return tiny.write_google_bert(
        tmp_path_factory.mktemp("still"), hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )


@pytest.fixture
def settings(tmp_path, still) -> dict:
    rows = [f"w{i % 20 + 20 * (i % 2)} w{i % 7},{'no' if i % 2 else 'yes'}" for i in range(50)]
    for name in ("train", "dev", "test"):
        (tmp_path / f"{name}.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    return {
        "train_file": f"{tmp_path}/train.csv",
        "dev_file": f"{tmp_path}/dev.csv",
        "bert": still,
        "max_seq_length": 16,
        "train_batch_size": 8,
        "num_train_epochs": 2.0,
        "learning_rate": 3e-3,
        "cache_dir": f"{tmp_path}/cache",
    }


def _run(folder, strategy=None, **settings) -> list[dict]:
    tf_keras.utils.set_random_seed(0)
    run = ClassifierRun(
        ClassifierSettings(output_dir=str(folder), **settings),
        strategy or tf.distribute.get_strategy(),
    )
    assert run.run()
    return json.loads((folder / "history.json").read_text())["epochs"]


def test_two_devices_follow_the_loss_of_one(settings, tmp_path, two_devices):
    one = _run(tmp_path / "one", **settings)
    two = _run(tmp_path / "two", two_devices, **settings)
    losses = [[epoch["loss"] for epoch in epochs] for epochs in (one, two)]
    np.testing.assert_allclose(*losses, atol=1e-4)
    assert one[-1]["accuracy"] == two[-1]["accuracy"]


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
    epochs = _run(tmp_path / method, adapter=None, tuning=Tuning(method), **settings)
    assert epochs[1]["loss"] < epochs[0]["loss"]


def test_padding_changes_nothing_but_the_time(settings, tmp_path):
    buckets = _run(tmp_path / "buckets", **settings)
    padded = _run(tmp_path / "padded", pad_to_max=True, **settings)
    losses = [[epoch["loss"] for epoch in epochs] for epochs in (buckets, padded)]
    np.testing.assert_allclose(*losses, atol=1e-4)


def test_without_an_evaluation_set_the_last_epoch_is_kept(settings, tmp_path):
    settings.pop("dev_file")
    epochs = _run(tmp_path / "run", **settings)
    assert [set(epoch) for epoch in epochs] == [{"loss"}, {"loss"}]
    assert (tmp_path / "run" / "pack" / "pack.json").exists()


def _again(folder, **settings) -> ClassifierRun:
    run = ClassifierRun(
        ClassifierSettings(output_dir=str(folder), **settings), tf.distribute.get_strategy()
    )
    assert run.run()
    return run


def test_evaluation_alone_takes_the_runs_pack_and_keeps_its_results(settings, tmp_path):
    with pytest.raises(UserError, match="nothing is trained"):
        _again(tmp_path / "run", do_train=False, **settings)
    _run(tmp_path / "run", **settings)
    before = json.loads((tmp_path / "run" / "eval_results.json").read_text())
    _again(tmp_path / "run", do_train=False, **settings)
    after = json.loads((tmp_path / "run" / "eval_results.json").read_text())
    assert after["metrics"] == before["metrics"]
    assert after["steps"] == before["steps"]


def test_going_on_from_a_pack_keeps_its_tuning(settings, tmp_path):
    _run(tmp_path / "first", adapter=None, tuning=Tuning("full"), **settings)
    settings.pop("learning_rate")
    pack = str(tmp_path / "first" / "pack")
    run = _again(tmp_path / "second", pack=pack, **settings)
    assert run.settings.tuning == Tuning("full")
    assert run.settings.rate == 5e-5


def test_a_pack_of_other_labels_is_told(settings, tmp_path):
    _run(tmp_path / "first", **settings)
    pack = str(tmp_path / "first" / "pack")
    for name in ("train", "dev"):
        path = tmp_path / f"{name}.csv"
        path.write_text(path.read_text().replace(",no", ",never"))
    with pytest.raises(UserError, match="unknown label 'never'"):
        _again(tmp_path / "second", pack=pack, **settings)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"train_file": None}, "--do_train: .* has no train set"),
        ({"do_predict": True}, "--do_predict: .* has no test set"),
        ({"dev_file": "/nowhere.csv"}, "/nowhere.csv"),
    ],
)
def test_missing_sets_are_told_and_the_folder_stays_free(settings, tmp_path, changes, told):
    with pytest.raises(UserError, match=told):
        _again(tmp_path / "run", **{**settings, **changes})
    assert not (tmp_path / "run").exists()


def test_records_of_the_original_can_be_trained_on(settings, tmp_path):
    examples = Examples(["w1 w2 w3", "w3"] * 10, None, [0, 1] * 10)
    tokenizer = Tokenizer(read_vocabulary(f"{settings['bert']}/vocab.txt"))
    path = cached_records(examples, tokenizer, 16, str(tmp_path), "records")
    settings |= {"train_file": path, "dev_file": path}
    assert len(_run(tmp_path / "run", **settings)) == 2
    with pytest.raises(UserError, match="more than --max_seq_length"):
        _again(tmp_path / "short", **{**settings, "max_seq_length": 4, "train_file": path})


def test_a_base_without_a_vocabulary_is_told(settings, tmp_path):
    bert = tiny.write_google_bert(tmp_path / "bert", vocabulary=False)
    with pytest.raises(UserError, match="give --vocab_file"):
        _run(tmp_path / "run", **{**settings, "bert": bert})
