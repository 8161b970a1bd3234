"""What an export says about itself. It is read without TensorFlow."""

import dataclasses
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from adapter_bert_tf.base.config import MOST_WORDS, BertConfig, config_from_export
from adapter_bert_tf.base.presets import public_name
from adapter_bert_tf.baseline.modules import public_module_name
from adapter_bert_tf.checks import (
    ANY_OBJECT,
    MOST_NAMES,
    Check,
    boolean,
    each,
    fields,
    named,
    text,
    whole,
)
from adapter_bert_tf.encoder.adapter import MOST_LAYERS
from adapter_bert_tf.errors import UserError, some
from adapter_bert_tf.files import byte_size, exists, file_sizes, list_folder, read_json_object
from adapter_bert_tf.pack.pack import Pack, parse_pack
from adapter_bert_tf.serve import DESCRIPTION_FILE, GRAPH_FILE

FORMAT = 3
# Marks the description of a baseline without BERT.
BASELINE = "baseline"

_FINGERPRINT = 12
# The variable of a head that has a number for each of its outputs.
_OUTPUTS = "head/output/bias"
_FLOAT = 4
# Tasks that are listed of many.
_LISTED = 20

_NAMES = each(text, different=True, most=MOST_NAMES)
_NUMBERS = each(whole(0, 2**40), most=MOST_NAMES)
_SHAPE = each(whole(0, 2**40), most=2)
_LAYOUT: dict[str, Check] = {
    "paths": _NAMES,
    "numbers": each(_NUMBERS, most=MOST_NAMES),
    "shapes": each(_SHAPE),
}
# Only tasks without some of their layers have this, and old exports never.
DROPPED = "dropped_layers"
_DROPPED = {DROPPED: whole(1, MOST_LAYERS)}
_TASKS = each(fields({"name": text, "pack": ANY_OBJECT}, _DROPPED, closed=False), most=MOST_NAMES)
# Old exports don't say them.
_SIGNATURES = {"signatures": named(fields({"inputs": _NAMES, "outputs": _NAMES}, {}, closed=False))}
# Other versions may say more.
_check = fields(
    {
        "origin": text,
        "config": config_from_export,
        "base": _NAMES,
        "values": fields(_LAYOUT, {}, closed=False),
        "tasks": _TASKS,
        "lower_case": boolean,
        "tokens": each(text, most=MOST_WORDS),
    },
    _SIGNATURES,
    closed=False,
)
_check_baseline = fields({"baseline": whole(1, 1), "tasks": _TASKS}, _SIGNATURES, closed=False)


@dataclasses.dataclass(frozen=True)
class DescribedTask:
    """A task of an export.

    Args:
      name: The name by which requests ask for it.
      pack: The description of its pack.
      size: The bytes of its values in the export.
      dropped_layers: Number of the lowest layers in which it does without its adapters.
    """

    name: str
    pack: Pack
    size: int
    dropped_layers: int = 0

    @property
    def pair(self) -> bool:
        """Whether its rows are pairs of texts."""
        return bool(self.pack.inputs.get("pair", False))

    def summary(self) -> str:
        """Returns its name, kind, number of labels, size and dropped layers in a line."""
        count = len(self.pack.class_names)
        labels = f", {count:,} label{'s' if count > 1 else ''}" if count else ""
        dropped = f", {tell_of_layers(self.dropped_layers)}" if self.dropped_layers else ""
        return f"{self.name}: {self.pack.kind}{labels}, {byte_size(self.size)}{dropped}"


@dataclasses.dataclass(frozen=True)
class Description:
    """What an export says about itself.

    Args:
      folder: The version's folder.
      raw: The whole file.
      config: The base's sizes; None for a baseline, which has no BERT.
      tasks: The tasks.
    """

    folder: str
    raw: Mapping[str, Any]
    config: BertConfig | None
    tasks: tuple[DescribedTask, ...]

    @property
    def origin(self) -> str:
        """Where the base came from."""
        return self.raw.get("origin", self.tasks[0].pack.base.get("origin", ""))

    @property
    def signatures(self) -> Mapping[str, Mapping[str, Sequence[str]]]:
        """Names of the inputs and outputs of each signature."""
        return self.raw.get("signatures", {})

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(file_sizes(self.folder))

    @property
    def base(self) -> str:
        """The base's name on any machine, and its fingerprint."""
        return base_name(self.origin, self.tasks[0].pack)

    def lines(self) -> Iterator[tuple[str, str]]:
        """Yields what is served, with sizes."""
        values = sum(file_sizes(os.path.join(self.folder, "variables")))
        if self.config is None:
            yield "module", self.base
        else:
            shared = values - sum(task.size for task in self.tasks)
            yield "base", f"{self.base}, {byte_size(shared)}"
        for task in self.tasks[:_LISTED]:
            yield "task", task.summary()
        others = self.tasks[_LISTED:]
        if others:
            yield "", f"and {len(others):,} more, {byte_size(sum(task.size for task in others))}"
        worse = [t.name for t in self.tasks if t.dropped_layers > t.pack.tuning.adapter_drop]
        if worse:
            yield "warning", f"not tuned with --adapter_drop for so many layers: {some(worse)}"
        yield "size", byte_size(self.size)


