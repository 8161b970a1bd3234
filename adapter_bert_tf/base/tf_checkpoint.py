"""A TF checkpoint on disk, TF1's or TF2's."""

import os
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from adapter_bert_tf.errors import UserError, first_line

# The reader turns TensorFlow's codes into whatever Python has that is near.
UNREADABLE = (tf.errors.OpError, ValueError, RuntimeError, LookupError, OSError)


def is_checkpoint(path: str) -> bool:
    """Whether `path` is the prefix of a TF checkpoint."""
    return os.path.exists(f"{path}.index")


class TfCheckpoint:
    """The tensors of a checkpoint by name; what can't be read is told in one line."""

    def __init__(self, prefix: str):
        self.prefix = prefix
        try:
            self._reader = tf.train.load_checkpoint(prefix)
        except UNREADABLE as error:
            reason = first_line(error)
            raise UserError(f"{prefix}: not a readable TF checkpoint: {reason}") from None
        self.shapes: dict[str, tuple[int, ...]] = {
            name: tuple(shape) for name, shape in self._reader.get_variable_to_shape_map().items()
        }

    def read(self, name: str) -> np.ndarray:
        """Returns the tensor called `name`."""
        try:
            return self._reader.get_tensor(name)
        except UNREADABLE as error:
            raise UserError(f"{self.prefix}: can't read {name}: {first_line(error)}") from None


def write_checkpoint(prefix: str, tensors: Mapping[str, np.ndarray]) -> None:
    """Writes a TF1 checkpoint.

    The op is the one behind TF1's Saver: it writes by name, where TF2's checkpoints write by
    object.
    """
    names = sorted(tensors)
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=[tensors[name] for name in names],
    )
