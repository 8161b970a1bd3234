"""Examples: what the rows of a table say, before they are tokenised."""

import dataclasses
import functools
import os
import tarfile
import zlib
from collections.abc import Mapping, Sequence

import numpy as np

from adapter_bert_tf.data.labels import Label, LabelColumns, LabelForm
from adapter_bert_tf.data.tables import FOLDERS, Row, Table, find_column, read_table
from adapter_bert_tf.data.task import ALL, DEV, TEST, TRAIN, Split, TaskDefinition
from adapter_bert_tf.errors import UserError, first_line
from adapter_bert_tf.files import MOST_OF_DATA, exists, open_bytes, refuse_special

TableRows = Sequence[tuple[int, Row]]
LabelForms = Mapping[str, LabelForm]

_SPLIT_SEED = 20190613
_SHARES = (0.8, 0.1)


@dataclasses.dataclass(frozen=True)
class Examples:
    """The rows of one split, as columns.

    Attributes:
      texts: The texts.
      pairs: The second texts, for tasks with pairs.
      labels: The labels as numbers; None where there are none.
    """

    texts: list[str]
    pairs: list[str] | None
    labels: Sequence[Label] | None

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, rows: Sequence[int]) -> "Examples":
        """Returns some of the rows."""
        pairs, labels = self.pairs, self.labels
        return Examples(
            texts=[self.texts[row] for row in rows],
            pairs=None if pairs is None else [pairs[row] for row in rows],
            labels=None if labels is None else [labels[row] for row in rows],
        )


def find_columns(
    path: str,
    rows: TableRows,
    names: Sequence[str],
    aliases: Mapping[str, str] | None = None,
    separator: str | None = None,
) -> LabelColumns:
    """Returns the label columns of some rows.

    Args:
      path: The file, for messages.
      rows: The rows.
      names: Names of the columns.
      aliases: What the file writes for a label -> the label's name.
      separator: What separates the labels in a cell.
    """
    aliases = aliases or {}
    cells = []
    # Where there may be several labels, there may also be none.
    several = separator is not None or len(names) > 1
    for line, row in rows:
        values = [row.get(name, "") if several else cell(path, line, row, name) for name in names]
        cells.append(tuple(aliases.get(value, value) for value in values))
    return LabelColumns(path, tuple(names), cells, separator)


def to_examples(
    path: str,
    rows: TableRows,
    text: str,
    pair: str | None,
    columns: LabelColumns | None,
    form: LabelForm,
    labels: Sequence[str],
) -> Examples:
    """Picks the columns of a table, and turns labels into numbers.

    Args:
      path: The file, for messages.
      rows: The rows.
      text: Column of the text.
      pair: Column of the second text, if there is one.
      columns: The label columns of these rows, or None without labels.
      form: How its labels stand in files.
      labels: Names of the classes.
    """
    numbers: list[Label] | None = None if columns is None else []
    if columns is not None and numbers is not None:
        for (line, _), cells in zip(rows, columns.cells, strict=True):
            try:
                numbers.append(form.read_label(cells, labels, columns))
            except ValueError as error:
                raise UserError(f"{path}:{line}: {error}") from None
    return Examples(
        texts=[cell(path, *row, text, may_be_empty=True) for row in rows],
        pairs=None if pair is None else [cell(path, *row, pair, may_be_empty=True) for row in rows],
        labels=numbers,
    )


def cell(path: str, line: int, row: Row, column: str, may_be_empty: bool = False) -> str:
    """Returns a cell that a row must have."""
    value = row.get(column)
    if value is None or not (value or may_be_empty):
        raise UserError(f"{path}:{line}: {column!r} is missing")
    return value