def base_name(origin: str, pack: Pack) -> str:
    """Returns the name of a base on any machine, and the fingerprint that a pack on it has.

    The base of a baseline is a text module.
    """
    name = public_name(origin) if pack.baseline is None else public_module_name(origin)
    return f"{name} (fingerprint {pack.base.get('fingerprint', '')[:_FINGERPRINT]})"


def tell_of_layers(dropped: int) -> str:
    """Returns what to know of a task that does without its adapters in the lowest layers."""
    where = "the lowest layer" if dropped == 1 else f"the {dropped} lowest layers"
    return f"without its adapters in {where}; metrics are of all layers"


def find_export(path: str | os.PathLike) -> str | None:
    """Returns the folder of a version: `path` itself, or the newest one in it."""
    path = os.fspath(path)
    folders = [path, *(os.path.join(path, number) for number in versions_in(path))]
    found = [each for each in folders if exists(os.path.join(each, DESCRIPTION_FILE))]
    # Where folders can't be renamed, one that is being written has no graph yet.
    whole = (each for each in found if exists(os.path.join(each, GRAPH_FILE)))
    return next(whole, next(iter(found), None))


def versions_in(folder: str) -> list[str]:
    """Returns the names of the versions in a model's folder, the newest first."""
    names = (name for name in list_folder(folder) if name.isdecimal())
    return sorted(names, key=int, reverse=True)


def read_description(path: str | os.PathLike) -> Description:
    """Reads and checks the description of a version, or of the newest one in a model's folder."""
    folder = find_export(path) or os.fspath(path)
    file = os.path.join(folder, DESCRIPTION_FILE)
    raw = read_json_object(file)
    if BASELINE in raw:
        _check_baseline(raw, f"{file}:")
        size = sum(file_sizes(os.path.join(folder, "variables")))
        return Description(folder, raw, None, _read_tasks(raw, [size], file))
    if raw.get("format") != FORMAT:
        raise UserError(
            f"{file}: an export of format {raw.get('format')!r}, not {FORMAT}; "
            "export all packs with --packs instead"
        )
    _check(raw, f"{file}:")
    config = config_from_export(raw["config"], f"{file}: config")
    if len(raw["tokens"]) > config.vocab_size:
        raise UserError(
            f"{file}: {len(raw['tokens']):,} tokens, but vocab_size is {config.vocab_size:,}"
        )
    tasks = _read_tasks(raw, _task_sizes(raw["values"], file), file)
    _check_classes(tasks, raw["values"], file)
    return Description(folder, raw, config, tasks)


def _read_tasks(
    raw: Mapping[str, Any], sizes: Sequence[int], file: str
) -> tuple[DescribedTask, ...]:
    names = [task["name"] for task in raw["tasks"]]
    if not names or len(set(names)) < len(names):
        raise UserError(f"{file}: expected tasks of different names")
    if len(sizes) != len(names):
        raise UserError(f"{file}: has {len(names)} tasks, but values of {len(sizes)}")
    return tuple(
        DescribedTask(
            task["name"],
            parse_pack(task["pack"], f"{file}: {task['name']}"),
            size,
            task.get(DROPPED, 0),
        )
        for task, size in zip(raw["tasks"], sizes, strict=True)
    )


def _task_sizes(layout: Mapping[str, Any], file: str) -> list[int]:
    """Returns the bytes of each task's own values; see `Values.layout`."""
    sizes = [_FLOAT * math.prod(shape) for shape in layout["shapes"]]
    paths, shared = layout["paths"], len(layout["paths"])
    if paths != sorted(paths):
        raise UserError(f"{file}: values: paths: expected their names in order")
    places = [(place, n) for numbers in layout["numbers"] for place, n in enumerate(numbers)]
    own = [n for place, n in places if n != place]
    is_whole = all(len(numbers) == shared for numbers in layout["numbers"])
    if not is_whole or own != list(range(shared, len(sizes))) or len(sizes) < shared:
        raise UserError(f"{file}: values: numbers: expected one of each of {len(sizes)} shapes")
    return [sum(sizes[n] for n in numbers if n >= shared) for numbers in layout["numbers"]]


def _check_classes(tasks: Sequence[DescribedTask], layout: Mapping[str, Any], file: str) -> None:
    """Refuses a number of classes that is not that of the head's outputs."""
    paths, shapes = layout["paths"], layout["shapes"]
    for task, numbers in zip(tasks, layout["numbers"], strict=True):
        classes = task.pack.head["settings"].get("classes")
        outputs = shapes[numbers[paths.index(_OUTPUTS)]] if _OUTPUTS in paths else []
        if classes is not None and outputs != [classes]:
            told = f"has {classes} classes, but outputs of the shape {outputs}"
            raise UserError(f"{file}: {task.name}: {told}")
