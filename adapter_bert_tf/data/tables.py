"""Tables on disk: CSV, TSV and JSON lines."""

import csv
import dataclasses
import io
import itertools
import json
import os
from collections.abc import Iterator

from adapter_bert_tf.errors import UserError, file_error, some

Row = dict[str, str]

# Python's own limit is 131,072 characters.
_LARGEST_FIELD = 2**30


@dataclasses.dataclass(frozen=True)
class Layout:
    """How a table is written.

    Args:
      kind: "tsv" (tabs, quotes are text), "csv" (commas, quotes quote), or "jsonl".
      header: Names of the columns, for a file whose first line does not have them.
      encoding: Of the text.
      skips_short_lines: Whether lines with missing columns are known to occur and are left
        out; elsewhere they are an error.
    """

    kind: str = "tsv"
    header: tuple[str, ...] = ()
    encoding: str = "utf-8"
    skips_short_lines: bool = False


def layout_of(path: str) -> Layout:
    """Guesses a user's layout from the file's name."""
    endings = {".csv": "csv", ".tsv": "tsv", ".txt": "tsv", ".jsonl": "jsonl", ".json": "jsonl"}
    ending = os.path.splitext(path)[1].lower()
    if ending not in endings:
        raise UserError(f"{path}: expected a name that ends in {', '.join(endings)}")
    return Layout(endings[ending])


def read_rows(path: str, layout: Layout) -> tuple[list[tuple[int, Row]], int]:
    """Returns the rows, each with its line number, and how many short ones were left out."""
    text = _read_text(path, layout.encoding)
    if layout.kind == "jsonl":
        return list(_json_rows(path, text)), 0
    lines = _csv_lines(path, text) if layout.kind == "csv" else _tsv_lines(text)
    return _table_rows(path, layout, lines)


def _read_text(path: str, encoding: str) -> str:
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise file_error(path, error) from None
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}:{line}: not {encoding.upper()} at byte {error.start}") from None
    text = text.removeprefix("\N{BYTE ORDER MARK}")
    if not text.strip():
        raise UserError(f"{path}: the file is empty")
    return text


def _tsv_lines(text: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.removesuffix("\r")
        if line:
            yield number, line.split("\t")


def _csv_lines(path: str, text: str) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(_LARGEST_FIELD)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for fields in reader:
            if fields:
                yield reader.line_num, fields
    except csv.Error as error:
        raise UserError(f"{path}:{reader.line_num}: not CSV: {error}") from None


def _table_rows(path, layout: Layout, lines) -> tuple[list[tuple[int, Row]], int]:
    lines = iter(lines)
    header = layout.header
    first = next(lines)
    if not header or set(header) <= set(first[1]):
        header = tuple(first[1])
    else:
        lines = itertools.chain([first], lines)
    if len(set(header)) != len(header):
        raise UserError(f"{path}:1: two columns have the same name: {some(header)}")
    rows, short = [], 0
    for number, fields in lines:
        if len(fields) == len(header):
            rows.append((number, dict(zip(header, fields, strict=True))))
        elif layout.skips_short_lines:
            short += 1
        else:
            raise UserError(f"{path}:{number}: {len(fields)} columns, expected {len(header)}")
    if not rows:
        raise UserError(f"{path}: no rows below the header")
    return rows, short


def _json_rows(path: str, text: str) -> Iterator[tuple[int, Row]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            raise UserError(f"{path}:{number}: not JSON: {error}") from None
        if not isinstance(value, dict):
            raise UserError(f"{path}:{number}: expected a JSON object a line")
        # A null is as good as no field.
        fields = {key: field for key, field in value.items() if field is not None}
        yield number, {key: _as_text(field) for key, field in fields.items()}


def _as_text(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    # JSON can hold halves of surrogate pairs, which UTF-8 can't.
    return text.encode("utf-8", "ignore").decode()
