"""The head for several labels at once: each is there or not."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tf_keras

from adapter_bert_tf.heads.classification import ClassificationHead, probability_columns
from adapter_bert_tf.heads.head import Metric

# A label is there if it is at least as probable as not.
_THRESHOLD = 0.5


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
