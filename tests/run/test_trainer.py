"""Training in this process; how a program is killed and resumed is tested from outside."""

import glob
import os
import pathlib
import signal
import threading

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from adapter_bert_tf import (
    AdapterConfig,
    ClassificationHead,
    RegressionHead,
    Task,
    TaskModel,
    Tuning,
    UserError,
    load_encoder,
    read_pack,
)
from adapter_bert_tf.data.batches import Batches
from adapter_bert_tf.data.records import LABELS
from adapter_bert_tf.run import trainer
from adapter_bert_tf.run.checkpoint import Checkpoint
from adapter_bert_tf.run.folder import RunFolder
from adapter_bert_tf.run.settings import ClassifierSettings
from adapter_bert_tf.run.trainer import Plan, Schedule, is_finished, train
from adapter_bert_tf.text.inputs import IDS, SEGMENTS
from adapter_bert_tf.tuning.methods import METHODS, Method

# Three steps an epoch.
ROWS, BATCH, STEPS = 20, 8, 3


class _Killed(BaseException):
    """Ends training at once, as SIGKILL would."""


@pytest.fixture(autouse=True)
def _eager(monkeypatch):
    """Quicker than tracing, for a few steps."""
    compiled = TaskModel.compile
    monkeypatch.setattr(
        TaskModel, "compile", lambda self, **kwargs: compiled(self, run_eagerly=True, **kwargs)
    )


@pytest.fixture
def batches() -> Batches:
    ids = tf.RaggedTensor.from_tensor(np.random.default_rng(0).integers(4, 50, [ROWS, 6]))
    ids = tf.cast(ids, tf.int32)
    columns = {IDS: ids, SEGMENTS: tf.zeros_like(ids), LABELS: tf.range(ROWS) % 2}
    return Batches(columns, BATCH, [6])


def _settings(folder, epochs: float = 2.0, **changes) -> ClassifierSettings:
    values = {"train_file": "train.csv", "train_batch_size": BATCH, "learning_rate": 1e-2}
    return ClassifierSettings(
        output_dir=str(folder), num_train_epochs=epochs, **{**values, **changes}
    )


def _task(bert, tuning: Tuning = Tuning(), head=None) -> Task:
    tf_keras.utils.set_random_seed(0)
    adapter = AdapterConfig(size=4) if tuning.method == "adapters" else None
    model = TaskModel(load_encoder(bert, adapter), head or ClassificationHead(2), tuning)
    labels = ("a", "b") if isinstance(model.head, ClassificationHead) else ()
    return Task(model, name="test", labels=labels, inputs={"max_seq_length": 8})


def _train(task: Task, batches: Batches, settings: ClassifierSettings, metrics=()) -> list[dict]:
    """Trains to the end; returns the history. `metrics` are the accuracies of the epochs."""
    values = iter(metrics)
    metric = "accuracy" if metrics else None
    plan = Plan(
        task,
        batches,
        lambda: [(metric, next(values))] if metric else [],
        metric,
        identity=settings.identity(),
    )
    folder = RunFolder(settings.output_dir)
    assert train(plan, settings, folder)
    return folder.history()


def _at_step(monkeypatch, step: int, act) -> None:
    """Calls `act` when a step has been counted."""
    count = Checkpoint.count_step

    def counted(self, is_first):
        count(self, is_first)
        if self.step == step:
            act()

    monkeypatch.setattr(Checkpoint, "count_step", counted)


def _die():
    raise _Killed


# What ends when.


def test_a_schedule_counts_steps_and_epochs():
    schedule = Schedule(epochs=1.4, steps_per_epoch=10)
    assert schedule.steps == 14
    assert [schedule.epochs_in(step) for step in (0, 9, 10, 13, 14)] == [0, 0, 1, 1, 2]
    assert [schedule.steps_of(epoch) for epoch in (0, 1)] == [10, 4]
    assert Schedule(epochs=0.01, steps_per_epoch=10).steps == 1


