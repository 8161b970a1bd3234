"""The lines and fields of CSV and TSV.

Python's `csv` is not used because it is silent about the mistakes of files made by hand: it drops
quotes that are text, and reads on to the end of the file after a quote that is never closed.
"""

import enum
import re
from collections.abc import Iterator

from adapter_bert_tf.errors import UserError

# The possessive quantifiers keep the search linear, however many quotes there are.
_QUOTED = r'"((?:[^"]++|"")*+)"'
_QUOTED_IN_LINE = r'"((?:[^"\n]++|"")*+)"'
_OPENED = re.compile(r'"(?:[^"]++|"")*+')
_FIRST_LINE = re.compile(rf'(?:{_QUOTED}|[^"\r\n]++)*+')


class Quotes(enum.Enum):
    """What quotes mean in a file."""

    TEXT = "They are text."
    IN_LINE = "They can enclose a field, which ends on the same line."
    ACROSS_LINES = "They can enclose a field, and line breaks in it."


def unify_line_ends(text: str, quotes: bool) -> str:
    """Makes every line end with a newline, whichever system wrote it.

    The first line tells. Only if it ends with a carriage return alone, as on old Macs, are the
    others line ends; elsewhere a carriage return inside of a line is text.
    """
    if "\r" in text:
        match = _FIRST_LINE.match(text) if quotes else None
        end = re.compile(r"\r?\n|\r|\Z").search(text, match.end() if match else 0)
        text = text.replace("\r\n", "\n")
        if end and end.group() == "\r":
            text = text.replace("\r", "\n")
    # Files with byte-order marks, concatenated, have one in the middle.
    return text.replace("\n\N{BYTE ORDER MARK}", "\n")


def find_quotes(text: str, delimiter: str) -> Quotes:
    """Finds out what quotes mean in a file that may have been written without quoting.

    Quotes are text unless they enclose some field. A program that quotes fields doubles the
    quotes inside of them, so a single quote inside of a field shows that none did. Then a text
    that happens to start with a quote must not swallow the lines below it.
    """
    delimiter = re.escape(delimiter)
    enclosed = rf"(?:^|{delimiter}){_QUOTED}(?={delimiter}|$)"
    if not re.search(enclosed, text, re.MULTILINE):
        return Quotes.TEXT
    single = rf'[^"\n{delimiter}]"[^"\n{delimiter}]'
    return Quotes.IN_LINE if re.search(single, text) else Quotes.ACROSS_LINES


def read_lines(
    path: str, text: str, delimiter: str, quotes: Quotes
) -> Iterator[tuple[int, list[str]]]:
    """Yields the fields of each row with the number of the line that it starts on.

    Blank lines are passed over. A quote quotes if it starts a field, and the field ends right
    after the closing quote; any other quote is text.
    """
    splitter = _Splitter(path, text, delimiter, quotes)
    place, line = 0, 1
    while place < len(text):
        end = text.find("\n", place)
        end = len(text) if end < 0 else end
        if quotes != Quotes.TEXT and text.find('"', place, end) >= 0:
            fields, end = splitter.split(place, line)
            yield line, fields
            line += text.count("\n", place, end)
        else:
            fields = text[place:end].split(delimiter)
            if len(fields) > 1 or fields[0].strip():
                yield line, fields
        place = end + 1
        line += 1


class _Splitter:
    """Splits a row in which some fields may stand in quotes."""

    def __init__(self, path: str, text: str, delimiter: str, quotes: Quotes):
        self._path = path
        self._text = text
        self._quotes = quotes
        delimiter = re.escape(delimiter)
        quoted = _QUOTED_IN_LINE if quotes == Quotes.IN_LINE else _QUOTED
        self._quoted = re.compile(rf"{quoted}(?={delimiter}|\n|\Z)")
        self._field_end = re.compile(rf"{delimiter}|\n|\Z")

    def split(self, place: int, line: int) -> tuple[list[str], int]:
        """Returns the fields of the row that starts at `place`, and where the row ends."""
        start, fields = place, []
        while True:
            match = self._quoted.match(self._text, place)
            if match:
                fields.append(match[1].replace('""', '"'))
                place = match.end()
            else:
                self._check_closed(start, place, line)
                end = self._end_of_field(place)
                fields.append(self._text[place:end])
                place = end
            if place == len(self._text) or self._text[place] == "\n":
                return fields, place
            place += 1

    def _end_of_field(self, place: int) -> int:
        match = self._field_end.search(self._text, place)
        return match.start() if match else len(self._text)

    def _check_closed(self, start: int, place: int, line: int) -> None:
        """Refuses a quote that opens a field which goes on to another line and has no end.

        `"No" he said` starts with a quote as well, but there it is text.
        """
        opened = _OPENED.match(self._text, place)
        if opened is None or self._quotes == Quotes.IN_LINE:
            return
        if opened.end() == len(self._text) or "\n" in opened.group():
            line += self._text.count("\n", start, place)
            raise UserError(f"{self._path}:{line}: the quote that opens here is not closed")
