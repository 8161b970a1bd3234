"""Where a task's examples come from."""

import difflib
import functools
import os
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from adapter_bert_tf.data.additional import ADDITIONAL
from adapter_bert_tf.data.download import load_tfds
from adapter_bert_tf.data.examples import (
    Examples,
    LabelForms,
    TableRows,
    TaskFiles,
    find_columns,
    to_examples,
)
from adapter_bert_tf.data.glue import GLUE
from adapter_bert_tf.data.tables import Table, find_column, layout_of, read_table
from adapter_bert_tf.data.task import DEV, TEST, TRAIN, TaskDefinition
from adapter_bert_tf.errors import UserError, some
from adapter_bert_tf.files import exists, is_folder


class Source(Protocol):
    """A task with its examples at hand."""

    notes: list[str]

    @property
    def task(self) -> TaskDefinition:
        """The task."""

    @property
    def kind(self) -> str:
        """Its kind."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes."""

    def check(self, split: str) -> None:
        """Refuses a split that can't be read, without loading TensorFlow."""

    def read(self, split: str) -> Examples:
        """Returns the examples of a split."""


def task_key(name: str) -> str:
    """`SST-2`, `sst2` and `sst_2` are one name."""
    return "".join(character for character in name.lower() if character.isalnum())


TASKS: dict[str, TaskDefinition] = {task_key(task.name): task for task in (*GLUE, *ADDITIONAL)}


def find_task(name: str) -> TaskDefinition:
    """Returns the task called `name`, in any spelling, or suggests similar names."""
    if task_key(name) in TASKS:
        return TASKS[task_key(name)]
    near = [TASKS[key].name for key in difflib.get_close_matches(task_key(name), TASKS, n=3)]
    names = near or [task.name for task in TASKS.values()]
    hint = "did you mean" if near else "known are"
    raise UserError(f"--task={name}: no such task; {hint} {', '.join(names)}")


class OriginalFiles(TaskFiles):
    """A task in the files that its authors publish."""

    def __init__(self, task: TaskDefinition, data_dir: str, forms: LabelForms):
        if not is_folder(data_dir):
            raise UserError(f"--data_dir={data_dir}: no such folder")
        super().__init__(task, data_dir, forms)


class Tfds:
    """A task that TFDS downloads on first use."""

    def __init__(self, task: TaskDefinition):
        if task.tfds is None:
            files = {name for split in task.splits.values() for name in split.files}
            raise UserError(
                f"--data_dir: {task.name} is not in TFDS; give the folder with {some(files)}"
            )
        self.task = task
        self.labels = task.labels
        self.notes: list[str] = []
        self._tfds = task.tfds

    @property
    def kind(self) -> str:
        """The task's kind."""
        return self.task.kind

    def check(self, split: str) -> None:
        """Does nothing: TFDS has all splits, or none."""

    def read(self, split: str) -> Examples:
        """Returns the examples of a split."""
        files = some({file for each in self.task.splits.values() for file in each.files})
        instead = f"give --data_dir, a folder with {files}"
        data = load_tfds(self._tfds.name, self._tfds.splits[split], instead)
        rows = list(data.batch(1024).as_numpy_iterator())
        # TFDS keeps rows in the order of a hash; GLUE numbers the test rows as in its files.
        order = np.argsort(np.concatenate([batch["idx"] for batch in rows]), kind="stable")

        def column(name: str) -> list:
            return np.concatenate([batch[name] for batch in rows])[order].tolist()

        labels: list | None = column("label")
        if split.startswith(TEST):
            labels = None  # TFDS has -1 there.
        elif self.labels:
            numbers = [self.labels.index(label) for label in self._tfds.labels]
            labels = [numbers[label] for label in column("label")]
        pair = self._tfds.pair
        return Examples(
            texts=[text.decode() for text in column(self._tfds.text)],
            pairs=None if pair is None else [text.decode() for text in column(pair)],
            labels=labels,
        )