def test_the_best_epoch_is_kept_and_the_later_of_two_equal_ones(bert, tmp_path, batches):
    task, kept = _task(bert), []
    values = iter([0.5, 0.4, 0.5, 0.3])
    weights = []

    def evaluate():
        weights.append(task.model.head.output_layer.kernel.numpy())
        yield "accuracy", next(values)

    plan = Plan(task, batches, evaluate, "accuracy", lambda: kept.append(len(weights)))
    assert train(plan, _settings(tmp_path, 4), RunFolder(str(tmp_path)))
    assert kept == [1, 3]
    assert read_pack(tmp_path / "pack").metrics == {"accuracy": 0.5}
    # The model is left as the best epoch had it, not as the last one.
    np.testing.assert_array_equal(task.model.head.output_layer.kernel, weights[2])
    assert (weights[2] != weights[3]).any()
    results = RunFolder(str(tmp_path)).results()
    assert results["steps"] == 4 * STEPS
    assert results["metrics"] == {"accuracy": 0.5}


def test_history_has_training_and_dev_metrics_of_each_epoch(bert, tmp_path, batches):
    history = _train(_task(bert), batches, _settings(tmp_path), [0.5, 0.75])
    assert [set(epoch) for epoch in history] == [{"train", "dev"}] * 2
    assert [epoch["dev"] for epoch in history] == [{"accuracy": 0.5}, {"accuracy": 0.75}]
    assert [set(epoch["train"]) for epoch in history] == [{"loss", "accuracy"}] * 2
    for epoch in history:
        assert 0 < epoch["train"]["loss"] < 2
        # A mean over 20 examples.
        assert epoch["train"]["accuracy"] * ROWS == pytest.approx(
            round(epoch["train"]["accuracy"] * ROWS)
        )
    assert RunFolder(str(tmp_path)).results()["epochs"] == history


def test_a_regression_has_no_training_metric_but_the_loss(bert, tmp_path, batches):
    history = _train(_task(bert, head=RegressionHead()), batches, _settings(tmp_path, 1))
    assert [set(epoch["train"]) for epoch in history] == [{"loss"}]


def test_stops_early_and_stays_stopped(bert, tmp_path, batches):
    settings = _settings(tmp_path, 4, early_stopping=2)
    for _ in range(2):
        history = _train(_task(bert), batches, settings, [0.5, 0.4, 0.3, 0.9])
        assert [epoch["dev"]["accuracy"] for epoch in history] == [0.5, 0.4, 0.3]
    assert RunFolder(str(tmp_path)).results()["steps"] == 3 * STEPS
    assert is_finished(settings.identity(), RunFolder(str(tmp_path)))


def test_fractions_of_epochs_and_no_evaluation(bert, tmp_path, batches):
    history = _train(_task(bert), batches, _settings(tmp_path, 1.4))
    assert [epoch["dev"] for epoch in history] == [{}, {}]
    assert RunFolder(str(tmp_path)).results()["steps"] == 4
    assert read_pack(tmp_path / "pack").metrics == {}


# What is stopped goes on.


@pytest.fixture(scope="module")
def uninterrupted() -> dict:
    """Weights and history of a training that was left alone, by tuning method."""
    return {}


def _finished(bert, folder, batches, tuning=Tuning()) -> tuple[str, list[dict]]:
    history = _train(_task(bert, tuning), batches, _settings(folder))
    return read_pack(folder / "pack").sha256, history


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("step", [1, 4, 5])
def test_a_signal_stops_it_and_it_goes_on_with_the_same_bits(
    bert, tmp_path, batches, monkeypatch, kind, step, uninterrupted, capsys
):
    if not uninterrupted:
        uninterrupted["adapters"] = _finished(bert, tmp_path / "whole", batches)
    settings, folder = _settings(tmp_path), RunFolder(str(tmp_path))
    before = signal.getsignal(kind)
    with monkeypatch.context() as patch:
        _at_step(patch, step, lambda: signal.raise_signal(kind))
        assert not train(Plan(_task(bert), batches, identity=settings.identity()), settings, folder)
    assert f"stopped at step {step}; the same command resumes it" in capsys.readouterr().out
    assert signal.getsignal(kind) is before
    assert not is_finished(settings.identity(), folder)
    assert _finished(bert, tmp_path, batches) == uninterrupted["adapters"]
    assert f"resumed at step {step}" in capsys.readouterr().out


