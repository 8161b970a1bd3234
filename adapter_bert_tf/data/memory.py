"""Examples that are in memory: what Python users hold instead of a file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Union

from adapter_bert_tf.data.tables import Table
from adapter_bert_tf.errors import UserError

if TYPE_CHECKING:
    import pandas as pd
    import tensorflow as tf

# A path, a DataFrame, a list of (text, label) or (text, pair, label), or a data set.
Tabular = Union["str | os.PathLike", "pd.DataFrame", Sequence[tuple], "tf.data.Dataset"]

_COLUMNS = {2: ("text", "label"), 3: ("text", "text_pair", "label")}


def to_table(examples: Tabular) -> str | Table:
    """Returns a path as it is, and other examples as a table."""
    if isinstance(examples, str | os.PathLike):
        return os.fspath(examples)
    if hasattr(examples, "to_dict") and hasattr(examples, "columns"):
        rows: Iterable[dict] = examples.to_dict("records")
    elif hasattr(examples, "as_numpy_iterator"):
        rows = examples.as_numpy_iterator()
    elif isinstance(examples, Iterable):
        rows = _from_tuples(examples)
    else:
        raise UserError(
            "expected a path, a DataFrame, a list of tuples or a tf.data.Dataset, not "
            f"{type(examples).__name__}"
        )
    found = [(number, _as_texts(row, number)) for number, row in enumerate(rows, start=1)]
    if not found:
        raise UserError("no examples: expected at least one")
    return Table(tuple(dict.fromkeys(name for _, row in found for name in row)), found)


def _from_tuples(examples: Iterable[Any]) -> Iterator[dict]:
    for number, row in enumerate(examples, start=1):
        if not isinstance(row, tuple | list) or len(row) not in _COLUMNS:
            raise UserError(
                f"example {number}: expected (text, label) or (text, pair, label), not {row!r}"
            )
        yield dict(zip(_COLUMNS[len(row)], row, strict=True))


def _as_texts(row: Any, number: int) -> dict[str, str]:
    if not isinstance(row, dict):
        raise UserError(f"example {number}: expected a dictionary, not {type(row).__name__}")
    try:
        return {str(name): _as_text(value) for name, value in row.items() if not _is_missing(value)}
    except ValueError as error:
        raise UserError(f"example {number}: {error}") from None


def _is_missing(value: Any) -> bool:
    # pandas writes NaN, which is not equal to itself, or NA for an empty cell.
    is_nan = isinstance(value, float) and value != value
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType")


def _as_text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, list | tuple | dict | set) or getattr(value, "size", 1) != 1:
        raise ValueError(
            f"expected one value in a column, not {value!r}; give a column for each label, or a "
            "text with label_separator"
        )
    return str(value.item() if hasattr(value, "item") else value)
