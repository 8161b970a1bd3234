"""A run of the baseline without BERT: one design, trained and scored."""

import contextlib
import dataclasses
import threading
import time

import numpy as np
import tensorflow as tf
import tf_keras

from adapter_bert_tf.baseline.features import Features
from adapter_bert_tf.baseline.model import BaselineModel
from adapter_bert_tf.baseline.space import Design
from adapter_bert_tf.baseline.task import outputs_of, save_baseline
from adapter_bert_tf.baseline.train import Training
from adapter_bert_tf.data.batches import chosen_rows
from adapter_bert_tf.data.examples import Examples
from adapter_bert_tf.data.sources import RecordFiles, Source
from adapter_bert_tf.data.task import DEV, TRAIN
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.heads.kinds import HEADS
from adapter_bert_tf.run.folder import RunFolder
from adapter_bert_tf.run.settings import ClassifierSettings
from adapter_bert_tf.run.source import find_source, split_names
from adapter_bert_tf.run.trainer import Watcher, on_signals


@dataclasses.dataclass(frozen=True)
class TaskTexts:
    """The examples of a task, and what was computed of them for all designs.

    Attributes:
      source: Where they come from.
      features: The texts, as designs read them.
      labels: The labels by split.
    """

    source: Source
    features: Features
    labels: dict[str, np.ndarray]


class TextsOfTasks:
    """Reads the texts of tasks, and keeps those of the last one for the next trial."""

    def __init__(self):
        self._key: str | None = None
        self._kept: TaskTexts | None = None

    def __call__(self, settings: ClassifierSettings) -> TaskTexts:
        """Returns the texts that the settings name."""
        key = repr(dataclasses.replace(settings, output_dir="", explicit={}))
        if self._kept is None or key != self._key:
            self._key, self._kept = key, _read(settings)
        return self._kept


def _read(settings: ClassifierSettings) -> TaskTexts:
    source = find_source(settings)
    if isinstance(source, RecordFiles):
        raise UserError("--train_file: TFRecords have no text, which a baseline needs")
    dev = split_names(settings, source, DEV)
    if not dev:
        raise UserError("--dev_file: there is no dev set to choose by")
    examples = {TRAIN: source.read(TRAIN), DEV: source.read(dev[0])}
    rows = chosen_rows(len(examples[TRAIN]), settings.max_train_examples)
    examples[TRAIN] = examples[TRAIN].take(rows.tolist())
    kind = HEADS[source.kind].label_type
    labels = {split: np.array(each.labels, kind.as_numpy_dtype) for split, each in examples.items()}
    texts = {split: _joined(each) for split, each in examples.items()}
    return TaskTexts(source, Features(texts, settings.cache_dir), labels)


def _joined(examples: Examples) -> list[str]:
    if examples.pairs is None:
        return examples.texts
    return [f"{a} {b}" for a, b in zip(examples.texts, examples.pairs, strict=True)]


def run_baseline(
    settings: ClassifierSettings,
    design: Design,
    texts: TextsOfTasks | None = None,
    watch: Watcher = lambda epoch, value: None,
) -> bool:
    """Trains a design on a task, and keeps the best pass as the folder's task pack.

    Args:
      settings: Names the task, the seed and the folder.
      design: The design.
      texts: Texts that were read for other designs.
      watch: Is told the number of each pass, and the metric that decides.

    Returns:
      False if a signal ended it early.
    """
    start = time.monotonic()
    settings.devices.prepare()
    tf_keras.utils.set_random_seed(settings.seed)
    task = (texts or TextsOfTasks())(settings)
    prepared = task.features.prepare(design)
    head = HEADS[task.source.kind].make(task.source.labels, 0.0)
    metrics = head.choose_metrics(task.source.task.metrics, settings.metric)
    model = BaselineModel(design, outputs_of(head), len(prepared.vocabulary))
    stop = threading.Event()
    changed = prepared.module.kept() if design.fine_tune else contextlib.nullcontext()
    with changed, on_signals(stop.set):
        training = Training(model, head, prepared, task.labels, metrics[0], settings.seed)
        trained = training.run(watch, stop.is_set)
        count = sum(int(tf.size(each)) for each in training.trained)
    if trained is None:
        return False
    names = [*metrics, *(name for name in head.default_metrics if name not in metrics)]
    scores = dict(head.evaluate(names, task.labels[DEV], trained.outputs))
    folder = RunFolder(settings.output_dir)
    save_baseline(
        folder.pack,
        design,
        prepared,
        trained.values,
        head,
        task=task.source.task.name,
        labels=task.source.labels,
        metrics=scores,
        pair=task.source.task.pair is not None,
    )
    folder.write_results(
        {
            "task": task.source.task.name,
            "metrics": scores,
            "steps": trained.steps,
            "seconds": round(time.monotonic() - start, 2),
            "trained_parameters": count,
            "total_parameters": count,
            "design": dict(vars(design)),
        }
    )
    return True
