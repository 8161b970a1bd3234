"""What an export says about itself. It is read without TensorFlow."""

import dataclasses
import glob
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from adapter_bert_tf.base.presets import public_name
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.files import byte_size, read_json_object
from adapter_bert_tf.pack.pack import Pack, parse_description
from adapter_bert_tf.serve import DESCRIPTION_FILE

FORMAT = 3

_FINGERPRINT = 12
_FLOAT = 4
# Tasks that are listed of many.
_LISTED = 20


@dataclasses.dataclass(frozen=True)
class DescribedTask:
    """A task of an export.

    Args:
      name: The name by which requests ask for it.
      pack: The description of its pack.
      size: The bytes of its values in the export.
    """

    name: str
    pack: Pack
    size: int

    @property
    def pair(self) -> bool:
        """Whether its rows are pairs of texts."""
        return bool(self.pack.inputs.get("pair", False))

    def summary(self) -> str:
        """Returns its name, kind, number of labels and size in a line."""
        count = len(self.pack.class_names)
        labels = f", {count:,} label{'s' if count > 1 else ''}" if count else ""
        return f"{self.name}: {self.pack.kind}{labels}, {byte_size(self.size)}"


@dataclasses.dataclass(frozen=True)
class Described:
    """An export, as its description says.

    Args:
      folder: The version's folder.
      origin: Where the base came from.
      config: The base's sizes.
      tokens: Number of tokens in its vocabulary.
      lower_case: Whether it lower-cases texts.
      tasks: The tasks.
      signatures: Names of the inputs and outputs of each signature. Old exports don't say them.
    """

    folder: str
    origin: str
    config: Mapping[str, Any]
    tokens: int
    lower_case: bool
    tasks: tuple[DescribedTask, ...]
    signatures: Mapping[str, Mapping[str, Sequence[str]]]

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(_sizes(os.path.join(self.folder, "**")))

    @property
    def base(self) -> str:
        """The base's name on any machine, and its fingerprint."""
        return base_name(self.origin, self.tasks[0].pack)

    def lines(self) -> Iterator[tuple[str, str]]:
        """Yields what is served, with sizes."""
        values = sum(_sizes(os.path.join(self.folder, "variables", "*")))
        yield "base", f"{self.base}, {byte_size(values - sum(task.size for task in self.tasks))}"
        for task in self.tasks[:_LISTED]:
            yield "task", task.summary()
        others = self.tasks[_LISTED:]
        if others:
            yield "", f"and {len(others):,} more, {byte_size(sum(task.size for task in others))}"
        yield "size", byte_size(self.size)


def base_name(origin: str, pack: Pack) -> str:
    """Returns the name of a base on any machine, and the fingerprint that a pack on it has."""
    return f"{public_name(origin)} (fingerprint {pack.base.get('fingerprint', '')[:_FINGERPRINT]})"


def _sizes(pattern: str) -> Iterator[int]:
    for path in glob.iglob(pattern, recursive=True):
        if os.path.isfile(path):
            yield os.path.getsize(path)


def find_export(path: str | os.PathLike) -> str | None:
    """Returns the folder of a version: `path` itself, or the newest one in it."""
    path = os.fspath(path)
    folders = [path, *(os.path.join(path, str(number)) for number in versions_in(path))]
    found = (each for each in folders if os.path.exists(os.path.join(each, DESCRIPTION_FILE)))
    return next(found, None)


def versions_in(folder: str) -> list[str]:
    """Returns the names of the versions in a model's folder, the newest first."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return sorted((name for name in names if name.isdecimal()), key=int, reverse=True)


def read_described(path: str | os.PathLike) -> Described:
    """Reads the description of a version, or of the newest one in a model's folder."""
    folder = find_export(path) or os.fspath(path)
    file = os.path.join(folder, DESCRIPTION_FILE)
    raw = read_json_object(file)
    check_format(raw, file)
    try:
        sizes = _task_sizes(raw["values"])
        tasks = tuple(
            DescribedTask(task["name"], parse_description(task["pack"], file), size)
            for task, size in zip(raw["tasks"], sizes, strict=True)
        )
        return Described(
            folder,
            raw["origin"],
            raw["config"],
            len(raw["tokens"]),
            raw["lower_case"],
            tasks,
            raw.get("signatures", {}),
        )
    except (LookupError, TypeError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{file}: not a complete export: {error!r}") from None


def check_format(raw: Mapping[str, Any], path: str) -> None:
    """Refuses a description that an older or newer program wrote."""
    if raw.get("format") != FORMAT:
        raise UserError(
            f"{path}: an export of format {raw.get('format')}, not {FORMAT}; "
            "export all packs with --packs instead"
        )


def _task_sizes(layout: Mapping[str, Any]) -> list[int]:
    """Returns the bytes of each task's own values; see `Values.layout`."""
    sizes = [_FLOAT * math.prod(shape) for shape in layout["shapes"]]
    shared = len(layout["paths"])
    return [sum(sizes[n] for n in numbers if n >= shared) for numbers in layout["numbers"]]