class RecordFiles:
    """TFRecord files as the original program writes them: tokenised already, classes only.

    Args:
      files: Split -> path.
      labels: Names of the classes, if they are known. By default they are numbers.
      name: Name of the task.
    """

    def __init__(
        self,
        files: Mapping[str, str],
        labels: tuple[str, ...] | None = None,
        name: str | None = None,
    ):
        self.files, self._labels = files, labels
        self._name = name or "records"
        self.notes: list[str] = []

    @functools.cached_property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes."""
        if self._labels is not None:
            return self._labels
        # Imported here, because it needs TensorFlow.
        from adapter_bert_tf.data.records import count_classes

        return tuple(
            str(number) for number in range(count_classes(next(iter(self.files.values()))))
        )

    @functools.cached_property
    def task(self) -> TaskDefinition:
        """The task."""
        return TaskDefinition(name=self._name, text="", labels=self.labels)

    @property
    def kind(self) -> str:
        """The task's kind."""
        return self.task.kind

    def check(self, split: str) -> None:
        """Refuses a file that is not there."""
        if not exists(self.files[split]):
            raise UserError(f"{self.files[split]}: no such file")

    def read(self, split: str) -> Examples:
        """Refuses: there is no text in them."""
        raise UserError(f"{self.files[split]}: TFRecords have no text")


_TEXT_NAMES = ("text", "sentence", "sentence1", "question", "question1", "premise", "content")
_PAIR_NAMES = ("text_pair", "sentence2", "question2", "hypothesis")
# A dev set that is drawn from the training rows has one in so many.
_SPLIT = 10
_LABEL_NAMES = ("label", "labels", "class", "category", "target", "score")


