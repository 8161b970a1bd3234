import dataclasses
import json
import pathlib
import random

import pytest
import tensorflow as tf

from adapter_bert_tf import UserError
from adapter_bert_tf.baseline.space import SPACE, Design
from adapter_bert_tf.errors import file_error
from adapter_bert_tf.experiment import worker
from adapter_bert_tf.experiment.engine import Engine
from adapter_bert_tf.experiment.places import Places
from adapter_bert_tf.experiment.records import read_records
from adapter_bert_tf.experiment.storage import TakenError
from adapter_bert_tf.experiment.table import NO_BERT, Arm, Experiment, Search
from adapter_bert_tf.experiment.trials import to_trials
from adapter_bert_tf.experiment.worker import Models, StoppedError, ablate_all, score_tests, work
from adapter_bert_tf.run.classifier import run_classifier
from adapter_bert_tf.tuning.task_model import TaskModel
from tests.baseline import made


def _write_spam(folder: pathlib.Path) -> None:
    generator = random.Random(0)
    folder.mkdir(parents=True)
    rows = []
    for i in range(5574):
        label = i % 2
        words = generator.choices(range(20 * label, 20 * label + 20), k=4)
        rows.append(f"{'spam' if label else 'ham'}\t{' '.join(f'w{word}' for word in words)}\n")
    (folder / "SMSSpamCollection").write_text("".join(rows))


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("data")
    _write_spam(folder / "additional" / "sms_spam")
    return str(folder)


@pytest.fixture
def places(data_dir, tmp_path) -> Places:
    cache = pathlib.Path(data_dir) / "cache"
    return Places(str(tmp_path), data_dir, {"cache_dir": str(cache)})


def _experiment(bert: str, **changes) -> Experiment:
    given = {
        "title": "Some",
        "tasks": ("sms_spam",),
        "bert": bert,
        "arms": (Arm("adapters", {"learning_rate": (3e-3, 1e-4)}, {"adapter_size": 4}),),
        "seeds": (0, 1),
        "fixed": {
            "max_train_examples": 64,
            "num_train_epochs": 1.0,
            "train_batch_size": 8,
            "max_seq_length": 16,
            "deterministic": True,
        },
    }
    return Experiment(**{**given, **changes})


def _digest(folder: str) -> str:
    return json.loads(pathlib.Path(folder, "pack", "pack.json").read_text())["sha256"]


@pytest.mark.slow
def test_trials_of_one_design_share_a_step_and_end_as_runs_do(bert, places, tmp_path, monkeypatch):
    traced = []
    step = TaskModel.train_step
    monkeypatch.setattr(TaskModel, "train_step", lambda *args: traced.append(1) or step(*args))
    experiment = _experiment(bert)
    work(experiment, Engine(str(tmp_path), "sweep"), places)
    assert len(traced) == 1
    for trial in to_trials(experiment):
        settings = places.settings(trial)
        alone = tmp_path / "alone" / trial.digest
        run_classifier(type(settings)(**{**vars(settings), "output_dir": str(alone)}))
        assert _digest(str(alone)) == _digest(places.run_folder(trial))
    records = read_records(str(tmp_path))
    assert [record.state for record in records] == ["complete"] * 4
    assert {record.steps for record in records} == {8}
    # The same command does nothing again.
    before = (tmp_path / "trials.csv").read_text()
    work(experiment, Engine(str(tmp_path), "sweep"), places)
    assert (tmp_path / "trials.csv").read_text() == before


def test_a_trial_that_fails_does_not_end_the_others(bert, places, tmp_path):
    arm = Arm("adapters", {"learning_rate": (1e30, 3e-3)}, {"adapter_size": 4})
    work(_experiment(bert, arms=(arm,), seeds=(0,)), Engine(str(tmp_path), "sweep"), places)
    records = {each.settings["learning_rate"]: each for each in read_records(str(tmp_path))}
    assert records[3e-3].state == "complete"
    assert records[1e30].state == "failed"
    assert "the loss is" in records[1e30].reason


