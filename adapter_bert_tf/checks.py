"""What a value from a file or a flag has to be: its type, its range, and what it consists of.

A check takes a value and its place: `pack.json:` for a whole file, `pack.json: labels[2]` for what
is in it. It returns the value, or refuses it in a line that names the place and what was expected
there. The check of a file is put together from these, and looks like the file.
"""

import dataclasses
import math
import numbers
import os
import reprlib
from collections.abc import Callable, Collection, Mapping
from typing import Any

from adapter_bert_tf.errors import UserError

Check = Callable[[Any, str], Any]

# What a message shows of a wrong value: damaged files may hold megabytes, at any depth.
_SHOWN = reprlib.Repr()
_SHOWN.maxstring = _SHOWN.maxother = _SHOWN.maxlong = 40
_SHOWN.maxlevel = 2
# Names in a list: the largest BERT has a thousand variables.
MOST_NAMES = 100_000
_DIGITS = frozenset("0123456789abcdef")


def refuse(where: str, expected: str, value: Any) -> UserError:
    """Returns the error for a value that is not what was expected."""
    return _error(where, f"expected {expected}, not {_SHOWN.repr(value)}")


def _error(where: str, problem: str) -> UserError:
    return UserError(f"{where.removesuffix(':')}: {problem}")


@dataclasses.dataclass(frozen=True)
class Range:
    """A check for numbers. Those that are not finite are in no range.

    Args:
      least: The smallest that is allowed.
      most: The largest that is allowed.
      whole: Whether it has to be a whole number.
      above: Whether `least` itself is not allowed.
      below: Whether `most` itself is not allowed.
    """

    least: float = -math.inf
    most: float = math.inf
    whole: bool = False
    above: bool = False
    below: bool = False

    def holds(self, value: Any) -> bool:
        """Whether a number is in the range."""
        try:
            if not self.whole and not math.isfinite(value):
                return False
        except OverflowError:  # A whole number that is too large for a float.
            return False
        is_high = value > self.least if self.above else value >= self.least
        return is_high and (value < self.most if self.below else value <= self.most)

    def __call__(self, value: Any, where: str) -> Any:
        kind = numbers.Integral if self.whole else numbers.Real
        # To Python, True is a whole number too.
        if isinstance(value, bool) or not isinstance(value, kind) or not self.holds(value):
            raise refuse(where, str(self), value)
        return value

    def __str__(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        low, high = (f"{each:,}" for each in (self.least, self.most))
        if self.least == -math.inf:
            return kind
        if self.most == math.inf:
            return f"{kind} {'above' if self.above else 'from'} {low}"
        start = f"above {low} and" if self.above else f"from {low}"
        end = f"below {high}" if self.below else f"{'up ' if self.above else ''}to {high}"
        return f"{kind} {start} {end}"


def whole(least: int, most: int) -> Range:
    """Checks for a whole number."""
    return Range(least, most, whole=True)


NUMBER = Range()
BATCH_SIZE = whole(1, 100_000)
# A part of a whole that leaves something of it, such as a rate of dropout.
SHARE = Range(0, 1, below=True)


def anything(value: Any, where: str) -> Any:
    """Checks nothing, for what somebody else checks."""
    return value


def boolean(value: Any, where: str) -> Any:
    """Checks for true or false."""
    if not isinstance(value, bool):
        raise refuse(where, "true or false", value)
    return value


def text(value: Any, where: str) -> Any:
    """Checks for a text. JSON may have halves of characters, which no other file can hold."""
    if not isinstance(value, str):
        raise refuse(where, "a text", value)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise refuse(where, "a text that UTF-8 can hold", value) from None
    return value


def file_name(value: Any, where: str) -> Any:
    """Checks for the name of a file in the same folder."""
    text(value, where)
    if os.path.basename(value) != value or value in ("", ".", "..") or "\0" in value:
        raise refuse(where, "a file in the same folder", value)
    return value


def digest(value: Any, where: str) -> Any:
    """Checks for a SHA-256."""
    if not isinstance(value, str) or len(value) != 64 or not set(value) <= _DIGITS:
        raise refuse(where, "a SHA-256", value)
    return value


def one_of(choices: Collection[str]) -> Check:
    """Checks for one of some texts."""

    def check(value: Any, where: str) -> Any:
        if not isinstance(value, str) or value not in choices:
            raise refuse(where, f"one of {', '.join(choices)}", value)
        return value

    return check


def maybe(check: Check) -> Check:
    """Checks a value that may be null."""
    return lambda value, where: None if value is None else check(value, where)


def each(check: Check, *, different: bool = False, most: int | None = None) -> Check:
    """Checks a list and what is in it: so many `most`, and no text twice if all are `different`."""

    def check_all(value: Any, where: str) -> Any:
        if not isinstance(value, list):
            raise refuse(where, "a list", value)
        if most is not None and len(value) > most:
            raise _error(where, f"expected {most:,} at most, not {len(value):,}")
        seen = set()
        for number, item in enumerate(value):
            check(item, f"{where}[{number}]")
            if different:
                if item in seen:
                    raise _error(where, f"{_SHOWN.repr(item)} is there twice")
                seen.add(item)
        return value

    return check_all


def named(check: Check) -> Check:
    """Checks an object with any names, whose values are all alike."""
    return _object(lambda name: check)


def fields(
    needed: Mapping[str, Check], optional: Mapping[str, Check], closed: bool = True
) -> Check:
    """Checks an object by its fields.

    Args:
      needed: What has to be there, by name.
      optional: What may be there.
      closed: Whether there may be nothing else.
    """
    known = {**needed, **optional}

    def unknown(value: Any, where: str) -> Any:
        raise _error(where, "no such field is known")

    check_fields = _object(lambda name: known.get(name, unknown if closed else anything))

    def check(value: Any, where: str) -> Any:
        check_fields(value, where)
        for name in needed:
            if name not in value:
                raise _error(where, f"expected a field {name!r}")
        return value

    return check


def _object(check_of: Callable[[str], Check]) -> Check:
    def check(value: Any, where: str) -> Any:
        if not isinstance(value, dict):
            raise refuse(where, "an object", value)
        place = f"{where} " if where.endswith(":") else f"{where}."
        for name, item in value.items():
            shown = place + (name if name.isidentifier() else _SHOWN.repr(name))
            check_of(text(name, shown))(item, shown)
        return value

    return check


ANY_OBJECT = fields({}, {}, closed=False)
