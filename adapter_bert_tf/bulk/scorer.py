"""An export that scores rows."""

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401 - An export has operations of it.

from adapter_bert_tf.bulk.rows import Row
from adapter_bert_tf.heads.head import Head
from adapter_bert_tf.heads.kinds import HEADS
from adapter_bert_tf.pack.pack import Pack
from adapter_bert_tf.serve.requests import TASK, TEXT, TEXT_PAIR


class Scorer:
    """A task of an export, loaded.

    Args:
      export_dir: The export.
      task: Name of the task.
      pack: What the export says of the task.
    """

    def __init__(self, export_dir: str, task: str, pack: Pack):
        self._export, self._task, self._pack = tf.saved_model.load(export_dir), task, pack
        self._signature = self._export.signatures[Head.signature]
        self._inputs = self._signature.structured_input_signature[1]

    def __call__(self, rows: Sequence[Row]) -> dict[str, list]:
        """Returns the columns that the predictions for some rows add to them."""
        given = {
            TEXT: [row.text for row in rows],
            TEXT_PAIR: [row.pair or "" for row in rows],
            TASK: [self._task] * len(rows),
        }
        request = {name: tf.constant(given[name]) for name in self._inputs}
        answers = self._signature(**request)
        return _table(self._pack, {name: value.numpy() for name, value in answers.items()})


def column_names(pack: Pack) -> list[str]:
    """Returns the names of the columns that a task's predictions add."""
    head, labels = HEADS[pack.kind], pack.class_names
    logits = tf.zeros([1, max(1, len(labels))])
    answers = head.answers(head.activate(logits), tf.constant([labels or [""]]))
    return list(_table(pack, {name: value.numpy() for name, value in answers.items()}))


def _table(pack: Pack, answers: Mapping[str, np.ndarray]) -> dict[str, list]:
    # An export's outputs are as wide as its task with the most labels.
    count = len(pack.class_names)
    own = {name: value[:, :count] if value.ndim > 1 else value for name, value in answers.items()}
    return HEADS[pack.kind].table(own, pack.class_names)
