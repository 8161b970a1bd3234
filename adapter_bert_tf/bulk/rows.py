"""The rows of a file that are to be scored, and those that can't be."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from adapter_bert_tf.bulk.columns import Values, find_text_columns, original_rows
from adapter_bert_tf.data.examples import cell
from adapter_bert_tf.data.tables import Table, layout_of, parse_table
from adapter_bert_tf.errors import UserError, some
from adapter_bert_tf.pack.pack import Pack


@dataclasses.dataclass(frozen=True)
class Row:
    """A row to score.

    Args:
      values: The row as it is in its file.
      text: The text.
      pair: The second text, for a task on pairs.
    """

    values: Values
    text: str
    pair: str | None = None

    @property
    def length(self) -> int:
        """About how much there is to compute for it."""
        return len(self.text) + len(self.pair or "")


@dataclasses.dataclass(frozen=True)
class Bad:
    """What can't be scored: a row, or a whole file.

    Args:
      file: The file.
      line: The line that the row starts on. None for a whole file.
      problem: What is wrong.
      row: The row as it is in its file, as far as it could be read.
    """

    file: str
    line: int | None
    problem: str
    row: Any = None


@dataclasses.dataclass(frozen=True)
class Reader:
    """Reads the rows of files that are alike.

    Args:
      pack: The task.
      text_column: Column of the text, if it is not to be guessed.
      pair_column: Column of the second text.
      encoding: Encoding of the files, by default what they look like.
      delimiter: What separates columns, by default what the files look like.
      columns: The columns that each file must have; None if they may differ.
    """

    pack: Pack
    text_column: str | None = None
    pair_column: str | None = None
    encoding: str | None = None
    delimiter: str | None = None
    columns: tuple[str, ...] | None = None

    def open(self, path: str, content: bytes, bad: list[Bad]) -> tuple[Table, list[str]]:
        """Returns the table in a file, and its columns of texts; adds bad rows to `bad`."""
        layout = layout_of(path, self.encoding, self.delimiter)
        table = parse_table(path, content, layout, lambda *what: bad.append(Bad(path, *what)))
        if list(table.columns).count("") > 1:
            raise UserError(f"{path}: several columns have no name; give them names")
        if not table.columns:
            raise UserError(f"{path}: no row can be read")
        if self.columns is not None and set(table.columns) != set(self.columns):
            raise UserError(
                f"{path}: the columns are {some(table.columns, 20)}, expected those of the other "
                f"files: {some(self.columns, 20)}; JSON lines may have different ones"
            )
        return table, find_text_columns(path, table, self.pack, self.text_column, self.pair_column)

    def read(self, path: str, content: bytes) -> Iterator[Row | Bad]:
        """Yields the rows of a file, good and bad ones. A file that can't be read is a bad one."""
        bad: list[Bad] = []
        try:
            table, columns = self.open(path, content, bad)
        except UserError as error:
            yield Bad(path, None, str(error).removeprefix(f"{path}: "))
            return
        yield from bad
        originals = original_rows(path, content, table, self.encoding, lambda *_: None)
        for (line, row), values in zip(table.rows, originals, strict=True):
            try:
                texts = [cell(path, line, row, name, may_be_empty=True) for name in columns]
            except UserError as error:
                yield Bad(path, line, str(error).removeprefix(f"{path}:{line}: "), values)
            else:
                yield Row(values, *texts)


def by_length(rows: Sequence[Row], size: int) -> Iterator[list[Row]]:
    """Yields the rows in batches of similar lengths, each of at most `size` rows."""
    ordered = sorted(rows, key=lambda row: row.length)
    for start in range(0, len(ordered), size):
        yield ordered[start : start + size]
