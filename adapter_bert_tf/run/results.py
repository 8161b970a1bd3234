"""What a classifier run says: before training, about its scores, and about its predictions."""

import csv
import io
from collections.abc import Iterator, Mapping

import numpy as np
import tensorflow as tf

from adapter_bert_tf.data.batches import Batches
from adapter_bert_tf.data.records import LABELS
from adapter_bert_tf.data.sources import OwnFiles, RecordFiles, Source
from adapter_bert_tf.data.task import TEST
from adapter_bert_tf.run.folder import RunFolder
from adapter_bert_tf.run.settings import ClassifierSettings
from adapter_bert_tf.task import Task
from adapter_bert_tf.text.inputs import IDS
from adapter_bert_tf.tuning.outputs import compute_outputs

# The range of STS-B's scores.
_LOWEST, _HIGHEST = 0.0, 5.0
# A larger table of classes is written, but not printed.
_PRINTED_CLASSES = 12
_CONFUSION = "confusion.csv"


class Scorer:
    """Scores a task on its dev sets.

    Args:
      task: The task.
      metrics: Names of the task's metrics; without any, the usual ones of its kind.
      sets: The dev sets by name.
      folder: The run's folder.
      first: The metric that is asked to decide which epoch is the best.
    """

    def __init__(
        self,
        task: Task,
        metrics: tuple[str, ...],
        sets: Mapping[str, Batches],
        folder: RunFolder,
        first: str | None = None,
    ):
        self._task, self._sets, self._folder = task, sets, folder
        metrics = task.head.choose_metrics(metrics, first)
        # Accuracy alone says little where classes are of different sizes.
        more = ("macro_f1",) if "accuracy" in metrics and "macro_f1" not in metrics else ()
        self._metrics = (*metrics, *more)
        self._confusion: np.ndarray | None = None

    @property
    def metric(self) -> str | None:
        """The metric that decides which epoch is the best; None without a dev set."""
        if not self._sets:
            return None
        first = next(iter(self._sets))
        return f"{first}_{self._metrics[0]}" if len(self._sets) > 1 else self._metrics[0]

    def evaluate(self) -> Iterator[tuple[str, float]]:
        """Yields the metrics of all sets; with several sets, their names stand in front."""
        for number, (split, batches) in enumerate(self._sets.items()):
            prefix = f"{split}_" if len(self._sets) > 1 else ""
            outputs = compute_outputs(self._task.model, batches)
            labels = batches.columns[LABELS].numpy()
            for name, value in self._task.head.evaluate(self._metrics, labels, outputs):
                yield f"{prefix}{name}", value
            if number == 0 and self._task.head.is_exclusive:
                self._count(labels, np.argmax(outputs, axis=-1))

    def _count(self, labels: np.ndarray, predicted: np.ndarray) -> None:
        names = self._task.labels
        self._confusion = np.zeros([len(names), len(names)], np.int64)
        np.add.at(self._confusion, (labels, predicted), 1)
        if len(labels) > 1 and len(set(predicted.tolist())) == 1:
            print(f"warning: all {len(labels):,} rows are predicted as {names[predicted[0]]}")

    def write(self) -> None:
        """Writes how often each class was predicted for each class."""
        if self._confusion is not None:
            rows = [
                [name, *row] for name, row in zip(self._task.labels, self._confusion, strict=True)
            ]
            self._folder.write(_CONFUSION, _to_csv([["label", *self._task.labels], *rows]))

    def print_confusion(self) -> None:
        """Prints the table, if there are not too many classes."""
        if self._confusion is None or len(self._task.labels) > _PRINTED_CLASSES:
            return
        names = self._task.labels
        width = max(9, *(len(name) + 1 for name in names))
        print("predicted" + "".join(f"{name:>{width}}" for name in names))
        for name, row in zip(names, self._confusion, strict=True):
            print(f"{name:9.{width}}" + "".join(f"{count:>{width},}" for count in row))


def describe(
    settings: ClassifierSettings,
    source: Source,
    task: Task,
    batches: Batches,
    dev: Mapping[str, Batches],
) -> tuple[str, ...]:
    """Returns lines about the data: columns, classes, dev set, lengths, how files were read."""
    lines = []
    if isinstance(source, OwnFiles):
        columns = {"text": source.text, "pair": source.pair, "label": ",".join(source.label)}
        taken = ", ".join(f"{use} from {name}" for use, name in columns.items() if name)
        lines.append(f"columns  {taken}")
    if task.head.is_exclusive:
        counts = np.bincount(batches.columns[LABELS].numpy(), minlength=len(task.labels))
        shown = [f"{name} {n:,}" for name, n in zip(task.labels, counts, strict=True)]
        more = (
            f", and {len(shown) - _PRINTED_CLASSES} more" if len(shown) > _PRINTED_CLASSES else ""
        )
        lines.append(f"classes  {', '.join(shown[:_PRINTED_CLASSES])}{more}")
    for name, each in dev.items():
        drawn = isinstance(source, OwnFiles) and name not in settings.own_files
        origin = ", a tenth of the training rows" if drawn else ""
        lines.append(f"{name[:8]:9}{each.rows:,} examples{origin}")
    sizes = batches.columns[IDS].row_lengths().numpy()
    cut = int((sizes == settings.max_seq_length).sum())
    full = f"; {cut:,} rows fill all {settings.max_seq_length}" if cut else ""
    lines.append(f"tokens   {sizes.mean():.1f} in a row on average, {sizes.max()} at most{full}")
    return (*lines, *(f"note     {note}" for note in source.notes))


def write_predictions(
    task: Task, source: Source, split: str, batches: Batches, folder: RunFolder
) -> None:
    """Writes `test_results.tsv` as the original does, `predictions.csv`, and the file for GLUE."""
    outputs = compute_outputs(task.model, batches)
    suffix = split.removeprefix(TEST)
    values = task.head.activate(tf.constant(outputs.reshape(len(outputs), -1))).numpy()
    lines = ["\t".join(str(value) for value in row) + "\n" for row in values]
    folder.write(f"test_results{suffix}.tsv", "".join(lines))
    answers = task.to_answers(outputs)
    columns: dict[str, list] = {"id": list(range(len(outputs)))}
    if not isinstance(source, RecordFiles):
        examples = source.read(split)
        columns |= {"text": examples.texts}
        columns |= {"text_pair": examples.pairs} if examples.pairs is not None else {}
    columns |= task.head.table(answers, task.labels)
    rows = zip(*columns.values(), strict=True)
    folder.write(f"predictions{suffix}.csv", _to_csv([list(columns), *map(list, rows)]))
    if split in source.task.submission:
        _write_submission(answers, source.task.submission[split], folder)


def _write_submission(answers: Mapping[str, np.ndarray], name: str, folder: RunFolder) -> None:
    if "label" in answers:
        found = [label.decode() for label in answers["label"]]
    else:
        found = [f"{value:.3f}" for value in np.clip(answers["value"], _LOWEST, _HIGHEST)]
    lines = [f"{row}\t{prediction}\n" for row, prediction in enumerate(found)]
    folder.write(name, "index\tprediction\n" + "".join(lines))


def _to_csv(rows: list[list]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
