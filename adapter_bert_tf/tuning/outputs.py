"""What a model says about all rows of a set."""

import itertools
from collections.abc import Callable

import numpy as np
import tensorflow as tf
import tf_keras

from adapter_bert_tf.data.batches import Batches
from adapter_bert_tf.tuning.task_model import TaskModel

# Sets with fewer batches need no progress bar.
_FEW = 100

Progress = Callable[[int], None]


def compute_outputs(
    model: TaskModel, batches: Batches, progress: Progress | None = None
) -> np.ndarray:
    """Returns the model's outputs in the order of the rows.

    Where there is an output for each position, those behind the end of a row are the lowest number.

    Args:
      model: The model.
      batches: The rows.
      progress: Is told how many rows are done; by default long sets show a progress bar.
    """
    strategy = model.distribute_strategy
    several = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
    # Keras would give each worker only its share of the rows.
    alone = several or strategy.num_replicas_in_sync == 1
    plan = batches.by_length()
    if progress is None:
        shown = len(plan) > _FEW
        bar = tf_keras.utils.Progbar(batches.rows, unit_name="row", interval=1, verbose=shown)
        progress = bar.add
    parts = (_on_this_device if alone else _on_all_devices)(model, batches, plan, progress)
    return _in_order(parts, np.concatenate(plan))


def _on_this_device(
    model: TaskModel, batches: Batches, plan: list[np.ndarray], progress: Progress
) -> list[np.ndarray]:
    inputs = batches.inputs(plan)
    parts = []
    for rows, batch in zip(plan, inputs, strict=True):
        parts.append(model.forward(batch).numpy())
        progress(len(rows))
    return parts


def _on_all_devices(
    model: TaskModel, batches: Batches, plan: list[np.ndarray], progress: Progress
) -> list[np.ndarray]:
    """Computes one length after another, because Keras joins only outputs of one length."""
    parts = []
    for _, group in itertools.groupby(plan, batches.padded_length):
        same_length = list(group)
        inputs = batches.inputs(same_length)
        parts.append(model.predict(inputs, verbose=0))
        progress(sum(map(len, same_length)))
    return parts


def _in_order(parts: list[np.ndarray], order: np.ndarray) -> np.ndarray:
    rest = parts[0].shape[1:]
    if len(rest) > 1:
        rest = (max(part.shape[1] for part in parts), *rest[1:])
    outputs = np.full((len(order), *rest), np.finfo(parts[0].dtype).min, parts[0].dtype)
    done = 0
    for part in parts:
        rows = order[done : done + len(part)]
        # The last rows of the last batch may only be there to fill it up.
        if part.ndim == 1:
            outputs[rows] = part[: len(rows)]
        else:
            outputs[rows, : part.shape[1]] = part[: len(rows)]
        done += len(rows)
    return outputs
