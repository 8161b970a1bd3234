"""What all heads have in common."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf
import tf_keras

from adapter_bert_tf.errors import UserError
from adapter_bert_tf.text.inputs import MASK
from adapter_bert_tf.text.tokenizer import Tokenizer

Metric = Callable[[np.ndarray, np.ndarray], float]
Answers = dict[str, tf.Tensor]


class Head(tf_keras.layers.Layer):
    """Maps the encoder's outputs to a task's, and knows all that belongs to its kind of task.

    A new kind is a subclass in a file of its own and a line in `kinds.py`.

    Attributes:
      kind: Its name in task packs and flags.
      tokens_read: How many of a row's tokens it reads, from the first; None for all. The last layer
        computes no others: 0.92 of the products of BERT-base, for a head on `[CLS]`.
      signature: The signature of an export that answers for it. Kinds that answer texts share
        one; another kind has its own, and an `answerer`.
      request: Names of the strings that a request gives for each row.
      is_exclusive: Whether a row has exactly one of the classes.
      label_type: Type of the labels in TFRecords.
      metrics: The metrics that it knows: from labels and outputs to a number.
      default_metrics: Names of those that are computed for your own files. The first one decides
        which epoch is the best.
    """

    kind: ClassVar[str]
    tokens_read: ClassVar[int | None] = 1
    signature: ClassVar[str] = "serving_default"
    request: ClassVar[tuple[str, ...]] = ("text", "text_pair")
    is_exclusive: ClassVar[bool] = False
    label_type: ClassVar[tf.DType] = tf.int64
    metrics: ClassVar[Mapping[str, Metric]]
    default_metrics: ClassVar[tuple[str, ...]]

    # Making one.

    @classmethod
    def make(cls, labels: Sequence[str], dropout: float) -> "Head":
        """Returns a new head for a task with these labels.

        Args:
          labels: Names of the classes.
          dropout: The base's rate of dropout.
        """
        raise NotImplementedError

    def settings(self) -> dict[str, Any]:
        """Returns the constructor's arguments, as a task pack keeps them."""
        raise NotImplementedError

    # Training and evaluation.

    def loss(self, labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Returns the loss of each example."""
        raise NotImplementedError

    def training_metrics(self) -> list[tf_keras.metrics.Metric]:
        """Returns the metrics that the progress bar shows."""
        return []

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The metrics that can be computed for its labels."""
        return tuple(self.metrics)

    def choose_metrics(
        self, names: Sequence[str] = (), first: str | None = None
    ) -> tuple[str, ...]:
        """Returns the names of the metrics to compute; the first one decides what is best.

        Args:
          names: The task's metrics; without any, the usual ones.
          first: The one that is asked to decide.
        """
        names = names or self.default_metrics
        if first is None:
            return tuple(names)
        if first not in self.metric_names:
            raise UserError(f"--metric={first}: expected one of {', '.join(self.metric_names)}")
        return (first, *(name for name in names if name != first))

    def evaluate(
        self, names: Sequence[str], labels: np.ndarray, outputs: np.ndarray
    ) -> Iterator[tuple[str, float]]:
        """Yields the metrics called `names`.

        A metric that is not defined, such as the correlation with values that are all equal, is 0.
        """
        for name in names:
            value = float(self.metrics[name](labels, outputs))
            yield name, value if math.isfinite(value) else 0.0

    # What becomes of outputs.

    @staticmethod
    def activate(logits: tf.Tensor) -> tf.Tensor:
        """Returns what a user sees of `[rows, classes]` logits: probabilities, or a value."""
        raise NotImplementedError

    @staticmethod
    def answers(values: tf.Tensor, labels: tf.Tensor) -> Answers:
        """Returns the outputs of the export's signature, a row each.

        Args:
          values: What `activate` returns, `[rows, columns]`. In an export there may be more
            columns than the task has classes; their values are 0.
          labels: The name of each column, `[rows, columns]`, with "" where there is none.
        """
        raise NotImplementedError

    @classmethod
    def predictions(cls, answers: Mapping[str, np.ndarray]) -> list[Any]:
        """Returns an object for each row of `answers`."""
        raise NotImplementedError

    @classmethod
    def table(cls, answers: Mapping[str, np.ndarray], labels: Sequence[str]) -> dict[str, list]:
        """Returns the columns that predictions add to a table, by name."""
        raise NotImplementedError

    @classmethod
    def answerer(
        cls,
        tasks: Sequence[tuple[str, Mapping[str, Any]]],
        tokenizer: Tokenizer,
        logits_of: Callable[..., tf.RaggedTensor],
    ) -> Callable[[dict[str, tf.Tensor], tf.Tensor], Answers]:
        """Returns what answers requests to a signature of its own.

        Args:
          tasks: Name and inputs of each task of this kind in the export.
          tokenizer: The base's tokenizer.
          logits_of: From ragged inputs, the task of each row and the number of logits to the
            logits of each token.

        Returns:
          A function of a request and the number of each row's task.
        """
        raise NotImplementedError

    # Keras.

    def ensure_built(self, hidden_size: int) -> None:
        """Creates the variables, if no call has done so yet."""
        if not self.built:
            self(
                {
                    "pooled_output": tf.zeros([1, hidden_size]),
                    "sequence_output": tf.zeros([1, 1, hidden_size]),
                    MASK: tf.ones([1, 1], tf.int32),
                }
            )

    def get_build_config(self):
        """Returns nothing: the model that the head belongs to builds it."""

    def get_config(self):
        return {**super().get_config(), **self.settings()}


def output_dense(units: int, name: str = "output") -> tf_keras.layers.Dense:
    """Returns a layer of a head, in float32 under every precision policy."""
    return tf_keras.layers.Dense(
        units,
        kernel_initializer=tf_keras.initializers.TruncatedNormal(stddev=0.02),
        name=name,
        dtype=tf.float32,
    )
