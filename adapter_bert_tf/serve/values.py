"""What the tasks bring."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

Arrays = dict[str, np.ndarray]

# The task, where there is one: nothing has to be looked up for each row then.
ONLY = 0

# Of the values' places, in numbers of 4 bytes.
_ALIGNMENT = 16


class Values:
    """The values that variables have for each task, end to end.

    No value is padded to the size of another's: tasks of any sizes go together, and take the
    room that they take. It is one variable, with another for the places in it, so that a part
    of the graph can do its work for all layers, and the graph does not grow with the tasks.

    Args:
      defaults: The values, by path, for tasks that bring none; vectors or matrices.
      tasks: What each task brings, by path; other paths than those are left out.
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
        self._places = tf.Variable(places[self._numbers], trainable=False)

    @property
    def tasks(self) -> int:
        """Number of tasks."""
        return len(self._numbers)

    @property
    def variables(self) -> tuple[tf.Variable, tf.Variable]:
        """The values, and their places, `[tasks, paths, 4]`: start, size, rows and columns."""
        return self._flat, self._places

    def number(self, path: str) -> int:
        """What `vector` and `matrix` know a path by, so that it can be an input of a graph."""
        return self._paths.index(path)

    def numbers(self, prefix: str, names: Sequence[str]) -> list[int]:
        """The numbers of a layer's variables."""
        return [self.number(f"{prefix}/{name}") for name in names]

    def vector(self, number: tf.Tensor | int, task: tf.Tensor | int) -> tf.Tensor:
        """The value of one task, which is a vector."""
        return self._slice(self._place(number, task))

    def matrix(self, number: tf.Tensor | int, task: tf.Tensor | int) -> tf.Tensor:
        """The value of one task, which is a matrix."""
        place = self._place(number, task)
        return tf.reshape(self._slice(place), place[2:])

    def vectors(self, number: tf.Tensor, tasks: tf.Tensor, width: int) -> tf.Tensor:
        """The values of several tasks, which are vectors of that width: `[tasks, width]`."""
        # Not from the variables: whoever reads one that was gathered from copies all of it.
        flat, places = self._flat.read_value(), self._places.read_value()
        starts = tf.gather(places, tasks)[:, number, 0]
        return tf.gather(flat, starts[:, None] + tf.range(width, dtype=tf.int64))

    def _place(self, number: tf.Tensor | int, task: tf.Tensor | int) -> tf.Tensor:
        return tf.gather_nd(self._places.read_value(), tf.stack([task, number]))

    def _slice(self, place: tf.Tensor) -> tf.Tensor:
        return tf.slice(self._flat, place[:1], place[1:2])

    def layout(self) -> dict[str, Any]:
        """What `split` needs to find the values again."""
        return {
            "paths": self._paths,
            "numbers": self._numbers.tolist(),
            "shapes": [list(shape) for shape in self._shapes],
        }


def split(flat: np.ndarray, layout: dict[str, Any]) -> tuple[Arrays, list[Arrays]]:
    """Returns what `Values` were made of: the defaults, and what each task brings."""
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
    """Where each entry starts, its size, and its rows and columns; a vector has one row."""
    sides = np.array([[1, *shape][-2:] for shape in shapes], np.int64)
    sizes = np.prod(sides, axis=1, keepdims=True)
    room = _aligned(sizes)
    return np.concatenate([np.cumsum(room, axis=0) - room, sizes, sides], axis=1)


def _room(places: np.ndarray) -> int:
    """What all entries take."""
    return int(_aligned(places[-1, :2].sum()))


def _aligned(size: Any) -> Any:
    """The next multiple of 64 bytes: what starts and ends at one is sliced without a copy."""
    return -(-size // _ALIGNMENT) * _ALIGNMENT
