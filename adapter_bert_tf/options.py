"""Options: fields of dataclasses that are also flags of the programs and keywords of `tune`.

The name, type, default and help text of an option are written once, at its field.
"""

import dataclasses
import functools
import inspect
import numbers
import os
import types
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from adapter_bert_tf.checks import Range, anything, fields, refuse
from adapter_bert_tf.errors import UserError

Options = typing.TypeVar("Options")

# Type of an option -> what Python values may be, and how to say so.
_ACCEPTED: dict[type, tuple[Any, str]] = {
    str: (str | os.PathLike, "a text"),
    int: (numbers.Integral, "a whole number"),
    float: (numbers.Real, "a number"),
    bool: (bool, "True or False"),
}


def option(
    default: Any,
    help: str,
    *,
    flag: str | None = None,
    aliases: Sequence[str] = (),
    choices: Collection[str] | None = None,
    limits: Range | None = None,
    group: str = "Tuning",
    **more: Any,
) -> Any:
    """Declares a field of a dataclass that is also a flag.

    Args:
      default: The default; None for a value that is worked out later.
      help: One line about it.
      flag: The flag's name, where it differs from the field's (with the prefix of its class).
      aliases: Other names of the flag.
      choices: The values that are allowed.
      limits: The range of a number.
      group: Heading under which a program's help shows it.
      **more: What else the owner of the field wants to know about it.
    """
    shown = {"help": help, "flag": flag, "aliases": aliases, "choices": choices, "group": group}
    return dataclasses.field(default=default, metadata={**shown, "limits": limits, **more})


@dataclasses.dataclass(frozen=True)
class Option:
    """One option: a field, seen as a flag.

    Attributes:
      name: Name of the flag.
      field: Name of the field.
      type: Type of a single value: `str`, `int`, `float` or `bool`.
      many: Whether it takes a comma-separated list.
      default: The default.
      help: One line about it.
      choices: The values that are allowed, or None.
      limits: The range of a number, or None.
      aliases: Other names of the flag.
      group: Heading under which a program's help shows it.
    """

    name: str
    field: str
    type: type
    many: bool
    default: Any
    help: str
    choices: Collection[str] | None
    limits: Range | None
    aliases: Sequence[str]
    group: str

    def parse(self, values: Sequence[str]) -> tuple[Any, ...]:
        """Returns the values of a flag that takes a list."""
        try:
            return tuple(self.type(value) for value in values)
        except ValueError:
            given = ",".join(values)
            raise UserError(
                f"--{self.name}={given}: expected numbers, separated by commas"
            ) from None

    def check(self, value: Any, where: str | None = None) -> Any:
        """Returns a value in the field's type; refuses one that does not fit.

        Args:
          value: A value from Python or from a file.
          where: Its place, by default the flag.
        """
        if value is None and self.default is None:
            return None
        if not self.many:
            return self._check_single(value, where)
        if isinstance(value, str) or not isinstance(value, typing.Iterable):
            value = (value,)
        return tuple(self._check_single(each, where) for each in value)

    def _check_single(self, value: Any, where: str | None) -> Any:
        accepted, expected = _ACCEPTED[self.type]
        # To Python, True is a whole number too.
        if not isinstance(value, accepted) or isinstance(value, bool) != (self.type is bool):
            raise self._refuse(value, where, expected)
        if self.choices is not None and value not in self.choices:
            raise self._refuse(value, where, f"one of {', '.join(self.choices)}")
        if self.limits is not None and not self.limits.holds(value):
            raise self._refuse(value, where, str(self.limits))
        return os.fspath(value) if isinstance(value, os.PathLike) else self.type(value)

    def _refuse(self, value: Any, where: str | None, expected: str) -> UserError:
        if where is not None:
            return refuse(where, expected, value)
        shown = value if self.choices is not None and isinstance(value, str) else repr(value)
        return UserError(f"--{self.name}={shown}: expected {expected}")


@functools.cache
def options_of(kind: type, prefix: str = "") -> dict[str, Option]:
    """Returns the options among the fields of a dataclass, by the name of the flag."""
    hints = typing.get_type_hints(kind)
    found = {}
    for field in dataclasses.fields(kind):
        if "help" not in field.metadata:
            continue
        name = field.metadata["flag"] or prefix + field.name
        single, many = _value_type(hints[field.name])
        found[name] = Option(
            name,
            field.name,
            single,
            many,
            field.default,
            field.metadata["help"],
            field.metadata["choices"],
            field.metadata["limits"],
            field.metadata["aliases"],
            field.metadata["group"],
        )
    return found


def take(kind: type, values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Takes the options of `kind` out of `values`: returns them by field, and removes them.

    Their other names are accepted too.
    """
    return {
        each.field: each.check(values.pop(name))
        for each in options_of(kind, prefix).values()
        for name in (each.name, *each.aliases)
        if name in values
    }


def check_fields(value: Any, title: str | None = None) -> None:
    """Checks the options among a frozen dataclass's own fields, and gives them their types.

    Args:
      value: The dataclass.
      title: What messages call it; by default they name flags.
    """
    kind: Any = type(value)
    for each in options_of(kind).values():
        where = title and f"{title} {each.field}"
        object.__setattr__(value, each.field, each.check(getattr(value, each.field), where))


def from_json(kind: Callable[..., Options], values: Any, where: str) -> Options:
    """Makes a dataclass of what `in_json` returned, read from a file."""
    names = dict.fromkeys(inspect.signature(kind).parameters, anything)
    fields({}, names)(values, where)
    try:
        return kind(**values)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


def in_json(value: Any) -> Any:
    """Returns a dataclass's values as JSON can hold them: dictionaries and lists."""
    if dataclasses.is_dataclass(value):
        return {
            field.name: in_json(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    if isinstance(value, Mapping):
        return {name: in_json(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [in_json(each) for each in value]
    return value


def _value_type(hint: Any) -> tuple[type, bool]:
    """Reads `int`, `int | None` or `tuple[int, ...] | None`: the type of a value, and if many."""
    if isinstance(hint, types.UnionType):
        hint = next(each for each in typing.get_args(hint) if each is not types.NoneType)
    if typing.get_origin(hint) is tuple:
        return typing.get_args(hint)[0], True
    return hint, False
