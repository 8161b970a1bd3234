"""Rows from JSON: an object per line, or one array of objects."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from adapter_bert_tf.errors import UserError

# Is told the line of a row that can't be read, the problem, and the row as it stands there.
OnBad = Callable[[int, str, Any], None]

_EXPECTED = "expected a JSON object per line, or one array of objects"
_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


def read_json_rows(
    path: str, text: str, on_bad: OnBad | None = None
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yields each object with the number of its line, its values as text."""
    for line, value in read_json_objects(path, text, on_bad):
        # A null says the same as a missing field.
        yield line, {key: _as_text(field) for key, field in value.items() if field is not None}


def read_json_objects(
    path: str, text: str, on_bad: OnBad | None = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields each object with the number of its line, its values as they stand there.

    Args:
      path: The file's name, for messages.
      text: Its text.
      on_bad: Is told of lines that are no objects. Without it, the first one is an error.
    """
    is_array = text.lstrip().startswith("[")
    for line, value in _array(path, text) if is_array else _lines(path, text, on_bad):
        if isinstance(value, dict):
            yield line, value
        elif on_bad is None:
            raise UserError(f"{path}:{line}: {_EXPECTED}")
        else:
            on_bad(line, _EXPECTED, value)


def _lines(path: str, text: str, on_bad: OnBad | None) -> Iterator[tuple[int, object]]:
    if "\n" not in text:
        text = text.replace("\r", "\n")
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            value, end = _value(path, line, _after_space(line, 0), number)
            if line[end:].strip():
                raise UserError(f"{path}:{number}: not JSON: text after the object; {_EXPECTED}")
        except UserError as error:
            if on_bad is None:
                raise
            on_bad(number, str(error).removeprefix(f"{path}:{number}: "), line)
        else:
            yield number, value


def _array(path: str, text: str) -> Iterator[tuple[int, object]]:
    line, counted, place = 1, 0, text.index("[") + 1
    while True:
        place = _after_space(text, place)
        line += text.count("\n", counted, place)
        counted = place
        if text[place : place + 1] == "]":
            break
        value, place = _value(path, text, place, line)
        yield line, value
        place = _after_space(text, place)
        if text[place : place + 1] == ",":
            place += 1
        elif text[place : place + 1] != "]":
            raise UserError(f"{path}:{line}: not JSON: the array is not closed after this item")
    if text[place + 1 :].strip():
        raise UserError(f"{path}:{line}: not JSON: text after the array; {_EXPECTED}")


def _after_space(text: str, place: int) -> int:
    match = _SPACE.match(text, place)
    return match.end() if match else place


def _value(path: str, text: str, start: int, line: int) -> tuple[object, int]:
    """Returns the value that starts at `start`, and where it ends."""
    try:
        return _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise UserError(f"{path}:{line}: not JSON: {error.msg}; {_EXPECTED}") from None
    except ValueError as error:  # A number of thousands of digits.
        raise UserError(f"{path}:{line}: not JSON: {error}") from None
    except RecursionError:
        raise UserError(f"{path}:{line}: not JSON: nested too deeply") from None


def _as_text(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    # JSON can hold halves of surrogate pairs, which UTF-8 can't.
    return text.encode("utf-8", "ignore").decode()
