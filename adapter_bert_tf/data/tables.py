"""Tables on disk: CSV, TSV and JSON."""

import dataclasses
import fnmatch
import itertools
import os
from collections.abc import Collection, Iterable, Iterator

from adapter_bert_tf.data.decode import decode
from adapter_bert_tf.data.delimited import Quotes, find_quotes, read_lines, unify_line_ends
from adapter_bert_tf.data.json_rows import read_json_rows
from adapter_bert_tf.errors import UserError, file_error, some
from adapter_bert_tf.files import open_bytes

Row = dict[str, str]

CSV, TSV, JSON, FOLDERS = "csv", "tsv", "json", "folders"

_ENDINGS = {".csv": CSV, ".tsv": TSV, ".txt": TSV, ".jsonl": JSON, ".json": JSON}
_DELIMITERS = {CSV: ",", TSV: "\t"}
_DELIMITER_NAMES = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}
# Rows that have to agree before a CSV is read with another delimiter than the comma.
_SAMPLE = 20


@dataclasses.dataclass(frozen=True)
class Layout:
    """How a table is written. What is None is found out from the file.

    Args:
      kind: "csv", "tsv", "json" (an object per line, or an array), or "folders" (an archive
        with a folder per class, which `read_table` does not read).
      header: Names of the columns, for a file whose first line does not have them.
      encoding: Encoding of the text.
      delimiter: The character between columns; "tab" is accepted too.
      quotes: What quotes mean. Otherwise they can enclose fields in a CSV, and in a TSV if
        they do so anywhere.
      skips_short_lines: Whether lines with another number of columns are known to occur and
        are left out. Elsewhere they are an error.
    """

    kind: str = TSV
    header: tuple[str, ...] = ()
    encoding: str | None = None
    delimiter: str | None = None
    quotes: Quotes | None = None
    skips_short_lines: bool = False


# As GLUE's files are written: quotes are part of the text.
PLAIN_TSV = Layout(TSV, encoding="utf-8", quotes=Quotes.TEXT)


@dataclasses.dataclass(frozen=True)
class Table:
    """A table that has been read.

    Args:
      columns: Names of the columns.
      rows: The rows, each with the number of the line that it starts on.
      short_lines: How many lines were left out for their number of columns.
      notes: What the user should know about how the file was read, in a few words each.
    """

    columns: tuple[str, ...]
    rows: list[tuple[int, Row]]
    short_lines: int = 0
    notes: list[str] = dataclasses.field(default_factory=list)


def layout_of(path: str, encoding: str | None = None, delimiter: str | None = None) -> Layout:
    """Returns the layout of a user's file, whose kind is known by its ending."""
    ending = os.path.splitext(path)[1].lower()
    if ending not in _ENDINGS:
        raise UserError(f"{path}: expected a name that ends in {', '.join(_ENDINGS)}")
    return Layout(_ENDINGS[ending], encoding=encoding, delimiter=delimiter)


def read_table(path: str, layout: Layout) -> Table:
    """Reads a table. Raises `UserError` with file and line if it can't be read."""
    text, notes = decode(path, _read_bytes(path), layout.encoding)
    if layout.kind == JSON:
        if layout.delimiter is not None:
            raise UserError(f"{path}: is JSON, which has no delimiter {layout.delimiter!r}")
        return _json_table(path, text, notes)
    lines, more = _open_lines(path, text, layout)
    header, lines = _split_header(path, layout, lines)
    return _table(path, layout, header, list(lines), notes + more)


def find_column(path: str, columns: Collection[str], wanted: str) -> str:
    """Returns the column called `wanted`, which may be a pattern such as `q1_*target`."""
    if wanted in columns:
        return wanted
    found = [column for column in columns if fnmatch.fnmatchcase(column, wanted)]
    if len(found) != 1:
        problem = f"several columns are called {wanted!r}" if found else f"no column {wanted!r}"
        raise UserError(f"{path}: {problem}; the columns are {some(columns, 20)}")
    return found[0]


def _read_bytes(path: str) -> bytes:
    try:
        with open_bytes(path) as file:
            return file.read()
    except OSError as error:
        raise file_error(path, error) from None


def _json_table(path: str, text: str, notes: list[str]) -> Table:
    rows = list(read_json_rows(path, text))
    if not rows:
        raise UserError(f"{path}: no rows in it")
    columns = dict.fromkeys(column for _, row in rows for column in row)
    return Table(tuple(columns), rows, notes=notes)


Lines = Iterator[tuple[int, list[str]]]