def test_a_stopped_trial_is_left_to_the_next_worker(bert, places, tmp_path, monkeypatch):
    engine = Engine(str(tmp_path), "sweep")
    experiment = _experiment(bert, seeds=(0,))
    with monkeypatch.context() as patch:
        patch.setattr(worker, "run_classifier", lambda *_, **__: None)
        with pytest.raises(StoppedError):
            work(experiment, engine, places)
    assert {each.state for each in engine.records()} == {"waiting"}
    work(experiment, engine, places)
    assert {each.state for each in engine.records()} == {"complete"}


_FULL = "No space left on device"


@pytest.mark.parametrize(
    "error",
    [
        OSError(28, _FULL),
        file_error("a.safetensors", OSError(28, _FULL)),
        # As TensorFlow's own writers have it.
        tf.errors.ResourceExhaustedError(None, None, f"a/ckpt.index; {_FULL}"),
    ],
)
def test_a_full_disk_ends_the_worker(bert, places, tmp_path, monkeypatch, error):
    def full(*_, **__):
        raise error

    monkeypatch.setattr(worker, "run_classifier", full)
    engine = Engine(str(tmp_path), "sweep")
    with pytest.raises(UserError, match="No space left"):
        work(_experiment(bert, seeds=(0,)), engine, places)
    assert {each.state for each in engine.records()} == {"waiting"}


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (tf.errors.ResourceExhaustedError(None, None, "OOM when allocating"), "OOM"),
        (MemoryError("no memory"), "no memory"),
        (UserError("train.csv: no rows"), "no rows"),
        (KeyError("text"), "KeyError: 'text'"),
    ],
)
def test_a_trial_that_is_too_large_or_wrong_fails_alone(
    bert, places, tmp_path, monkeypatch, error, reason
):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(worker, "run_classifier", fail)
    engine = Engine(str(tmp_path), "sweep")
    work(_experiment(bert, seeds=(0,)), engine, places)
    records = engine.records()
    assert {each.state for each in records} == {"failed"}
    assert all(reason in each.reason for each in records)


def test_what_nobody_expected_is_told_with_its_place(bert, places, tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "run_classifier", lambda *_, **__: {}["text"])
    experiment = _experiment(bert, seeds=(0,))
    work(experiment, Engine(str(tmp_path), "sweep"), places)
    log = pathlib.Path(places.run_folder(to_trials(experiment)[0]), "log.txt").read_text()
    assert "Traceback" in log
    assert "test_worker.py" in log


def test_of_a_folder_with_more_only_what_is_asked_for_is_done(bert, places, tmp_path, monkeypatch):
    experiment = _experiment(bert)
    engine = Engine(str(tmp_path), "sweep")
    engine.add(to_trials(experiment))
    monkeypatch.setattr(worker, "_do", lambda claim, *_: claim.complete(0.5))
    work(dataclasses.replace(experiment, seeds=(1,)), engine, places)
    states = {(each.seed, each.state) for each in engine.records()}
    assert states == {(0, "waiting"), (1, "complete")}


def test_a_trial_that_others_have_taken_is_left_to_them(bert, places, tmp_path, monkeypatch):
    engine, claims = Engine(str(tmp_path), "sweep"), []

    def do(claim, *_):
        claims.append(claim)
        if len(claims) == 1:
            raise TakenError
        claim.complete(0.5)

    monkeypatch.setattr(worker, "_do", do)
    work(_experiment(bert), engine, places)
    assert {each.state for each in engine.records()} == {"complete"}
    assert len(claims) == 5


def test_a_base_is_read_once_for_all_trials(bert, monkeypatch):
    models, opened = Models(), []
    find = worker.find_base
    monkeypatch.setattr(worker, "find_base", lambda *a: opened.append(a) or find(*a))
    first, second = (models._find_base(bert, None, None, None) for _ in range(2))
    assert len(opened) == 1
    assert first is second
    once, twice = (dict(first.read()) for _ in range(2))
    assert all(once[name] is twice[name] for name in once)


