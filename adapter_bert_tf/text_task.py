"""What all tasks on texts have in common: texts in, answers out."""

import abc
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from adapter_bert_tf.checks import BATCH_SIZE
from adapter_bert_tf.data.examples import Examples
from adapter_bert_tf.data.memory import Tabular, to_table
from adapter_bert_tf.data.sources import OwnFiles
from adapter_bert_tf.data.task import DEV
from adapter_bert_tf.heads.head import Answers, Head
from adapter_bert_tf.heads.kinds import TEXT_LABELS
from adapter_bert_tf.text.inputs import check_texts
from adapter_bert_tf.tuning.outputs import Progress

# Texts that are prepared and sorted by length together: memory stays level for longer lists.
_TOGETHER = 4096


class TextTask(abc.ABC):
    """A model that answers texts, with what is needed to ask it.

    Args:
      name: Name of the task.
      labels: Names of the classes.
      inputs: How texts become inputs, as a task pack keeps it.
      metrics: Metrics that the model reached.
    """

    def __init__(
        self,
        name: str | None,
        labels: Sequence[str],
        inputs: Mapping[str, Any] | None,
        metrics: Mapping[str, float] | None,
    ):
        self.name = name
        self.labels = tuple(labels)
        self.metrics = dict(metrics or {})
        self.settings = dict(inputs or {})

    @property
    @abc.abstractmethod
    def head(self) -> Head:
        """What belongs to the kind of task."""

    @abc.abstractmethod
    def _outputs(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None,
        batch_size: int,
        progress: Progress | None,
    ) -> np.ndarray:
        """Returns the model's outputs, a row for each text."""

    @property
    def takes_pairs(self) -> bool | None:
        """Whether its rows are pairs of texts; None if its pack does not say it."""
        return self.settings.get("pair")

    def predict(
        self, texts: Sequence[str], pairs: Sequence[str] | None = None, batch_size: int = 64
    ) -> list[Any]:
        """Returns a prediction for each text.

        Rows are sorted by length, so that little is padded, and long lists show their progress.

        Args:
          texts: The texts.
          pairs: The second texts, for a task on pairs.
          batch_size: Rows of a batch.

        Returns:
          For classes `Prediction(label, score, probabilities)`, for a regression `Value(value)`;
          see the head's `predictions`.
        """
        return self.head.predictions(self.answers(texts, pairs, batch_size))

    def answers(
        self, texts: Sequence[str], pairs: Sequence[str] | None = None, batch_size: int = 64
    ) -> dict[str, np.ndarray]:
        """Returns what `predict` says as arrays, by the names of an export's outputs."""
        self.check_texts(texts, pairs)
        BATCH_SIZE(batch_size, "batch_size")
        shown = len(texts) > _TOGETHER
        bar = tf_keras.utils.Progbar(len(texts), unit_name="text", interval=1, verbose=shown)
        parts = [
            self._outputs(texts[rows], None if pairs is None else pairs[rows], batch_size, bar.add)
            for rows in _chunks(len(texts))
        ]
        return self.to_answers(np.concatenate(parts)) if parts else self._no_answers()

    def to_answers(self, outputs: np.ndarray) -> dict[str, np.ndarray]:
        """Returns what users see of the model's outputs."""
        logits = tf.reshape(tf.constant(outputs, tf.float32), [len(outputs), -1])
        names = self.labels or [""] * logits.shape[1]
        labels = tf.tile(tf.constant(names)[None], [len(outputs), 1])
        answers: Answers = self.head.answers(self.head.activate(logits), labels)
        return {name: values.numpy() for name, values in answers.items()}

    def _no_answers(self) -> dict[str, np.ndarray]:
        columns = max(1, len(self.labels))
        return {
            name: values[:0] for name, values in self.to_answers(np.zeros([1, columns])).items()
        }

    def evaluate(
        self,
        examples: Tabular,
        *,
        text_column: str | None = None,
        text_pair_column: str | None = None,
        label_column: str | Sequence[str] | None = None,
        label_separator: str | None = None,
        batch_size: int = 64,
    ) -> dict[str, float]:
        """Scores the model.

        Args:
          examples: A path, a pandas DataFrame, a list of `(text, label)` or `(text, pair, label)`,
            or a `tf.data.Dataset` of dictionaries.
          text_column: Column of the text, if it can't be guessed.
          text_pair_column: Column of the second text.
          label_column: Column of the labels, or several.
          label_separator: What separates several labels in a cell.
          batch_size: Rows of a batch.

        Returns:
          The metrics by name: those that the task pack has, or else the usual ones of its kind.
        """
        self._check_takes_texts()
        source = OwnFiles(
            {DEV: to_table(examples)},
            TEXT_LABELS,
            text_column=text_column,
            pair_column=text_pair_column,
            label_columns=[label_column] if isinstance(label_column, str) else label_column,
            separator=label_separator,
            kind=self.head.kind,
            labels=self.labels,
        )
        return self.score(source.read(DEV), batch_size)

    def score(self, examples: Examples, batch_size: int = 64) -> dict[str, float]:
        """Scores the model on examples whose labels are numbers of classes, or values."""
        pairs = None if self.takes_pairs is False else examples.pairs
        self.check_texts(examples.texts, pairs)
        parts = [
            self._outputs(examples.texts[rows], pairs and pairs[rows], batch_size, None)
            for rows in _chunks(len(examples))
        ]
        outputs = np.concatenate(parts)
        return dict(self.head.evaluate(self.metric_names, np.array(examples.labels), outputs))

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Names of the metrics that `evaluate` computes."""
        known = tuple(name for name in self.metrics if name in self.head.metrics)
        return known or self.head.default_metrics

    def _check_takes_texts(self) -> None:  # noqa: B027 - most tasks do.
        """Refuses, if the task is on something else than texts."""

    def check_texts(self, texts: Sequence[str], pairs: Sequence[str] | None) -> None:
        """Refuses what are no texts, and second texts where the task has none, or the reverse."""
        self._check_takes_texts()
        check_texts(self.name, self.takes_pairs, texts, pairs)

    def __repr__(self) -> str:
        return f"Task({self.name!r}, {self.head.kind}, {len(self.labels)} labels)"


def _chunks(total: int) -> Iterator[slice]:
    for start in range(0, total, _TOGETHER):
        yield slice(start, start + _TOGETHER)
