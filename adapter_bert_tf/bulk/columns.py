"""The columns of a table that a task reads, and those that predictions add to it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from adapter_bert_tf.data.decode import decode
from adapter_bert_tf.data.json_rows import OnBad, read_json_objects
from adapter_bert_tf.data.sources import OwnFiles
from adapter_bert_tf.data.tables import JSON, Table, layout_of
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.heads.kinds import TEXT_LABELS
from adapter_bert_tf.pack.pack import Pack

_PREFIX = "predicted_"

# A row with the values that it has in its file.
Values = dict[str, Any]


def find_text_columns(
    path: str, table: Table, pack: Pack, text: str | None, pair: str | None
) -> list[str]:
    """Returns the column of the text, and for a task on pairs that of the second text.

    Args:
      path: The file's name, for messages.
      table: What it holds.
      pack: The task.
      text: Name of the column of the text, if it is not to be guessed.
      pair: Name of the column of the second text.
    """
    source = OwnFiles(
        {path: table},
        TEXT_LABELS,
        text_column=text,
        pair_column=pair,
        kind=pack.kind,
        labels=pack.class_names,
    )
    if not pack.inputs.get("pair"):
        return [source.text]
    if source.pair is None:
        raise UserError(
            f"{path}: which column is the second text? Name it with --text_pair_column: "
            f"{', '.join(table.columns)}"
        )
    return [source.text, source.pair]


def original_rows(
    path: str, content: bytes, table: Table, encoding: str | None, on_bad: OnBad | None = None
) -> list[Values]:
    """Returns the rows of a table with the values that they have in its file.

    In a `Table`, the values of JSON are texts.
    """
    if layout_of(path).kind != JSON:
        return [dict(row) for _, row in table.rows]
    text, _ = decode(path, content, encoding)
    return [row for _, row in read_json_objects(path, text, on_bad)]


def new_names(names: Iterable[str], taken: Collection[str]) -> list[str]:
    """Returns the names of added columns: `predicted_<name>` where a name is taken."""
    seen, found = set(taken), []
    for name in names:
        while name in seen:
            name = _PREFIX + name
        seen.add(name)
        found.append(name)
    return found


def add_columns(rows: Sequence[Values], columns: Mapping[str, Sequence[Any]]) -> list[Values]:
    """Returns the rows with the columns behind their own."""
    names = new_names(columns, {name for row in rows for name in row})
    added = zip(*columns.values(), strict=True)
    return [
        {**row, **dict(zip(names, cells, strict=True))}
        for row, cells in zip(rows, added, strict=True)
    ]
