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
from adapter_bert_tf.run.training import Schedule, Trainer
from adapter_bert_tf.text.inputs import IDS, SEGMENTS

ROWS, BATCH = 20, 8


@pytest.fixture
def batches() -> Batches:
    ids = tf.RaggedTensor.from_tensor(np.random.default_rng(0).integers(4, 50, [ROWS, 6]))
    ids = tf.cast(ids, tf.int32)
    columns = {IDS: ids, SEGMENTS: tf.zeros_like(ids), LABELS: tf.range(ROWS) % 2}
    return Batches(columns, BATCH, [6])


def _train(bert, folder, batches, metrics, **schedule):
    model = TaskModel(load_encoder(bert, AdapterConfig(size=4)), ClassificationHead(2))
    model.compile(optimizer=create_optimizer(1e-3, 10, 1), loss=model.head.loss, run_eagerly=True)
    settings = {"steps_per_epoch": len(batches), "seed": 0, "save_steps": 100, **schedule}
    trainer = Trainer(model, batches, Schedule(**settings), RunFolder(str(folder)))
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


def test_a_run_that_stopped_early_stays_stopped(bert, tmp_path, batches):
    for _ in range(2):
        step, _ = _train(bert, tmp_path, batches, [0.5, 0.4, 0.3, 0.9], epochs=4, patience=2)
        assert step == 3 * 3


def test_fractions_of_epochs_and_no_evaluation(bert, tmp_path, batches):
    step, kept = _train(bert, tmp_path, batches, [None], epochs=1.4)
    assert step == 4
    assert kept == [{}, {}]
