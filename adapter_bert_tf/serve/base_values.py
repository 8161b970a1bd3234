"""How the base's variables lie in an export: as is best for its products.

Query, key and value are one variable. The inner width is not a multiple of 512: rows that are
2 KB apart compete for few lines of the processor's cache, and oneDNN takes twice as long for a
short text and 3,072 columns, those of BERT-base, as for 3,080.
"""

import numpy as np

from adapter_bert_tf.serve.values import Arrays

_FEW_LINES, _MORE_COLUMNS = 512, 8
_TOGETHER, _PARTS = "/query_key_value/", ("/query/", "/key/", "/value/")


def served_width(inner_dim: int) -> int:
    """The inner width in an export; what is beyond the base's is 0 and adds nothing."""
    return inner_dim if inner_dim % _FEW_LINES else inner_dim + _MORE_COLUMNS


def to_served(values: Arrays) -> Arrays:
    """Returns an export's variables, given the base's."""
    first, *others = _PARTS
    served: Arrays = {}
    for path, value in values.items():
        if first in path:
            parts = [values[path.replace(first, part)] for part in _PARTS]
            served[path.replace(first, _TOGETHER)] = np.stack(parts, axis=-3)
        elif not any(part in path for part in others):
            served[path] = _widened(path, value)
    return served


def from_served(served: Arrays, inner_dim: int) -> Arrays:
    """Returns the base's variables, given an export's."""
    values: Arrays = {}
    for path, value in served.items():
        if _TOGETHER in path:
            for number, part in enumerate(_PARTS):
                values[path.replace(_TOGETHER, part)] = np.take(value, number, axis=-3)
        else:
            axis = _inner_axis(path)
            values[path] = value if axis is None else value.take(range(inner_dim), axis)
    return values


def _widened(path: str, value: np.ndarray) -> np.ndarray:
    axis = _inner_axis(path)
    if axis is None:
        return value
    room = [(0, 0)] * value.ndim
    room[axis] = (0, served_width(value.shape[axis]) - value.shape[axis])
    return np.pad(value, room)


def _inner_axis(path: str) -> int | None:
    """The axis that is as long as the inner width."""
    if "/intermediate/" in path:
        return -1
    return 0 if path.endswith("/output/kernel") else None
