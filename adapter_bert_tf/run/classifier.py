"""A classifier run: from a file of texts to a tuned, scored task."""

import os
import threading
from typing import Any

import tensorflow as tf

from adapter_bert_tf.data.batches import Batches, some_rows
from adapter_bert_tf.data.records import LABELS, cached_records, check_labels, read_records
from adapter_bert_tf.data.sources import RecordFiles, Source
from adapter_bert_tf.data.task import DEV, TEST, TRAIN
from adapter_bert_tf.errors import UserError, some
from adapter_bert_tf.files import file_digest
from adapter_bert_tf.heads.kinds import HEADS, NO_HEAD
from adapter_bert_tf.pack.model import load_pack
from adapter_bert_tf.pack.pack import Pack
from adapter_bert_tf.run.common import (
    ModelMaker,
    check_export,
    check_rows,
    export,
    identify,
    make_model,
    padded_lengths,
    started,
    with_pack,
)
from adapter_bert_tf.run.devices import is_tpu
from adapter_bert_tf.run.folder import RunFolder
from adapter_bert_tf.run.results import Scorer, describe, write_predictions
from adapter_bert_tf.run.settings import ClassifierSettings
from adapter_bert_tf.run.source import find_source, known_from, split_names
from adapter_bert_tf.run.trainer import Plan, Watcher, is_finished, train, write_results
from adapter_bert_tf.task import Task


def run_classifier(
    settings: ClassifierSettings,
    strategy: tf.distribute.Strategy | None = None,
    make: ModelMaker = make_model,
    watch: Watcher = lambda epoch, value: None,
) -> Task | None:
    """Does what the settings ask.

    Args:
      settings: What to do.
      strategy: Where to compute, by default as the settings say.
      make: Makes the model. By default it is a new one.
      watch: Is told the number of each epoch that was evaluated, and the metric that decides.

    Returns:
      The task, with the best epoch's model; None if a signal ended the training early.
    """
    with started(settings, strategy) as (strategy, folder, stop):
        return _run(settings, strategy, folder, make, watch, stop)


def _run(
    settings: ClassifierSettings,
    strategy: tf.distribute.Strategy,
    folder: RunFolder,
    make: ModelMaker,
    watch: Watcher,
    stop: threading.Event,
) -> Task | None:
    check_export(settings)
    settings, pack = with_pack(settings, folder)
    source = find_source(settings, *known_from(pack, settings))
    task = _make_task(settings, source, pack, strategy, make)
    data = _Data(settings, source, task, strategy)

    if settings.do_train:
        batches = data.batches(TRAIN, settings.train_batch_size)
        dev = data.all_batches(DEV, settings.eval_batch_size) if settings.do_eval else {}
        identity = identify(settings, task.model, data.digests)
        scorer = Scorer(task, source.task.metrics, dev, folder, settings.metric)
        if is_finished(identity, folder):
            load_pack(task.model, folder.pack)
            if dev and not folder.results()["metrics"]:
                write_results(task, dict(scorer.evaluate()), settings, folder)
        else:
            lines = describe(settings, source, task, batches, dev)
            plan = Plan(
                task,
                batches,
                scorer.evaluate,
                scorer.metric,
                scorer.write,
                lines,
                identity,
                watch,
                stop,
            )
            if not train(plan, settings, folder):
                return None
        scorer.print_confusion()
    elif settings.do_eval:
        dev = data.all_batches(DEV, settings.eval_batch_size)
        scorer = Scorer(task, source.task.metrics, dev, folder, settings.metric)
        write_results(task, dict(scorer.evaluate()), settings, folder)
    if settings.do_predict and folder.is_written:
        for name, batches in data.all_batches(TEST, settings.predict_batch_size).items():
            write_predictions(task, source, name, batches, folder)
    export(task, settings, folder)
    task.metrics = folder.results().get("metrics", task.metrics)
    return task


def read_dev(settings: ClassifierSettings) -> Batches:
    """Returns the first dev set of a finished run's task, as the run's pack reads it."""
    strategy = settings.devices.prepare()
    settings, pack = with_pack(settings, RunFolder(settings.output_dir))
    source = find_source(settings, *known_from(pack, settings))
    task = _make_task(settings, source, pack, strategy, make_model)
    name = split_names(settings, source, DEV)[0]
    return _Data(settings, source, task, strategy).batches(name, settings.eval_batch_size)


def _make_task(
    settings: ClassifierSettings,
    source: Source,
    pack: Pack | None,
    strategy: tf.distribute.Strategy,
    make: ModelMaker,
) -> Task:
    if pack and pack.labels and tuple(pack.labels) != tuple(source.labels):
        ours = some(source.labels)
        raise UserError(f"{settings.pack}: has the labels {some(pack.labels)}; the task has {ours}")
    has_head = pack and pack.kind != NO_HEAD
    if pack and has_head and len(pack.class_names) != len(source.labels):
        raise UserError(
            f"{settings.pack}: has {len(pack.class_names)} classes; the files have "
            f"{len(source.labels)}: {some(source.labels)}"
        )
    model = make(settings, HEADS[source.kind], source.labels, strategy)
    inputs: dict[str, Any] = {"max_seq_length": settings.max_seq_length}
    if not isinstance(source, RecordFiles):  # They don't say whether they hold pairs.
        inputs["pair"] = source.task.pair is not None
    return Task(model, name=source.task.name, labels=source.labels, inputs=inputs)


class _Data:
    """The batches of a run."""

    def __init__(
        self,
        settings: ClassifierSettings,
        source: Source,
        task: Task,
        strategy: tf.distribute.Strategy,
    ):
        self._settings, self._source, self._task = settings, source, task
        self._on_tpu = is_tpu(strategy)
        self.digests: dict[str, str] = {}

    def all_batches(self, kind: str, batch_size: int) -> dict[str, Batches]:
        """Returns all splits of a kind, by name."""
        names = split_names(self._settings, self._source, kind)
        return {name: self.batches(name, batch_size) for name in names}

    def batches(self, split: str, batch_size: int) -> Batches:
        """Returns a split, tokenised and checked."""
        path, kind = self._records(split), self._task.head
        columns = read_records(path, kind.label_type)
        check_rows(path, columns, self._settings.max_seq_length, self._task.model.encoder.base)
        if split.startswith(TEST):
            columns.pop(LABELS, None)
        elif LABELS not in columns:
            raise UserError(f"{path}: has no labels")
        classes = len(self._source.labels)
        whole = classes and LABELS in columns and not kind.label_type.is_floating
        if whole:
            check_labels(path, columns[LABELS], classes)
        if split == TRAIN:
            columns = some_rows(columns, self._settings.max_train_examples)
        lengths = padded_lengths(self._settings, self._on_tpu)
        return Batches(columns, batch_size, lengths, fixed_rows=self._on_tpu)

    def _records(self, split: str) -> str:
        if isinstance(self._source, RecordFiles):
            path = self._source.files[split]
            self.digests[f"{split} set"] = file_digest(path)
            return path
        path = cached_records(
            self._source.read(split),
            self._task.tokenizer,
            self._settings.max_seq_length,
            self._settings.cache_dir,
            title=f"{self._source.task.name} {split}",
        )
        # It is named after a digest of its content.
        self.digests[f"{split} set"] = os.path.splitext(os.path.basename(path))[0]
        return path