class OwnFiles:
    """Your own tables, with a header. Columns that are not named are guessed from the header.

    Nothing but the columns is looked at before the kind of task, its labels or its examples are
    asked for.

    Args:
      tables: Split -> path, or table.
      forms: How labels stand in files, by the kind of task. The first kind that recognizes the
        labels is taken.
      name: Name of the task, by default that of the first file.
      text_column: Column of the text.
      pair_column: Column of the second text.
      label_columns: Columns of the labels; several for kinds of tasks that have it so.
      separator: What separates several labels in a cell.
      skip_unlabelled: Whether rows without a label are left out; otherwise they are an error.
      encoding: Encoding of the files, by default what they look like.
      delimiter: What separates columns, by default what the files look like.
      kind: Name of the kind, if it is not to be recognized.
      labels: Names of the classes, if they are known, as from a task pack.
      split_seed: If there is no dev table, a tenth of the training rows becomes one, drawn with
        this seed. None for no such dev set.

    Attributes:
      text: Column of the text.
      pair: Column of the second text, or None.
      label: Columns of the labels.
      notes: What there is to say about how the files were read.
    """

    def __init__(
        self,
        tables: Mapping[str, str | Table],
        forms: LabelForms,
        *,
        name: str | None = None,
        text_column: str | None = None,
        pair_column: str | None = None,
        label_columns: Sequence[str] | None = None,
        separator: str | None = None,
        skip_unlabelled: bool = False,
        encoding: str | None = None,
        delimiter: str | None = None,
        kind: str | None = None,
        labels: tuple[str, ...] | None = None,
        split_seed: int | None = None,
    ):
        self._tables, self._forms, self._separator = tables, forms, separator
        self._kind_name, self._labels = kind, labels
        self._skip_unlabelled, self._split_seed = skip_unlabelled, split_seed
        self._layout = {"encoding": encoding, "delimiter": delimiter}
        self.notes: list[str] = []
        self._first = next(iter(tables))
        path, table = self._open(self._first)
        header = table.columns
        text = _pick("text_column", text_column, _TEXT_NAMES, header, path)
        if text is None:
            raise UserError(
                f"{path}: which column is the text? Name it with --text_column: {some(header, 20)}"
            )
        self.text = text
        self.pair = _pick("text_pair_column", pair_column, _PAIR_NAMES, header, path)
        given: Sequence[str | None] = label_columns or [None]
        picked = [_pick("label_column", each, _LABEL_NAMES, header, path) for each in given]
        self.label = [each for each in picked if each is not None]
        self._name = name or os.path.splitext(os.path.basename(path))[0]
        if not self.label and (kind is None or labels is None):
            raise UserError(f"{path}: no column of labels; name it with --label_column")

    @functools.cached_property
    def _found(self) -> tuple[str, tuple[str, ...]]:
        """The kind of task, and the names of its classes."""
        kind, labels = self._kind_name, self._labels
        if kind is not None and labels is not None:
            return kind, labels
        path, rows = self._labelled(self._first)
        columns = find_columns(path, rows, self.label, separator=self._separator)
        if kind is None:
            forms = self._forms.items()
            kind = next((name for name, form in forms if form.recognizes(columns)), None)
        if kind is None:
            raise UserError(f"{path}: no kind of task has labels like {', '.join(self.label)}")
        return kind, self._forms[kind].labels_in(columns) if labels is None else labels

    @property
    def kind(self) -> str:
        """The kind of task."""
        return self._found[0]

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes."""
        return self._found[1]

    @functools.cached_property
    def task(self) -> TaskDefinition:
        """The task."""
        return TaskDefinition(self._name, self.text, self.pair, self.labels, metrics=())

    @property
    def splits(self) -> list[str]:
        """The splits that there are."""
        drawn = self._split_seed is not None and TRAIN in self._tables and DEV not in self._tables
        return [*self._tables, *([DEV] if drawn else [])]

    def check(self, split: str) -> None:
        """Refuses a file that can't be read, lacks a column, or has wrong labels."""
        self.read(split)

    def _check_columns(self, split: str) -> None:
        path, table = self._open(split)
        if split != TEST and not self.label:
            raise UserError(f"{path}: no column of labels; name it with --label_column")
        for column in (self.text, self.pair, *(self.label if split != TEST else ())):
            if column is not None:
                find_column(path, table.columns, column)

    def read(self, split: str) -> Examples:
        """Returns the examples of a split."""
        self._check_columns(split)
        path, rows = self._labelled(split)
        columns = None
        if split != TEST:
            columns = find_columns(path, rows, self.label, separator=self._separator)
        form = self._forms[self.kind]
        examples = to_examples(path, rows, self.text, self.pair, columns, form, self.labels)
        if split == TEST or (split in self._tables and DEV not in self.splits):
            return examples
        return examples if DEV in self._tables else self._part(examples, split, path)

    def _part(self, examples: Examples, split: str, path: str) -> Examples:
        """Returns the training rows without those of the dev set, or those."""
        total = len(examples)
        if total < _SPLIT:
            raise UserError(f"{path}: {total} rows are too few to split; give --dev_file")
        order = np.random.default_rng(self._split_seed).permutation(total).tolist()
        drawn = total // _SPLIT
        if split == DEV:
            self._note(f"{path}: {drawn:,} of {total:,} rows, drawn with the seed, are the dev set")
        return examples.take(sorted(order[:drawn] if split == DEV else order[drawn:]))

    def _labelled(self, split: str) -> tuple[str, TableRows]:
        """Returns the rows of a split, without those that have no label if that is asked for."""
        path, table = self._open(split)
        if split == TEST or not self._skip_unlabelled:
            return path, table.rows
        rows = [row for row in table.rows if any(row[1].get(name) for name in self.label)]
        left_out = len(table.rows) - len(rows)
        if left_out:
            self._note(f"{path}: left out {left_out:,} rows without a label")
        if not rows:
            raise UserError(f"{path}: no row has a label")
        return path, rows

    def _note(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)

    def _open(self, split: str) -> tuple[str, Table]:
        return self._read(split if split in self._tables else TRAIN)

    @functools.cache  # noqa: B019 - files are read twice, and there are few of these objects.
    def _read(self, split: str) -> tuple[str, Table]:
        table = self._tables[split]
        if not isinstance(table, str):
            return split, table
        read = read_table(table, layout_of(table, **self._layout))
        for note in read.notes:
            self._note(f"{table}: {note}")
        return table, read


def _pick(
    flag: str, given: str | None, names: tuple[str, ...], header: Sequence[str], path: str
) -> str | None:
    """Returns the column that was given, or the first of the usual names in the header."""
    if given is not None and given not in header:
        raise UserError(
            f"--{flag}={given}: no such column in {path}; its columns are {some(header, 20)}"
        )
    return given or next((name for name in names if name in header), None)
