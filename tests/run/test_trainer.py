"""The best epoch and the last; how a run goes on is tested from outside."""

import numpy as np
import pytest
import tensorflow as tf

from adapter_bert_tf import (
    AdapterConfig,
    ClassificationHead,
    TaskModel,
    create_optimizer,
    load_encoder,
)
from adapter_bert_tf.data.batches import Batches
from adapter_bert_tf.data.records import LABELS
from adapter_bert_tf.run.folder import RunFolder
from adapter_bert_tf.run.trainer import Schedule, Trainer
from adapter_bert_tf.text.inputs import IDS, SEGMENTS

ROWS, BATCH = 20, 8


@pytest.fixture
def batches() -> Batches:
    ids = tf.RaggedTensor.from_tensor(np.random.default_rng(0).integers(4, 50, [ROWS, 6]))
    ids = tf.cast(ids, tf.int32)
    columns = {IDS: ids, SEGMENTS: tf.zeros_like(ids), LABELS: tf.range(ROWS) % 2}
    return Batches(columns, BATCH, [6])


def _trainer(bert, folder, batches, **schedule) -> Trainer:
    model = TaskModel(load_encoder(bert, AdapterConfig(size=4)), ClassificationHead(2))
    model.compile(optimizer=create_optimizer(1e-3, 10, 1), loss=model.head.loss, run_eagerly=True)
    settings = {"steps_per_epoch": len(batches), "seed": 0, "save_steps": 100, **schedule}
    return Trainer(model, batches, Schedule(**settings), RunFolder(str(folder)))


def _train(bert, folder, batches, metrics, **schedule):
    trainer = _trainer(bert, folder, batches, **schedule)
    values, kept = iter(metrics), []

    def evaluate():
        return {"accuracy": next(values)} if metrics[0] is not None else {}

    metric = "accuracy" if metrics[0] is not None else None
    assert trainer.train(evaluate, kept.append, [], metric)
    return trainer.step, kept


def test_keeps_each_epoch_that_is_not_worse(bert, tmp_path, batches):
    step, kept = _train(bert, tmp_path, batches, [0.5, 0.4, 0.5, 0.9], epochs=4)
    assert step == 4 * 3
    assert [entry["accuracy"] for entry in kept] == [0.5, 0.5, 0.9]


def test_stops_early(bert, tmp_path, batches):
    step, kept = _train(bert, tmp_path, batches, [0.5, 0.4, 0.3, 0.9], epochs=4, patience=2)
    assert step == 3 * 3
    assert [entry["accuracy"] for entry in kept] == [0.5]


@pytest.mark.parametrize("moment", ["evaluate", "keep_best", "write_history"])
def test_an_epoch_that_was_not_evaluated_is_evaluated_after_a_restart(
    bert, tmp_path, batches, moment, monkeypatch
):
    def die(*_):
        raise KeyboardInterrupt

    def metrics():
        return {"accuracy": 0.5}

    for attempt in range(2):
        trainer = _trainer(bert, tmp_path, batches, epochs=1, save_steps=3)
        kept = []
        with monkeypatch.context() as patch:
            dies = attempt == 0
            if dies and moment == "write_history":
                patch.setattr(RunFolder, "write_history", die)
            calls = [
                die if dies and moment == "evaluate" else metrics,
                die if dies and moment == "keep_best" else kept.append,
            ]
            if dies:
                with pytest.raises(KeyboardInterrupt):
                    trainer.train(*calls, [], "accuracy")
            else:
                assert trainer.step == len(batches)
                assert trainer.train(*calls, [], "accuracy")
    assert kept == [{"accuracy": 0.5}]
    assert len(RunFolder(str(tmp_path)).history()) == 1


def test_a_run_that_stopped_early_stays_stopped(bert, tmp_path, batches):
    for _ in range(2):
        step, _ = _train(bert, tmp_path, batches, [0.5, 0.4, 0.3, 0.9], epochs=4, patience=2)
        assert step == 3 * 3


def test_fractions_of_epochs_and_no_evaluation(bert, tmp_path, batches):
    step, kept = _train(bert, tmp_path, batches, [None], epochs=1.4)
    assert step == 4
    assert kept == [{}, {}]
