"""What a model answers to all rows of a set."""

import itertools

import numpy as np
import tensorflow as tf
import tf_keras

from adapter_bert_tf.data.batches import Batches
from adapter_bert_tf.tuning.task_model import TaskModel

# Sets of fewer batches need no progress bar.
_FEW = 100


def compute_outputs(model: TaskModel, batches: Batches) -> np.ndarray:
    """Returns the model's outputs, in the order of the file.

    Where they have a value for each position, what lies behind a row is the lowest number.
    """
    strategy = model.distribute_strategy
    several = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
    # Keras would give each worker its share of the rows only.
    alone = several or strategy.num_replicas_in_sync == 1
    plan = batches.by_length()
    parts = (_on_this_device if alone else _on_all_devices)(model, batches, plan)
    return _in_order(parts, np.concatenate(plan))


def _on_this_device(model: TaskModel, batches: Batches, plan: list[np.ndarray]) -> list[np.ndarray]:
    inputs = batches.dataset(plan).map(lambda inputs, *_: inputs)
    shown = len(plan) > _FEW
    progress = tf_keras.utils.Progbar(len(plan), unit_name="batch", interval=1, verbose=shown)
    parts = []
    for batch in inputs:
        parts.append(model.forward(batch).numpy())
        progress.add(1)
    return parts


def _on_all_devices(model: TaskModel, batches: Batches, plan: list[np.ndarray]) -> list[np.ndarray]:
    """Keras joins outputs of one length only, so it is called for each length."""
    parts = []
    for _, group in itertools.groupby(plan, batches.padded_length):
        inputs = batches.dataset(list(group)).map(lambda inputs, *_: inputs)
        parts.append(model.predict(inputs, verbose=0))
    return parts


def _in_order(parts: list[np.ndarray], order: np.ndarray) -> np.ndarray:
    rest = parts[0].shape[1:]
    if len(rest) > 1:
        rest = (max(part.shape[1] for part in parts), *rest[1:])
    outputs = np.full((len(order), *rest), np.finfo(parts[0].dtype).min, parts[0].dtype)
    done = 0
    for part in parts:
        rows = order[done : done + len(part)]
        # The last rows of the last batch may be there to fill it up only.
        if part.ndim == 1:
            outputs[rows] = part[: len(rows)]
        else:
            outputs[rows, : part.shape[1]] = part[: len(rows)]
        done += len(rows)
    return outputs
