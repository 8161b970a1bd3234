"""The forms that labels have in files. Nothing here needs TensorFlow.

A form is named with each kind of task in `heads/kinds.py`, so that wrong labels are reported before
TensorFlow is loaded.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Protocol

from adapter_bert_tf.errors import UserError, some

# The number of a class, a value, or a number for each of several labels.
Label = int | float | Sequence[float]

# So that damaged files do not ask for all of the memory.
MOST_CLASSES = 100_000

# What people write in a column for a label that is there, and for one that is not.
_YES, _NO = ("1", "1.0", "true", "yes", "y", "x"), ("0", "0.0", "false", "no", "n", "")


@dataclasses.dataclass(frozen=True)
class LabelColumns:
    """The columns of a table that hold labels.

    Attributes:
      path: The file, for messages.
      names: Names of the columns: one, or several for a task with several labels.
      cells: The cells of each row in these columns.
      separator: What separates the labels in a cell.
    """

    path: str
    names: tuple[str, ...]
    cells: list[tuple[str, ...]]
    separator: str | None = None

    @staticmethod
    def numbers(labels: Sequence[str]) -> Mapping[str, int]:
        """Returns the number of each label."""
        return _numbers(tuple(labels))


@functools.lru_cache
def _numbers(labels: tuple[str, ...]) -> Mapping[str, int]:
    return {label: number for number, label in enumerate(labels)}


class LabelForm(Protocol):
    """How labels stand in files."""

    def recognizes(self, columns: LabelColumns) -> bool:
        """Whether the labels of your own file look like this."""

    def labels_in(self, columns: LabelColumns) -> tuple[str, ...]:
        """Returns the names of the classes in the label columns of your own file."""

    def read_label(
        self, cells: tuple[str, ...], labels: Sequence[str], columns: LabelColumns
    ) -> Label:
        """Turns the label cells of a row into numbers; raises a ValueError that says what is wrong.

        Args:
          cells: The row's cells in the label columns.
          labels: Names of the classes.
          columns: The label columns.
        """


class OneLabel(LabelForm):
    """Each row has one class."""

    def recognizes(self, columns: LabelColumns) -> bool:
        return len(columns.names) == 1

    def labels_in(self, columns: LabelColumns) -> tuple[str, ...]:
        if len(columns.names) > 1:
            raise UserError(f"{columns.path}: a class stands in one column, not in {columns.names}")
        labels = {cells[0] for cells in columns.cells}
        if len(labels) < 2:
            raise UserError(
                f"{columns.path}: column {columns.names[0]!r} has a single value; expected classes"
            )
        return tuple(sorted(labels))

    def read_label(
        self, cells: tuple[str, ...], labels: Sequence[str], columns: LabelColumns
    ) -> Label:
        try:
            return columns.numbers(labels)[cells[0]]
        except KeyError:
            raise ValueError(f"unknown label {cells[0]!r}; known are {some(labels, 20)}") from None


class SeveralLabels(LabelForm):
    """Each row has any number of labels: in one cell, or in a column for each label."""

    def recognizes(self, columns: LabelColumns) -> bool:
        return columns.separator is not None or len(columns.names) > 1

    def labels_in(self, columns: LabelColumns) -> tuple[str, ...]:
        if columns.separator is None:
            if len(columns.names) < 2:
                raise UserError(
                    f"{columns.path}: several labels need --label_separator, or a column for each"
                )
            return columns.names
        labels = {label for (cell,) in columns.cells for label in _split(cell, columns.separator)}
        if not labels:
            raise UserError(f"{columns.path}: column {columns.names[0]!r} has no labels")
        return tuple(sorted(labels))

    def read_label(
        self, cells: tuple[str, ...], labels: Sequence[str], columns: LabelColumns
    ) -> Label:
        if columns.separator is None:
            if set(columns.names) != set(labels):
                raise ValueError(f"label columns {columns.names}; expected {some(labels, 20)}")
            found = dict(zip(columns.names, cells, strict=True))
            return [_yes_or_no(found[name], name) for name in labels]
        there = set(_split(cells[0], columns.separator))
        unknown = there - set(labels)
        if unknown:
            raise ValueError(f"unknown label {min(unknown)!r}; known are {some(labels, 20)}")
        return [float(label in there) for label in labels]


def _split(cell: str, separator: str) -> list[str]:
    return [label for part in cell.split(separator) if (label := part.strip())]


def _yes_or_no(cell: str, name: str) -> float:
    value = cell.strip().lower()
    if value not in (*_YES, *_NO):
        raise ValueError(f"column {name!r} has {cell!r}; expected 0 or 1")
    return float(value in _YES)


class Number(LabelForm):
    """Each row has a value."""

    def recognizes(self, columns: LabelColumns) -> bool:
        # If all are whole, they are more often the numbers of classes.
        if len(columns.names) != 1:
            return False
        try:
            numbers = [float(cell) for (cell,) in columns.cells]
        except ValueError:
            return False
        return any(number % 1 for number in numbers if math.isfinite(number))

    def labels_in(self, columns: LabelColumns) -> tuple[str, ...]:
        return ()

    def read_label(
        self, cells: tuple[str, ...], labels: Sequence[str], columns: LabelColumns
    ) -> Label:
        try:
            number = float(cells[0])
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise ValueError(f"expected a number, not {cells[0]!r}")
        return number