class TaskFiles:
    """The original files of a task.

    Args:
      task: The task.
      data_dir: Folder with the files, or with a folder of the task's name that has them.
      forms: How labels stand in files, by the kind of task.

    Attributes:
      notes: What there is to say about how the files were read.
    """

    def __init__(self, task: TaskDefinition, data_dir: str, forms: LabelForms):
        self.task = task
        self.notes: list[str] = []
        self._data_dir, self._forms = data_dir, forms

    @property
    def kind(self) -> str:
        """The task's kind."""
        return self.task.kind

    @functools.cached_property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes: the task's, or those in its file, sorted."""
        task = self.task
        if task.labels or not task.classes:
            return task.labels
        file = self._open(task.splits[ALL])
        found = {cells[0] for cells in self._label_columns(file).cells}
        if len(found) != task.classes:
            raise UserError(
                f"{file.path}: {len(found)} classes in column {file.label}, expected {task.classes}"
            )
        return tuple(sorted(found))

    def check(self, name: str) -> None:
        """Refuses a split whose file is not there, or has other columns."""
        self._open(self.task.splits[self._stored_as(name)])

    def read(self, name: str) -> Examples:
        """Reads one split."""
        stored, task = self._stored_as(name), self.task
        file = self._open(task.splits[stored])
        columns = None if file.label is None else self._label_columns(file)
        form = self._forms[self.kind]
        examples = to_examples(
            file.path, file.rows, file.text, file.pair, columns, form, self.labels
        )
        return _part(examples, task, name) if stored == ALL else examples

    def _stored_as(self, name: str) -> str:
        """Returns which file has a split: a task may be published whole, split, or both."""
        task = self.task
        if ALL not in task.splits:
            return name
        is_split = name in task.splits and not self._find(task.splits[ALL])
        return name if is_split and self._find(task.splits[name]) else ALL

    def _label_columns(self, file: "_File") -> LabelColumns:
        return find_columns(file.path, file.rows, [file.label or ""], self.task.aliases)

    @functools.cache  # noqa: B019 - files are read twice, and there are few of these objects.
    def _open(self, split: Split) -> "_File":
        """Reads a split's file, without the rows that the task leaves out."""
        task, path = self.task, self._find(split)
        if path is None:
            names = " or ".join(split.files)
            raise UserError(f"{self._data_dir}: expected {names} for {task.name}")
        table = _read(path, split)
        self.notes += [f"{path}: {note}" for note in table.notes]

        def column(wanted: str | None) -> str | None:
            return None if wanted is None else find_column(path, table.columns, wanted)

        text, label = find_column(path, table.columns, task.text), column(split.label)
        rows = table.rows
        if label is not None:
            rows = [row for row in rows if row[1].get(label) not in task.dropped]
        if task.sizes:
            # The paper's sizes count texts: most customer complaints have none.
            rows = [row for row in rows if row[1][text].strip()]
        if not rows:
            raise UserError(f"{path}: no examples in it")
        return _File(path, rows, text, column(task.pair), label)

    def _find(self, split: Split) -> str | None:
        for folder in (self._data_dir, os.path.join(self._data_dir, self.task.name)):
            for name in split.files:
                if exists(os.path.join(folder, name)):
                    return os.path.join(folder, name)
        return None


@dataclasses.dataclass(frozen=True)
class _File:
    """A file of a task: its rows, and the columns that the task uses."""

    path: str
    rows: TableRows
    text: str
    pair: str | None
    label: str | None


def _read(path: str, split: Split) -> Table:
    if split.layout.kind == FOLDERS:
        return _read_folders(path, split.layout.encoding or "utf-8")
    return read_table(path, split.layout)


def _read_folders(path: str, encoding: str) -> Table:
    """Reads an archive with a folder for each class and a file for each example."""
    rows: list[tuple[int, Row]] = []
    room = MOST_OF_DATA
    refuse_special(path)
    try:
        with open_bytes(path) as file, tarfile.open(fileobj=file) as archive:
            for number, member in enumerate(archive, start=1):
                room -= member.size
                if room < 0:
                    raise UserError(f"{path}: holds more than {MOST_OF_DATA:,} bytes")
                content = archive.extractfile(member)
                if content is not None:
                    label = os.path.basename(os.path.dirname(member.name))
                    rows.append((number, {"label": label, "text": content.read().decode(encoding)}))
    except (OSError, tarfile.TarError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not a readable archive: {first_line(error)}") from None
    return Table(("label", "text"), rows)


def _part(examples: Examples, task: TaskDefinition, name: str) -> Examples:
    """Returns one split of a single file: in the paper's sizes, if the file is complete."""
    total = len(examples)
    if task.sizes and sum(task.sizes) == total:
        train, dev, _ = task.sizes
    else:
        train, dev = (int(share * total) for share in _SHARES)
    order = np.random.RandomState(_SPLIT_SEED).permutation(total)
    parts = {TRAIN: order[:train], DEV: order[train : train + dev], TEST: order[train + dev :]}
    if not len(parts[name]):
        raise UserError(f"{task.name}: {total} examples are too few for a {name} set")
    return examples.take(parts[name].tolist())
