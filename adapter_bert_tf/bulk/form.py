"""Rows as lines of CSV, TSV or JSON."""

import csv
import dataclasses
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

_DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
_JSON_ENDINGS = (".jsonl", ".json")
ENDINGS = (*_DELIMITERS, *_JSON_ENDINGS)


@dataclasses.dataclass(frozen=True)
class Form:
    """How rows are written.

    Args:
      delimiter: What stands between the cells of a line. None for JSON, an object per line.
    """

    delimiter: str | None

    def header(self, names: Sequence[str]) -> str | None:
        """Returns the first line of a file with these columns, if it has one."""
        return None if self.delimiter is None else self._join(names)

    def line(self, names: Sequence[str], row: Mapping[str, Any]) -> str:
        """Returns the line of a row, without a line end. JSON has all columns of the row."""
        if self.delimiter is None:
            line = json.dumps(row, ensure_ascii=False)
        else:
            line = self._join([_as_cell(row.get(name)) for name in names])
        # Half of a surrogate pair is written as an escape, which is how JSON had it.
        return line.encode("utf-8", "backslashreplace").decode()

    def lines(self, names: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
        """Yields the lines of a file."""
        header = self.header(names)
        if header is not None:
            yield header
        for row in rows:
            yield self.line(names, row)

    def _join(self, cells: Sequence[Any]) -> str:
        text = io.StringIO()
        csv.writer(text, delimiter=self.delimiter or ",", lineterminator="").writerow(cells)
        return text.getvalue()


def form_of(path: str) -> Form:
    """Returns the form that the ending of a file's name says; without a known one it is CSV."""
    ending = os.path.splitext(path)[1].lower()
    return Form(None if ending in _JSON_ENDINGS else _DELIMITERS.get(ending, ","))


def _as_cell(value: Any) -> Any:
    """Returns what a cell of a CSV says for a value of a JSON file."""
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list | bool) else value