@pytest.mark.parametrize("step", [2, 3, 5])
def test_killed_it_goes_on_from_its_last_checkpoint_with_the_same_bits(
    bert, tmp_path, batches, monkeypatch, step, uninterrupted
):
    if not uninterrupted:
        uninterrupted["adapters"] = _finished(bert, tmp_path / "whole", batches)
    settings = _settings(tmp_path, save_checkpoints_steps=1)
    with monkeypatch.context() as patch, pytest.raises(_Killed):
        # Killed before the step's own checkpoint, so that this step is done again.
        _at_step(patch, step, _die)
        _train(_task(bert), batches, settings)
    assert _finished(bert, tmp_path, batches) == uninterrupted["adapters"]


@pytest.mark.slow
def test_a_training_that_drops_adapters_goes_on_with_the_same_bits(
    bert, tmp_path, batches, monkeypatch
):
    tuning = Tuning(adapter_drop=2)
    whole = _finished(bert, tmp_path / "whole", batches, tuning)
    settings = _settings(tmp_path / "killed", save_checkpoints_steps=1)
    with monkeypatch.context() as patch, pytest.raises(_Killed):
        _at_step(patch, 5, _die)
        _train(_task(bert, tuning), batches, settings)
    assert _finished(bert, tmp_path / "killed", batches, tuning) == whole
    assert _finished(bert, tmp_path / "none", batches)[0] != whole[0]
    assert read_pack(tmp_path / "whole" / "pack").tuning == tuning


def test_a_method_that_names_single_variables_goes_on_with_the_same_bits(
    bert, tmp_path, batches, monkeypatch
):
    monkeypatch.setitem(METHODS, "biases", Method(lambda path, *_: path.endswith("/bias"), 1e-3))
    tuning = Tuning("biases")
    whole = _finished(bert, tmp_path / "whole", batches, tuning)
    folder = RunFolder(str(tmp_path / "stopped"))
    with monkeypatch.context() as patch:
        _at_step(patch, 2, lambda: signal.raise_signal(signal.SIGTERM))
        plan = Plan(_task(bert, tuning), batches)
        assert not train(plan, _settings(folder.path), folder)
    assert _finished(bert, tmp_path / "stopped", batches, tuning) == whole
    kernels = [path for path in read_pack(folder.pack).variables if not path.endswith("/bias")]
    assert kernels == ["head/output/kernel"]


@pytest.mark.parametrize("moment", ["evaluate", "save", "keep", "write_history"])
def test_an_epoch_that_was_not_evaluated_is_evaluated_after_a_restart(
    bert, tmp_path, batches, moment, monkeypatch
):
    settings, folder = _settings(tmp_path, 1), RunFolder(str(tmp_path))

    def attempt(dies: bool) -> list:
        kept: list = []
        evaluate = _die if dies and moment == "evaluate" else lambda: [("accuracy", 0.5)]
        keep = _die if dies and moment == "keep" else lambda: kept.append(1)
        with monkeypatch.context() as patch:
            for owner, name in ((Task, "save"), (RunFolder, "write_history")):
                if dies and moment == name:
                    patch.setattr(owner, name, lambda *_: _die())
            train(Plan(_task(bert), batches, evaluate, "accuracy", keep), settings, folder)
        return kept

    with pytest.raises(_Killed):
        attempt(dies=True)
    # Nothing is trained again.
    _at_step(monkeypatch, STEPS, _die)
    assert attempt(dies=False) == [1]
    (epoch,) = folder.history()
    assert epoch["dev"] == {"accuracy": 0.5}
    assert epoch["train"]["loss"] > 0


