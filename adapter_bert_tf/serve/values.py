"""The values of an export's variables: those of the tasks, and those of the base.

Each task has its own LayerNorms, adapters and head. `Values` holds them in one variable. The base
is stored in a form that is faster to compute with: see `to_served`.
"""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

Arrays = dict[str, np.ndarray]

# The number of the only task. With a single task, nothing has to be looked up for each row.
ONLY = 0

# Each value starts at a multiple of this many floats, which are 64 bytes.
_ALIGNMENT = 16


class Values:
    """The values of the variables that differ between tasks.

    All values are concatenated in one variable, and a second variable says where each of them
    starts. So tasks with adapters and heads of any size can be served together without padding.
    The graph does not grow with the number of tasks, and one function can compute all layers.

    Args:
      defaults: The values by path, which are vectors or matrices, for tasks that have no own.
      tasks: The values of each task by path. Paths that have no default are left out.
    """

    def __init__(self, defaults: Arrays, tasks: Sequence[Arrays]):
        self._paths = list(defaults)
        brought = [
            (i, path) for i, task in enumerate(tasks) for path in self._paths if path in task
        ]
        entries = [*defaults.values(), *(tasks[i][path] for i, path in brought)]
        self._numbers = np.tile(np.arange(len(self._paths)), [len(tasks), 1])
        for number, (task, path) in enumerate(brought, start=len(self._paths)):
            self._numbers[task, self._paths.index(path)] = number
        self._shapes = [entry.shape for entry in entries]
        places = _places(self._shapes)
        flat = np.zeros(_room(places), np.float32)
        for (start, size, *_), entry in zip(places, entries, strict=True):
            flat[start : start + size] = np.ravel(entry)
        self._flat = tf.Variable(flat, trainable=False)
        # As a constant, the places of a single task are looked up once, when the graph is loaded.
        hold = tf.constant if len(tasks) == 1 else functools.partial(tf.Variable, trainable=False)
        self._places = hold(places[self._numbers])

    @property
    def tasks(self) -> int:
        """Number of tasks."""
        return len(self._numbers)

    @property
    def tracked(self) -> tuple[tf.Variable, tf.Variable | tf.Tensor]:
        """What a SavedModel keeps: the values, and their places.

        The places are `[tasks, paths, 4]`: the start, the size, the rows and the columns.
        """
        return self._flat, self._places

    def number(self, path: str) -> int:
        """Returns the number that `of_task` takes for a path."""
        return self._paths.index(path)

    def numbers(self, prefix: str, names: Sequence[str]) -> list[int]:
        """Returns the numbers of several variables of a layer."""
        return [self.number(f"{prefix}/{name}") for name in names]

    def of_task(
        self, numbers: tf.Tensor, task: tf.Tensor | int, ranks: Sequence[int]
    ) -> list[tf.Tensor]:
        """Returns one task's values of several variables.

        They are looked up together: one by one, the graph of BERT-base had a sixth more operations.

        Args:
          numbers: Numbers of the variables, `[variables]`.
          task: The task.
          ranks: For each variable, 1 if it is a vector, and 2 if it is a matrix.
        """
        count, flat = len(ranks), tf.convert_to_tensor(self._flat)
        places = tf.gather(tf.gather(tf.convert_to_tensor(self._places), task), numbers)
        parts = tf.split(tf.reshape(places, [-1]), [1, 1, 2] * count)
        starts, sizes, sides = (parts[column::3] for column in range(3))
        slices = [tf.slice(flat, start, size) for start, size in zip(starts, sizes, strict=True)]
        return [
            tf.reshape(each, shape) if rank == 2 else each
            for each, shape, rank in zip(slices, sides, ranks, strict=True)
        ]

    def layout(self) -> dict[str, Any]:
        """Returns what `split` needs in order to find the values again."""
        return {
            "paths": self._paths,
            "numbers": self._numbers.tolist(),
            "shapes": [list(shape) for shape in self._shapes],
        }


