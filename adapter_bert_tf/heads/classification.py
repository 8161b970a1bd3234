"""The head for classes."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tf_keras

from adapter_bert_tf.heads.head import Head, Metric
from adapter_bert_tf.heads.kinds import CLASSES
from adapter_bert_tf.heads.text import TextForm, TextHead


class Prediction(NamedTuple):
    """The class of a text.

    Attributes:
      label: The most probable label.
      score: Its probability.
      probabilities: The probability of each label, in the order of the task's labels.
    """

    label: str
    score: float
    probabilities: tuple[float, ...]


def _of_classes(metric: str, **options) -> Metric:
    def compute(labels: np.ndarray, logits: np.ndarray) -> float:
        # Imported here, because it takes 40 MB that serving and training do without.
        import sklearn.metrics

        return getattr(sklearn.metrics, metric)(labels, np.argmax(logits, axis=-1), **options)

    return compute


@tf_keras.utils.register_keras_serializable(package="adapter_bert_tf")
class ClassificationHead(TextHead):
    """Pooled output -> dropout -> a logit for each class.

    Args:
      classes: Number of classes.
      dropout: Rate of the dropout on the pooled output.
      pooler, hidden_layers, activation: See `TextForm`.
    """

    kind = "classification"
    is_exclusive = True
    metrics = {  # noqa: RUF012
        "accuracy": _of_classes("accuracy_score"),
        "f1": _of_classes("f1_score"),
        "macro_f1": _of_classes("f1_score", average="macro", zero_division=0),
        "matthews": _of_classes("matthews_corrcoef"),
    }
    default_metrics = ("accuracy", "macro_f1")

    def __init__(
        self,
        classes: int,
        dropout: float = 0.1,
        pooler: bool = True,
        hidden_layers: int = 0,
        activation: str = "tanh",
        name: str = "head",
        **kwargs,
    ):
        CLASSES(classes, "classes")
        form = TextForm(pooler, hidden_layers, activation)
        super().__init__(classes, dropout, form, name=name, **kwargs)
        self.classes = classes

    @property
    def metric_names(self) -> tuple[str, ...]:
        # The F1 of one class, which is the second of two.
        return tuple(name for name in self.metrics if name != "f1" or self.classes == 2)

    @classmethod
    def make(cls, labels: Sequence[str], dropout: float) -> Head:
        return cls(len(labels), dropout)

    def settings(self) -> dict[str, Any]:
        return {"classes": self.classes, **super().settings()}

    def call(self, encoded: dict[str, tf.Tensor]) -> tf.Tensor:
        return self.logits(encoded)

    def loss(self, labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Returns the cross entropy; `labels` are numbers of classes."""
        labels = tf.reshape(tf.cast(labels, tf.int32), [-1])
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, outputs)

    def training_metrics(self) -> list[tf_keras.metrics.Metric]:
        return [tf_keras.metrics.SparseCategoricalAccuracy("accuracy")]

    @staticmethod
    def activate(logits: tf.Tensor) -> tf.Tensor:
        return tf.nn.softmax(logits)

    @staticmethod
    def answers(values: tf.Tensor, labels: tf.Tensor) -> dict[str, tf.Tensor]:
        best = tf.argmax(values, axis=1, output_type=tf.int32)
        return {
            "label": tf.gather(labels, best, axis=1, batch_dims=1),
            "score": tf.reduce_max(values, axis=1),
            "probabilities": values,
        }

    @classmethod
    def predictions(cls, answers: Mapping[str, np.ndarray]) -> list[Any]:
        return [
            Prediction(label.decode(), score, tuple(probabilities))
            for label, score, probabilities in zip(
                answers["label"].tolist(),
                answers["score"].tolist(),
                answers["probabilities"].tolist(),
                strict=True,
            )
        ]

    @classmethod
    def table(cls, answers: Mapping[str, np.ndarray], labels: Sequence[str]) -> dict[str, list]:
        return {
            "label": [label.decode() for label in answers["label"].tolist()],
            "score": answers["score"].tolist(),
            **probability_columns(answers["probabilities"], labels),
        }


def probability_columns(probabilities: np.ndarray, labels: Sequence[str]) -> dict[str, list]:
    """Returns a column for the probability of each label."""
    columns = probabilities.T.tolist()
    return {f"probability_{label}": column for label, column in zip(labels, columns, strict=True)}