def test_signals_are_left_alone_outside_of_the_main_thread(bert, tmp_path, batches):
    done = []
    thread = threading.Thread(
        target=lambda: done.append(_train(_task(bert), batches, _settings(tmp_path, 0.3)))
    )
    thread.start()
    thread.join()
    assert len(done[0]) == 1


def test_killed_after_an_epoch_the_next_one_is_counted_from_its_start(
    bert, tmp_path, batches, monkeypatch, uninterrupted
):
    if not uninterrupted:
        uninterrupted["adapters"] = _finished(bert, tmp_path / "whole", batches)
    with monkeypatch.context() as patch, pytest.raises(_Killed):
        # The epoch before is in the history, and its means are in the latest checkpoint.
        _at_step(patch, STEPS + 1, _die)
        _train(_task(bert), batches, _settings(tmp_path))
    assert _finished(bert, tmp_path, batches) == uninterrupted["adapters"]


def _stop_at(bert, tmp_path, batches, monkeypatch, step: int) -> pathlib.Path:
    """Stops a training that saves each step; returns the folder of its checkpoints."""
    settings = _settings(tmp_path, save_checkpoints_steps=1)
    with monkeypatch.context() as patch:
        _at_step(patch, step, lambda: signal.raise_signal(signal.SIGTERM))
        assert not train(Plan(_task(bert), batches), settings, RunFolder(str(tmp_path)))
    return tmp_path / "checkpoints"


def test_of_a_damaged_checkpoint_nothing_is_taken_but_the_one_before(
    bert, tmp_path, batches, monkeypatch, uninterrupted, capsys
):
    if not uninterrupted:
        uninterrupted["adapters"] = _finished(bert, tmp_path / "whole", batches)
    saved = _stop_at(bert, tmp_path, batches, monkeypatch, 2)
    data = saved / "ckpt-2.data-00000-of-00001"
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)
    # What a process that was killed while it saved leaves.
    (saved / "ckpt-3_temp").mkdir()
    (saved / "ckpt-3_temp" / "part-00000-of-00001.data-00000-of-00001").write_bytes(b"half")
    # It would be waited for.
    os.mkfifo(saved / "ckpt-9.index")
    capsys.readouterr()
    assert _finished(bert, tmp_path, batches) == uninterrupted["adapters"]
    printed = capsys.readouterr().out
    for name in ("ckpt-9", "ckpt-2"):
        assert f"{saved}/{name}: damaged; the checkpoint before it is taken\n" in printed
    assert "resumed at step 1" in printed
    assert {path.name.split(".")[0] for path in saved.iterdir()} == {"ckpt-3", "ckpt-6"}


def test_if_all_checkpoints_are_damaged_it_does_not_start_anew_unasked(
    bert, tmp_path, batches, monkeypatch
):
    saved = _stop_at(bert, tmp_path, batches, monkeypatch, 2)
    for path in saved.glob("*.data*"):
        path.write_bytes(path.read_bytes()[:100])
    before = {path: path.read_bytes() for path in saved.iterdir()}
    with pytest.raises(UserError, match="checkpoints: no checkpoint can be read; remove it"):
        _train(_task(bert), batches, _settings(tmp_path))
    assert {path: path.read_bytes() for path in saved.iterdir()} == before


def test_checkpoints_of_another_version_are_told(bert, tmp_path, batches):
    other = tf.train.Checkpoint(step=tf.Variable(3, dtype=tf.int64))
    tf.train.CheckpointManager(other, str(tmp_path / "checkpoints"), max_to_keep=1).save()
    with pytest.raises(UserError, match="ckpt-1: was saved by another version"):
        _train(_task(bert), batches, _settings(tmp_path))


# What is told.


