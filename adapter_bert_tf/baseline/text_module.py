"""What all text modules have in common: texts in, vectors out, in the graph."""

import abc
import contextlib
import copy
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from adapter_bert_tf.baseline.words import split_words
from adapter_bert_tf.text.ragged import row_of

# Texts that are embedded together, outside of training.
_TOGETHER = 256


class TextModule(tf.Module, abc.ABC):
    """Turns texts into vectors.

    Args:
      name: Its name, as in `modules.py`.

    Attributes:
      origin: Its name.
      width: Width of the vectors.
    """

    width: int

    def __init__(self, name: str):
        super().__init__()
        self.origin = name

    @property
    @abc.abstractmethod
    def fingerprint(self) -> str:
        """Identifies its values."""

    @abc.abstractmethod
    def embed(self, texts: tf.Tensor) -> tf.Tensor:
        """Returns a vector for each text, `[texts, width]`."""

    def tuned(self) -> list[tf.Variable]:
        """Returns the variables that fine-tuning trains."""
        return []

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Gives the variables their values again when a training is over."""
        before = [variable.numpy() for variable in self.tuned()]
        try:
            yield
        finally:
            for variable, value in zip(self.tuned(), before, strict=True):
                variable.assign(value)

    def tracked(self) -> list:
        """Returns what a SavedModel has to keep of it: variables and tables."""
        return list(self.variables)

    def as_read(self, texts: tf.Tensor) -> tf.Tensor:
        """Returns texts without what the module does not tell apart, so that less is computed."""
        return texts

    def embed_words(self, texts: tf.Tensor, most: int) -> tf.RaggedTensor:
        """Returns a vector for each of the first words, `[texts, (words), width]`.

        A word is embedded as a text of its own, also by a sentence encoder.

        Args:
          texts: The texts.
          most: How many words of a text are embedded.
        """
        words = split_words(texts)[:, :most]
        distinct, places = tf.unique(self.as_read(words.flat_values))
        return words.with_values(tf.gather(self.embed(distinct), places))

    def embed_all(self, texts: tf.Tensor) -> np.ndarray:
        """Embeds any number of texts, those of similar lengths together."""
        order = np.argsort(tf.strings.length(texts).numpy(), kind="stable")
        vectors = np.zeros([len(order), self.width], np.float32)
        embed = tf.function(self.embed, [tf.TensorSpec([None], tf.string)], autograph=False)
        for start in range(0, len(order), _TOGETHER):
            rows = order[start : start + _TOGETHER]
            vectors[rows] = embed(tf.gather(texts, rows)).numpy()
        return vectors


class TableModule(TextModule):
    """A module that is a table of words.

    Args:
      name: Its name.
      table: The vectors, a row for each word.
    """

    def __init__(self, name: str, table: np.ndarray):
        super().__init__(name)
        self.values = table
        self.width = table.shape[1]

    @abc.abstractmethod
    def rows(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Returns the table's row of each word, `[texts, (words)]`."""

    @property
    def table(self) -> tf.Variable:
        """The table as a variable: training needs none, as it uses a few of the rows."""
        if not hasattr(self, "_table"):
            self._table = tf.Variable(self.values, trainable=False)
        return self._table

    def with_rows(self, rows: np.ndarray, values: np.ndarray) -> "TableModule":
        """Returns the same module with other vectors for some of its words."""
        changed = copy.copy(self)
        changed.values = self.values.copy()
        changed.values[rows] = values
        changed.__dict__.pop("_table", None)
        return changed

    def tracked(self) -> list:
        return [self.table]

    def embed(self, texts: tf.Tensor) -> tf.Tensor:
        return pool(self.table, self.rows(texts))

    def embed_words(self, texts: tf.Tensor, most: int) -> tf.RaggedTensor:
        rows = self.rows(texts)[:, :most]
        return rows.with_values(tf.gather(self.table, rows.flat_values))


def pool(table: tf.Tensor, rows: tf.RaggedTensor, is_sparse: bool = True) -> tf.Tensor:
    """Returns the sum of a text's rows over the square root of their number, as TF-Hub's do.

    Args:
      table: The table.
      rows: The table's rows of each text.
      is_sparse: Whether the table's gradient has only the rows that were looked up.
    """
    # One kernel looks up and sums.
    return tf.sparse.segment_sqrt_n(
        table,
        tf.cast(rows.flat_values, tf.int32),
        row_of(rows.row_splits),
        num_segments=tf.cast(rows.nrows(), tf.int32),
        sparse_gradient=is_sparse,
    )
