"""What the tasks have for one variable."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf


class Table:
    """The values that a variable has for each task, end to end.

    Nothing is padded: tasks of any sizes share a table, and it takes the room that they take.

    Args:
      default: The value for tasks that bring none.
      arrays: The value of each task, or None.
    """

    def __init__(self, default: np.ndarray, arrays: Sequence[np.ndarray | None]):
        brought = [array for array in arrays if array is not None]
        entries = [default, *brought]
        places = iter(range(1, len(entries)))
        self._numbers = np.array([0 if a is None else next(places) for a in arrays], np.int32)
        self._shapes = np.array([entry.shape for entry in entries], np.int64)
        self._sizes = np.prod(self._shapes, axis=1, dtype=np.int64)
        self._starts = np.cumsum(self._sizes) - self._sizes
        flat = np.concatenate([np.ravel(entry) for entry in entries])
        self.variable = tf.Variable(flat, trainable=False, dtype=tf.float32)

    def of(self, task: tf.Tensor) -> tf.Tensor:
        """The value of one task."""
        number = tf.gather(self._numbers, task)
        start, size = tf.gather(self._starts, number), tf.gather(self._sizes, number)
        value = tf.slice(self.variable, start[None], size[None])
        return tf.reshape(value, tf.gather(self._shapes, number))

    def of_each(self, tasks: tf.Tensor) -> tf.Tensor:
        """The values of several tasks, where all values have one shape."""
        entries = tf.reshape(self.variable, [-1, *self._shapes[0]])
        return tf.gather(entries, tf.gather(self._numbers, tasks))

    def layout(self) -> dict[str, Any]:
        """What `split` needs to find the values again."""
        return {"numbers": self._numbers.tolist(), "shapes": self._shapes.tolist()}


def split(flat: np.ndarray, layout: dict[str, Any]) -> tuple[np.ndarray, list[np.ndarray | None]]:
    """Returns the default and the arrays that a table was made of."""
    shapes = [tuple(shape) for shape in layout["shapes"]]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    entries = [
        part.reshape(shape) for part, shape in zip(np.split(flat, ends[:-1]), shapes, strict=True)
    ]
    return entries[0], [entries[number] if number else None for number in layout["numbers"]]