def test_a_loss_that_is_not_a_number_ends_it_in_one_line(bert, tmp_path, batches, monkeypatch):
    task = _task(bert)
    frozen = task.model.variables_by_path()["pooler_transform/bias"]
    _at_step(monkeypatch, 4, lambda: frozen.assign(np.nan * frozen))
    settings = _settings(tmp_path, save_checkpoints_steps=1)
    with pytest.raises(UserError, match="the loss is nan at step 5, .*--learning_rate") as error:
        _train(task, batches, settings)
    assert "\n" not in str(error.value)
    # The epoch before it is kept.
    assert f"; {tmp_path}/pack has the best epoch" in str(error.value)
    assert len(RunFolder(str(tmp_path)).history()) == 1
    assert read_pack(tmp_path / "pack")


def test_a_weight_that_is_not_finite_ends_it_before_it_is_saved(
    bert, tmp_path, batches, monkeypatch
):
    task = _task(bert)
    # The loss of the step was finite; what it did to the weight shows in the next one's.
    _at_step(monkeypatch, 2, lambda: task.model.head.output_layer.bias.assign([np.inf, 0]))
    settings = _settings(tmp_path, save_checkpoints_steps=1)
    with pytest.raises(UserError, match="a weight is not finite at step 2, learning rate 0.00"):
        _train(task, batches, settings)
    assert not list((tmp_path / "checkpoints").glob("ckpt-2*"))
    with pytest.raises(UserError, match="pack: some values are not finite: head/output/bias"):
        task.save(tmp_path / "pack")
    assert not (tmp_path / "pack").exists()


def test_a_rate_that_is_far_too_high_is_told(bert, tmp_path, batches):
    with pytest.raises(UserError, match=r"the loss is (nan|inf) at step \d, learning rate"):
        _train(_task(bert), batches, _settings(tmp_path, learning_rate=1e30))


def _points(folder) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard would show: the points of each curve."""
    found: dict = {}
    for path in sorted(glob.glob(f"{folder}/events*")):
        for record in tf.data.TFRecordDataset(path):
            event = tf.compat.v1.Event.FromString(record.numpy())
            for value in event.summary.value:
                number = float(tf.make_ndarray(value.tensor))
                found.setdefault(value.tag, []).append((event.step, number))
    return found


def test_tensorboard_has_the_loss_and_the_dev_metrics(bert, tmp_path, batches, monkeypatch):
    monkeypatch.setattr(trainer, "_SUMMARY_STEPS", 2)
    history = _train(_task(bert), batches, _settings(tmp_path), [0.5, 0.75])
    dev = _points(tmp_path / "tensorboard" / "dev")
    assert dev == {"accuracy": [(STEPS, 0.5), (2 * STEPS, 0.75)]}
    loss = _points(tmp_path / "tensorboard" / "train")["loss"]
    assert [step for step, _ in loss] == [2, 4, 6]
    assert loss[-1][1] == pytest.approx(history[-1]["train"]["loss"])


def test_a_finished_run_says_so_and_another_run_is_refused(bert, tmp_path, batches, capsys):
    settings, folder = _settings(tmp_path, 1), RunFolder(str(tmp_path))
    assert not is_finished(settings.identity(), folder)
    _train(_task(bert), batches, settings)
    assert is_finished(settings.identity(), folder)
    assert f"{tmp_path}: this run is finished" in capsys.readouterr().out
    with pytest.raises(UserError, match="belongs to a run with seed=0, not 1"):
        is_finished(_settings(tmp_path, 1, seed=1).identity(), folder)


def test_what_is_trained_is_printed_first(bert, tmp_path, batches, capsys):
    _train(_task(bert), batches, _settings(tmp_path, 1))
    printed = capsys.readouterr().out
    assert "task     test: classification, 20 training examples" in printed
    assert "tuning   adapters: " in printed
    assert "steps    3 of 8 examples, learning rate 0.01\n" in printed


def test_a_file_in_the_place_of_the_summaries_is_told(tmp_path):
    (tmp_path / "tensorboard").write_text("x")
    with pytest.raises(UserError, match="tensorboard/dev: "):
        trainer._summaries(RunFolder(str(tmp_path)), "dev")
