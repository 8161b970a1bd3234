"""The head for several labels at once: each is there or not."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tf_keras

from adapter_bert_tf.data.examples import LabelColumns
from adapter_bert_tf.errors import UserError, some
from adapter_bert_tf.heads.classification import ClassificationHead, probability_columns
from adapter_bert_tf.heads.head import Metric

# A label is there if it is at least as probable as not.
_THRESHOLD = 0.5
# What people write in a column for a label that is there, and for one that is not.
_YES, _NO = ("1", "1.0", "true", "yes", "y", "x"), ("0", "0.0", "false", "no", "n", "")


class LabelsPrediction(NamedTuple):
    """The labels of a text.

    Attributes:
      labels: The labels that are there.
      probabilities: The probability of each label, in the order of the task's labels.
    """

    labels: tuple[str, ...]
    probabilities: tuple[float, ...]


def _of_labels(metric: str, **options) -> Metric:
    def compute(labels: np.ndarray, logits: np.ndarray) -> float:
        # Imported here, because serving and training do without it.
        import sklearn.metrics

        # A logit of 0 is a probability of one half.
        return getattr(sklearn.metrics, metric)(labels > 0.5, logits >= 0, **options)

    return compute


@tf_keras.utils.register_keras_serializable(package="adapter_bert_tf")
class MultiLabelHead(ClassificationHead):
    """Pooled output -> dropout -> a logit for each label, each with its own probability.

    In your own files, labels are separated by a character (`--label_separator`), or there is a
    column for each (`--label_column=toxic,insult`).

    Args:
      classes: Number of labels.
      dropout: Rate of the dropout on the pooled output.
      pooler, hidden_layers, activation: See `TextForm`.
    """

    kind = "multi_label"
    is_exclusive = False
    label_type = tf.float32
    metrics = {  # noqa: RUF012
        "micro_f1": _of_labels("f1_score", average="micro", zero_division=0),
        "macro_f1": _of_labels("f1_score", average="macro", zero_division=0),
        "exact_match": _of_labels("accuracy_score"),
    }
    default_metrics = ("micro_f1", "macro_f1")

    @classmethod
    def recognizes(cls, columns: LabelColumns) -> bool:
        return columns.separator is not None or len(columns.names) > 1

    @classmethod
    def labels_in(cls, columns: LabelColumns) -> tuple[str, ...]:
        if columns.separator is None:
            if len(columns.names) < 2:
                raise UserError(
                    f"{columns.path}: several labels need --label_separator, or a column for each"
                )
            return columns.names
        labels = {label for (cell,) in columns.cells for label in _split(cell, columns.separator)}
        if not labels:
            raise UserError(f"{columns.path}: column {columns.names[0]!r} has no labels")
        return tuple(sorted(labels))

    @classmethod
    def read_label(
        cls, cells: tuple[str, ...], labels: Sequence[str], columns: LabelColumns
    ) -> list[float]:
        if columns.separator is None:
            if set(columns.names) != set(labels):
                raise ValueError(f"label columns {columns.names}; expected {some(labels, 20)}")
            found = dict(zip(columns.names, cells, strict=True))
            return [_yes_or_no(found[name], name) for name in labels]
        there = set(_split(cells[0], columns.separator))
        unknown = there - set(labels)
        if unknown:
            raise ValueError(f"unknown label {min(unknown)!r}; known are {some(labels, 20)}")
        return [float(label in there) for label in labels]

    def loss(self, labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Returns the mean binary cross entropy of the labels, which are 0 or 1."""
        labels = tf.reshape(tf.cast(labels, tf.float32), tf.shape(outputs))
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, outputs)
        return tf.reduce_mean(losses, axis=-1)

    def training_metrics(self) -> list[tf_keras.metrics.Metric]:
        return []

    @staticmethod
    def activate(logits: tf.Tensor) -> tf.Tensor:
        return tf.sigmoid(logits)

    @staticmethod
    def answers(values: tf.Tensor, labels: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"probabilities": values, "present": values >= _THRESHOLD, "labels": labels}

    @classmethod
    def predictions(cls, answers: Mapping[str, np.ndarray]) -> list[LabelsPrediction]:
        names = np.char.decode(answers["labels"].astype(bytes), "utf-8")
        return [
            LabelsPrediction(tuple(row[there].tolist()), tuple(probabilities))
            for row, there, probabilities in zip(
                names, answers["present"], answers["probabilities"].tolist(), strict=True
            )
        ]

    @classmethod
    def table(cls, answers: Mapping[str, np.ndarray], labels: Sequence[str]) -> dict[str, list]:
        found = cls.predictions(answers)
        return {
            "labels": [",".join(prediction.labels) for prediction in found],
            **probability_columns(answers["probabilities"], labels),
        }


def _split(cell: str, separator: str) -> list[str]:
    return [label for part in cell.split(separator) if (label := part.strip())]


def _yes_or_no(cell: str, name: str) -> float:
    value = cell.strip().lower()
    if value not in (*_YES, *_NO):
        raise ValueError(f"column {name!r} has {cell!r}; expected 0 or 1")
    return float(value in _YES)