def test_packs_of_other_machines_are_left_to_them(bert, places, tmp_path, capsys):
    engine = Engine(str(tmp_path), "additional")
    experiment = _experiment(bert, tests=True)
    engine.add(to_trials(experiment)[:1])
    engine.claim().complete(0.9, metric="accuracy", folder="trials/elsewhere")
    score_tests(experiment, engine, places)
    assert "not on this machine" in capsys.readouterr().out
    assert engine.records()[0].test is None


@pytest.mark.slow
def test_only_what_validation_chose_is_tested(bert, places, tmp_path, monkeypatch):
    engine = Engine(str(tmp_path), "additional")
    experiment = _experiment(bert, tests=True)
    work(experiment, engine, places)
    asked = []
    monkeypatch.setattr(worker, "_test", lambda record, _: asked.append(record) or 0.5)
    score_tests(experiment, engine, places)
    chosen = {record.settings["learning_rate"] for record in asked}
    assert len(asked) == 2
    assert len(chosen) == 1
    means = {}
    for rate in (3e-3, 1e-4):
        values = [r.value for r in engine.records() if r.settings["learning_rate"] == rate]
        means[rate] = sum(values) / 2
    assert means[chosen.pop()] == max(means.values())
    tested = [record for record in engine.records() if record.test is not None]
    assert len(tested) == 2
    score_tests(experiment, engine, places)  # Not a second time.
    assert len(asked) == 2


@pytest.mark.slow
def test_the_test_score_and_the_ablation_of_a_tuned_task(bert, places, tmp_path):
    engine = Engine(str(tmp_path), "ablation")
    arm = Arm("adapters", {"learning_rate": (1e-2,)}, {"adapter_size": 4})
    experiment = _experiment(bert, arms=(arm,), seeds=(0,), tests=True)
    work(experiment, engine, places)
    score_tests(experiment, engine, places)
    record = engine.records()[0]
    assert 0 <= record.test <= 1
    ablate_all(experiment, engine, places)
    lines = (tmp_path / "ablation.csv").read_text().splitlines()
    assert len(lines) == 1 + 6  # The spans of three layers.
    assert all(float(line.split(",")[-1]) == pytest.approx(record.value) for line in lines[1:])


@pytest.mark.slow
def test_models_of_other_designs_are_other_models(bert, places):
    models = Models()
    arms = (Arm("adapters", {"adapter_size": (4, 8)}), Arm("full"))
    made = []
    for trial in to_trials(_experiment(bert, arms=arms, seeds=(0,))):
        settings = places.settings(trial)
        run_classifier(settings, make=lambda *args: made.append(models(*args)) or made[-1])
    assert len({id(model) for model in made}) == 3


def test_a_search_keeps_the_best_pack_and_scores_it(places, tmp_path):
    module = made.write_second_format(tmp_path / "module")
    space = {name: (getattr(Design(), name),) for name in SPACE}
    space |= {"module": (module,), "deep_rate": (0.001, 0.1), "hidden_layers": (0, 1)}
    experiment = _experiment(
        "none", arms=(Arm(NO_BERT, search=Search(space, 3)),), seeds=(0, 1), tests=True
    )
    engine = Engine(str(tmp_path), "baseline")
    work(experiment, engine, places)
    records = read_records(str(tmp_path))
    assert [each.state for each in records] == ["complete"] * 3
    assert {each.seed for each in records} == {0}
    best = max(records, key=lambda each: each.value)
    packs = list(tmp_path.glob("trials/*/pack"))
    assert [str(pack.parent) for pack in packs] == [str(tmp_path / best.folder)]
    score_tests(experiment, engine, places)
    tested = [each for each in engine.records() if each.test is not None]
    assert [each.value for each in tested] == [best.value]
    assert 0 < tested[0].test <= 1
