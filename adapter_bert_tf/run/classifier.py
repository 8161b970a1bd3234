"""A classifier run: from a file of texts to a tuned, scored task."""

from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from adapter_bert_tf.data.batches import Batches
from adapter_bert_tf.data.records import LABELS, cached_records, read_records
from adapter_bert_tf.data.sources import RecordFiles, Source
from adapter_bert_tf.data.task import DEV, TEST, TRAIN
from adapter_bert_tf.errors import UserError, some
from adapter_bert_tf.heads.kinds import HEADS
from adapter_bert_tf.pack.model import load_pack
from adapter_bert_tf.pack.pack import Pack
from adapter_bert_tf.run.common import (
    check_export,
    check_rows,
    export,
    make_model,
    padded_lengths,
    with_pack,
)
from adapter_bert_tf.run.devices import is_tpu, worker_number
from adapter_bert_tf.run.folder import RunFolder
from adapter_bert_tf.run.settings import ClassifierSettings
from adapter_bert_tf.run.source import find_source, split_names
from adapter_bert_tf.run.trainer import Plan, is_finished, train, write_results
from adapter_bert_tf.task import Task
from adapter_bert_tf.text.inputs import IDS
from adapter_bert_tf.tuning.outputs import compute_outputs

# The range of STS-B's scores.
_LOWEST, _HIGHEST = 0.0, 5.0


def run_classifier(
    settings: ClassifierSettings, strategy: tf.distribute.Strategy | None = None
) -> Task | None:
    """Does what the settings ask.

    Args:
      settings: What to do.
      strategy: Where to compute, by default as the settings say.

    Returns:
      The task, with the best epoch's model; None if a signal ended the training early.
    """
    strategy = settings.devices.prepare(settings.seed, strategy)
    folder = RunFolder(settings.output_dir, worker_number(strategy))
    check_export(settings)
    settings, pack = with_pack(settings, folder)
    source = find_source(settings, *_known(pack, settings))
    finished = settings.do_train and is_finished(settings, folder)
    task = _make_task(settings, source, pack, strategy)
    data = _Data(settings, source, task, strategy)

    if finished:
        load_pack(task.model, folder.pack)
    elif settings.do_train:
        batches = data.batches(TRAIN, settings.train_batch_size)
        dev = data.all_batches(DEV, settings.eval_batch_size) if settings.do_eval else {}
        metrics = source.task.metrics
        first = f"{next(iter(dev))}_{metrics[0]}" if len(dev) > 1 else metrics[0]
        plan = Plan(task, batches, lambda: _evaluate(task, metrics, dev), first if dev else None)
        if not train(plan, settings, folder):
            return None
    elif settings.do_eval:
        dev = data.all_batches(DEV, settings.eval_batch_size)
        found = dict(_evaluate(task, source.task.metrics, dev))
        write_results(task, found, settings, folder)
    if settings.do_predict:
        for name, batches in data.all_batches(TEST, settings.predict_batch_size).items():
            _predict(task, source, name, batches, folder)
    export(task, settings, folder)
    task.metrics = folder.results().get("metrics", task.metrics)
    return task


def _known(
    pack: Pack | None, settings: ClassifierSettings
) -> tuple[str | None, tuple[str, ...] | None]:
    """Returns the kind and the labels that a pack says; None where the files have to say them."""
    if pack is None:
        return None, None
    # A pack that was imported has no names. Files with labels bring them.
    is_named = pack.labels or not pack.class_names
    brings_names = settings.do_train or settings.do_eval
    return pack.kind, pack.class_names if is_named or not brings_names else None


def _evaluate(
    task: Task, metrics: tuple[str, ...], sets: dict[str, Batches]
) -> Iterator[tuple[str, float]]:
    """Yields the metrics of all sets; with several, their names stand in front."""
    for split, batches in sets.items():
        prefix = f"{split}_" if len(sets) > 1 else ""
        outputs = compute_outputs(task.model, batches)
        labels = batches.columns[LABELS].numpy()
        for name, value in task.head.evaluate(metrics, labels, outputs):
            yield f"{prefix}{name}", value


def _predict(task: Task, source: Source, split: str, batches: Batches, folder: RunFolder) -> None:
    """Writes `test_results.tsv` as the original does, and the file for the GLUE site."""
    outputs = compute_outputs(task.model, batches)
    logits = outputs.reshape(len(outputs), -1)
    values = task.head.activate(tf.constant(logits)).numpy()
    lines = ["\t".join(str(value) for value in row) + "\n" for row in values]
    folder.write(f"test_results{split.removeprefix(TEST)}.tsv", "".join(lines))
    if split in source.task.submission:
        answers = task.to_answers(outputs)
        if "label" in answers:
            found = [label.decode() for label in answers["label"]]
        else:
            clipped = np.clip(answers["value"], _LOWEST, _HIGHEST)
            found = [f"{value:.3f}" for value in clipped]
        lines = [f"{row}\t{prediction}\n" for row, prediction in enumerate(found)]
        folder.write(source.task.submission[split], "index\tprediction\n" + "".join(lines))


def _make_task(
    settings: ClassifierSettings,
    source: Source,
    pack: Pack | None,
    strategy: tf.distribute.Strategy,
) -> Task:
    if pack and pack.labels and tuple(pack.labels) != tuple(source.labels):
        ours = some(source.labels)
        raise UserError(f"{settings.pack}: has the labels {some(pack.labels)}; the task has {ours}")
    model = make_model(settings, HEADS[source.kind.kind], source.labels, strategy)
    pair = source.task.pair is not None
    return Task(
        model,
        name=source.task.name,
        labels=source.labels,
        inputs={"max_seq_length": settings.max_seq_length, "pair": pair},
    )


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
        self._notes_shown = 0

    def all_batches(self, kind: str, batch_size: int) -> dict[str, Batches]:
        """Returns all splits of a kind, by name."""
        names = split_names(self._settings, self._source, kind)
        return {name: self.batches(name, batch_size) for name in names}

    def batches(self, split: str, batch_size: int) -> Batches:
        """Returns a split, tokenised and checked."""
        path, kind = self._records(split), self._task.head
        columns = read_records(path, kind.label_type)
        check_rows(path, columns[IDS], self._settings.max_seq_length, self._task.model.encoder.base)
        if split.startswith(TEST):
            columns.pop(LABELS, None)
        elif LABELS not in columns:
            raise UserError(f"{path}: has no labels")
        classes = len(self._source.labels)
        whole = classes and LABELS in columns and not kind.label_type.is_floating
        if whole and int(tf.reduce_max(columns[LABELS])) >= classes:
            raise UserError(f"{path}: has labels beyond the {classes} classes")
        lengths = padded_lengths(self._settings, self._on_tpu)
        return Batches(columns, batch_size, lengths, fixed_rows=self._on_tpu)

    def _records(self, split: str) -> str:
        if isinstance(self._source, RecordFiles):
            return self._source.files[split]
        examples = self._source.read(split)
        notes = self._source.notes[self._notes_shown :]
        self._notes_shown += len(notes)
        for note in notes:
            print(f"data     {note}")
        return cached_records(
            examples,
            self._task.tokenizer,
            self._settings.max_seq_length,
            self._settings.cache_dir,
            title=f"{self._source.task.name} {split}",
        )
