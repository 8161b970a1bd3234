"""What a task's file says, before tokenisation."""

import dataclasses
import math
import os
import tarfile
from collections.abc import Sequence

import numpy as np
from absl import logging

from adapter_bert_tf.data.tables import Row, read_rows
from adapter_bert_tf.data.task import ALL, CLASSIFICATION, DEV, TEST, TRAIN, Split, Task
from adapter_bert_tf.errors import UserError, first_line, some


@dataclasses.dataclass(frozen=True)
class Examples:
    """The rows of one split, as columns.

    Args:
      texts: The texts.
      pairs: The second texts, for tasks with pairs.
      labels: Class numbers, or values for a regression; None where the file has no labels.
    """

    texts: list[str]
    pairs: list[str] | None
    labels: list[float] | None

    def __len__(self) -> int:
        return len(self.texts)


_SPLIT_SEED = 20190613
_SHARES = (0.8, 0.1)


def read_split(task: Task, data_dir: str, name: str) -> Examples:
    """Reads one split of a task from its original files."""
    if ALL in task.splits:
        return _part(read_file(task, data_dir, ALL), task, name)
    return read_file(task, data_dir, name)


def labels_of(task: Task, data_dir: str) -> tuple[str, ...]:
    """The names of the classes: the task's, or those in its file, sorted."""
    if task.labels or task.kind != CLASSIFICATION:
        return task.labels
    split = task.splits[ALL]
    path = find_file(task, split, data_dir)
    rows = _rows(path, split)
    found = {_label(task, row[split.label or ""]) for _, row in rows} - set(task.dropped)
    if len(found) != task.classes:
        raise UserError(
            f"{path}: {len(found)} classes in column {split.label}, expected {task.classes}"
        )
    return tuple(sorted(found))


def find_file(task: Task, split: Split, data_dir: str) -> str:
    """Returns the path of a split's file, in `data_dir` or in its folder for the task."""
    folders = (data_dir, os.path.join(data_dir, task.name))
    for folder in folders:
        for name in split.files:
            if os.path.exists(os.path.join(folder, name)):
                return os.path.join(folder, name)
    raise UserError(f"{data_dir}: expected {' or '.join(split.files)} for {task.name}")


def read_file(task: Task, data_dir: str, name: str) -> Examples:
    """Reads a file of a task, whole."""
    split = task.splits[name]
    path = find_file(task, split, data_dir)
    labels = labels_of(task, data_dir)
    return to_examples(
        path,
        _rows(path, split),
        text=task.text,
        pair=task.pair,
        label=split.label,
        task=task,
        labels=labels,
    )


def to_examples(
    path: str,
    rows: Sequence[tuple[int, Row]],
    *,
    text: str,
    pair: str | None,
    label: str | None,
    task: Task,
    labels: tuple[str, ...],
) -> Examples:
    """Picks the columns of a table, and turns labels into numbers."""
    if not rows:
        raise UserError(f"{path}: no examples in it")
    for column in (text, pair, label):
        if column is not None and column not in rows[0][1]:
            raise UserError(f"{path}: no column {column!r}; the columns are {some(rows[0][1], 20)}")
    if label is not None:
        rows = [row for row in rows if row[1].get(label) not in task.dropped]
    if task.sizes:
        # The paper's sizes count texts: most customer complaints have none.
        rows = [row for row in rows if row[1][text].strip()]
    if not rows:
        raise UserError(f"{path}: no examples in it")
    return Examples(
        texts=[cell(path, *row, text, may_be_empty=True) for row in rows],
        pairs=None if pair is None else [cell(path, *row, pair, may_be_empty=True) for row in rows],
        labels=None if label is None else _numbers(path, rows, label, task, labels),
    )


def cell(path: str, line: int, row: Row, column: str, may_be_empty: bool = False) -> str:
    """Returns a cell that a row must have."""
    value = row.get(column)
    if value is None or not (value or may_be_empty):
        raise UserError(f"{path}:{line}: {column!r} is missing")
    return value


def _numbers(path, rows, column: str, task: Task, labels: tuple[str, ...]) -> list[float]:
    numbers: list[float] = []
    known = {label: number for number, label in enumerate(labels)}
    for line, row in rows:
        value = _label(task, cell(path, line, row, column))
        if task.kind == CLASSIFICATION:
            if value not in known:
                raise UserError(
                    f"{path}:{line}: unknown label {value!r}; known are {some(labels, 20)}"
                )
            numbers.append(known[value])
        else:
            try:
                number = float(value)
            except ValueError:
                number = math.nan
            if not math.isfinite(number):
                raise UserError(f"{path}:{line}: expected a number, not {value!r}")
            numbers.append(number)
    return numbers


def _label(task: Task, value: str) -> str:
    return task.aliases.get(value, value)


def _rows(path: str, split: Split) -> list[tuple[int, Row]]:
    if split.layout.kind == "folders":
        return _folder_rows(path, split.layout.encoding)
    rows, short = read_rows(path, split.layout)
    if short:
        logging.warning("%s: %d lines with missing columns were left out", path, short)
    return rows


def _folder_rows(path: str, encoding: str) -> list[tuple[int, Row]]:
    """Reads an archive with a folder a class and a file an example."""
    rows = []
    try:
        with tarfile.open(path) as archive:
            for number, member in enumerate(archive, start=1):
                content = archive.extractfile(member)
                if content is not None:
                    label = os.path.basename(os.path.dirname(member.name))
                    rows.append((number, {"label": label, "text": content.read().decode(encoding)}))
    except (OSError, tarfile.TarError, EOFError) as error:
        raise UserError(f"{path}: not a readable archive: {first_line(error)}") from None
    return rows


def _part(examples: Examples, task: Task, name: str) -> Examples:
    """The rows of one split of a single file: the paper's sizes, where the file is whole."""
    total = len(examples)
    if task.sizes and sum(task.sizes) == total:
        train, dev, _ = task.sizes
    else:
        train, dev = (int(share * total) for share in _SHARES)
    order = np.random.RandomState(_SPLIT_SEED).permutation(total)
    rows = {
        TRAIN: order[:train],
        DEV: order[train : train + dev],
        TEST: order[train + dev :],
    }[name]
    if not len(rows):
        raise UserError(f"{task.name}: {total} examples are too few for a {name} set")
    return Examples(
        texts=[examples.texts[row] for row in rows],
        pairs=None if examples.pairs is None else [examples.pairs[row] for row in rows],
        labels=None if examples.labels is None else [examples.labels[row] for row in rows],
    )
