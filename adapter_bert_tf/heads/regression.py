"""The head for one number."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tf_keras

from adapter_bert_tf.heads.head import Head, Metric
from adapter_bert_tf.heads.text import TextForm, TextHead


class Value(NamedTuple):
    """The number that a regression gives for a text.

    Attributes:
      value: The number.
    """

    value: float


def _correlation(metric: str) -> Metric:
    def compute(labels: np.ndarray, values: np.ndarray) -> float:
        # Imported here, because serving and training do without it.
        import scipy.stats

        if len(labels) < 2:  # What SciPy does not take; it has a NaN for other undefined ones.
            return np.nan
        return getattr(scipy.stats, metric)(labels, np.ravel(values))[0]

    return compute


@tf_keras.utils.register_keras_serializable(package="adapter_bert_tf")
class RegressionHead(TextHead):
    """Pooled output -> dropout -> a number, as for STS-B.

    Args:
      dropout: Rate of the dropout on the pooled output.
      pooler, hidden_layers, activation: See `TextForm`.
    """

    kind = "regression"
    label_type = tf.float32
    metrics = {  # noqa: RUF012
        "pearson": _correlation("pearsonr"),
        "spearman": _correlation("spearmanr"),
    }
    default_metrics = ("pearson", "spearman")

    def __init__(
        self,
        dropout: float = 0.1,
        pooler: bool = True,
        hidden_layers: int = 0,
        activation: str = "tanh",
        name: str = "head",
        **kwargs,
    ):
        form = TextForm(pooler, hidden_layers, activation)
        super().__init__(1, dropout, form, name=name, **kwargs)

    @classmethod
    def make(cls, labels: Sequence[str], dropout: float) -> Head:
        return cls(dropout)

    def call(self, encoded: dict[str, tf.Tensor]) -> tf.Tensor:
        return tf.squeeze(self.logits(encoded), axis=-1)

    def loss(self, labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Returns the squared error."""
        # A column of outputs would be compared with every label.
        labels, outputs = (
            tf.reshape(tf.cast(each, tf.float32), [-1]) for each in (labels, outputs)
        )
        return tf.math.squared_difference(labels, outputs)

    @staticmethod
    def activate(logits: tf.Tensor) -> tf.Tensor:
        return logits

    @staticmethod
    def answers(values: tf.Tensor, labels: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"value": values[:, 0]}

    @classmethod
    def predictions(cls, answers: Mapping[str, np.ndarray]) -> list[Value]:
        return [Value(value) for value in answers["value"].tolist()]

    @classmethod
    def table(cls, answers: Mapping[str, np.ndarray], labels: Sequence[str]) -> dict[str, list]:
        return {"value": answers["value"].tolist()}