def split(flat: np.ndarray, layout: dict[str, Any]) -> tuple[Arrays, list[Arrays]]:
    """Returns the defaults and the values of each task, from which `Values` were made."""
    paths, shapes = layout["paths"], layout["shapes"]
    places = _places(shapes)
    if len(flat) != _room(places):
        raise ValueError(f"{len(flat)} values instead of {_room(places)}")
    entries = [
        flat[start : start + size].reshape(shape)
        for (start, size, *_), shape in zip(places, shapes, strict=True)
    ]
    tasks = [
        {path: entries[n] for path, n in zip(paths, numbers, strict=True) if n >= len(paths)}
        for numbers in layout["numbers"]
    ]
    return dict(zip(paths, entries, strict=False)), tasks


def _places(shapes: Sequence[Sequence[int]]) -> np.ndarray:
    """Returns the start, size, rows and columns of each value. A vector has one row."""
    sides = np.array([[1, *shape][-2:] for shape in shapes], np.int64)
    sizes = np.prod(sides, axis=1, keepdims=True)
    room = _aligned(sizes)
    return np.concatenate([np.cumsum(room, axis=0) - room, sizes, sides], axis=1)


def _room(places: np.ndarray) -> int:
    """Returns the number of floats that all values take."""
    return int(_aligned(places[-1, :2].sum()))


def _aligned(size: Any) -> Any:
    """Rounds up to 64 bytes. A slice that starts and ends at a multiple of it is not copied."""
    return -(-size // _ALIGNMENT) * _ALIGNMENT


# Rows that are a multiple of 2 KB apart compete for few lines of the CPU's cache. For a short text,
# oneDNN takes twice as long with 3,072 columns, as BERT-base has, as with 3,080.
_FEW_LINES, _MORE_COLUMNS = 512, 8
# One product computes queries, keys and values: see `attention.py`. Exports of before have them
# under another name, with the heads behind the width.
_TOGETHER, _TOGETHER_BEFORE = "/by_head/", "/query_key_value/"
_PARTS = ("/query/", "/key/", "/value/")


def served_width(inner_dim: int) -> int:
    """Returns the width between the feed-forward projections in an export.

    It may be larger than the base's. The additional columns are 0 and add nothing.
    """
    return inner_dim if inner_dim % _FEW_LINES else inner_dim + _MORE_COLUMNS


def to_served(values: Arrays) -> Arrays:
    """Turns the base's variables into an export's."""
    first, *others = _PARTS
    served: Arrays = {}
    for path, value in values.items():
        if first in path:
            parts = [values[path.replace(first, part)] for part in _PARTS]
            served[path.replace(first, _TOGETHER)] = np.stack([_by_head(part) for part in parts])
        elif not any(part in path for part in others):
            served[path] = _widened(path, value)
    return served


def from_served(served: Arrays, inner_dim: int) -> Arrays:
    """Turns an export's variables back into the base's."""
    values: Arrays = {}
    for path, value in served.items():
        if _TOGETHER in path:
            for part, own in zip(_PARTS, value, strict=True):
                values[path.replace(_TOGETHER, part)] = _by_head(own)
        elif _TOGETHER_BEFORE in path:
            for number, part in enumerate(_PARTS):
                values[path.replace(_TOGETHER_BEFORE, part)] = np.take(value, number, axis=-3)
        else:
            axis = _inner_axis(path)
            values[path] = value if axis is None else value.take(range(inner_dim), axis)
    return values


def _by_head(value: np.ndarray) -> np.ndarray:
    """Swaps width and heads of a kernel, `[width, heads, size]`. A bias is returned as it is."""
    return value if value.ndim == 2 else np.ascontiguousarray(value.swapaxes(0, 1))


def _widened(path: str, value: np.ndarray) -> np.ndarray:
    axis = _inner_axis(path)
    if axis is None:
        return value
    room = [(0, 0)] * value.ndim
    room[axis] = (0, served_width(value.shape[axis]) - value.shape[axis])
    return np.pad(value, room)


def _inner_axis(path: str) -> int | None:
    """Returns the axis of a variable whose length is the inner width, or None."""
    if "/intermediate/" in path:
        return -1
    return 0 if path.endswith("/output/kernel") else None