def _open_lines(path: str, text: str, layout: Layout) -> tuple[Lines, list[str]]:
    """Starts to read the fields of each line, and notes what is unusual for the file's ending."""
    usual = _DELIMITERS[layout.kind]
    notes = []
    text = unify_line_ends(text, layout.quotes != Quotes.TEXT)
    delimiter = _given_delimiter(path, layout)
    if delimiter is None:
        delimiter = _find_delimiter(path, text) if layout.kind == CSV else usual
        if delimiter != usual:
            notes.append(f"read with {_DELIMITER_NAMES[delimiter]} between columns")
    quotes = layout.quotes
    if quotes is None and layout.kind == CSV:
        quotes = Quotes.ACROSS_LINES
    elif quotes is None:
        quotes = find_quotes(text, delimiter)
        # Texts that happen to stand in quotes don't make a table if quotes are read as quotes.
        if quotes != Quotes.TEXT and not _is_regular(path, text, delimiter, quotes):
            quotes = Quotes.TEXT if _is_regular(path, text, delimiter, Quotes.TEXT) else quotes
        if quotes != Quotes.TEXT:
            notes.append("read with quotes around fields")
    return read_lines(path, text, delimiter, quotes), notes


def _is_regular(path: str, text: str, delimiter: str, quotes: Quotes) -> bool:
    """Whether all rows have the same number of columns."""
    return len({len(fields) for _, fields in read_lines(path, text, delimiter, quotes)}) == 1


def _given_delimiter(path: str, layout: Layout) -> str | None:
    if layout.delimiter is None:
        return None
    delimiter = {"tab": "\t", "\\t": "\t"}.get(layout.delimiter, layout.delimiter)
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise UserError(f"{path}: delimiter {delimiter!r}: expected a single character or 'tab'")
    return delimiter


def _find_delimiter(path: str, text: str) -> str:
    """Returns the comma, unless the header has none and all first lines agree on another."""
    if len(next(read_lines(path, text, ",", Quotes.ACROSS_LINES))[1]) == 1:
        for delimiter in _DELIMITER_NAMES:
            lines = read_lines(path, text, delimiter, Quotes.ACROSS_LINES)
            try:
                widths = {len(fields) for _, fields in itertools.islice(lines, _SAMPLE)}
            except UserError:  # A quote that is not closed, if this is the delimiter.
                continue
            if len(widths) == 1 and widths != {1}:
                return delimiter
    return ","


def _split_header(path: str, layout: Layout, lines: Lines) -> tuple[list[str], Lines]:
    """Takes the header off the lines, if they have one."""
    first = next((line for line in lines if any(map(str.strip, line[1]))), None)
    if first is None:
        raise UserError(f"{path}: the file is empty")
    number, header = first
    if layout.header and not set(layout.header) <= set(header):
        header = list(layout.header)
        lines = itertools.chain([first], lines)
    named = [name for name in header if name]
    if len(set(named)) != len(named):
        raise UserError(f"{path}:{number}: two columns have the same name: {some(named)}")
    return header, lines


def _table(
    path: str,
    layout: Layout,
    header: list[str],
    lines: list[tuple[int, list[str]]],
    notes: list[str],
) -> Table:
    """Turns lines into rows, and leaves out what carries no data."""
    width = _used_width(header, lines)
    rows: list[tuple[int, Row]] = []
    short = empty = repeated = cut = 0
    for number, fields in lines:
        if len(fields) > 1 and not any(map(str.strip, fields)):
            empty += 1
            continue
        if fields == header:
            repeated += 1
            continue
        if len(fields) > width and not any(fields[width:]):
            fields = fields[:width]
            cut += 1
        if len(fields) == width:
            rows.append((number, dict(zip(header, fields, strict=False))))
        elif layout.skips_short_lines:
            short += 1
        else:
            raise UserError(f"{path}:{number}: {len(fields)} columns, expected {width}")
    if not rows:
        raise UserError(f"{path}: no rows below the header")
    left_out = (
        (short, "lines with missing or additional columns"),
        (empty, "empty rows"),
        (repeated, "rows that repeat the header"),
    )
    notes = notes + [f"left out {count} {what}" for count, what in left_out if count]
    if cut or width < len(header):
        notes.append("left out empty columns at the end")
    return Table(tuple(header[:width]), rows, short, notes)


def _used_width(header: list[str], lines: Iterable[tuple[int, list[str]]]) -> int:
    """Returns the number of columns without those at the end that have no name and no text."""
    width = len(header)
    while width and not header[width - 1]:
        width -= 1
    if width < len(header) and any(any(fields[width:]) for _, fields in lines):
        return len(header)
    return width
