"""What the models of a task read, computed once for all trials.

A trial takes the vectors of its texts, or the rows of their words in a small table, or if a module
of TF-Hub is fine-tuned, the texts themselves.
"""

import contextlib
import dataclasses
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from adapter_bert_tf.baseline.model import EMBEDDED, WIDE, WORD_ROWS
from adapter_bert_tf.baseline.open import open_module
from adapter_bert_tf.baseline.space import Design
from adapter_bert_tf.baseline.text_module import TableModule, TextModule, pool
from adapter_bert_tf.baseline.words import (
    feature_vocabulary,
    hash_features,
    known_features,
    normalise,
    split_words,
)
from adapter_bert_tf.data.task import TRAIN
from adapter_bert_tf.errors import file_error
from adapter_bert_tf.files import make_folders, new_file, open_bytes
from adapter_bert_tf.text.ragged import row_of

# Words of a text that a convolution reads.
MOST_WORDS = 128

Inputs = dict[str, tf.Tensor]


def word_inputs(words: tf.RaggedTensor) -> Inputs:
    """Returns vectors of words, `[rows, (words), width]`, as a convolution takes them."""
    return {EMBEDDED: words.flat_values, WORD_ROWS: row_of(words.row_splits)}


def embed_texts(design: Design, module: TextModule, texts: tf.Tensor) -> Inputs:
    """Returns what the deep part takes for normalised texts."""
    if design.convolution:
        return word_inputs(module.embed_words(texts, MOST_WORDS))
    return {EMBEDDED: module.embed(texts)}


@dataclasses.dataclass
class Prepared:
    """The texts of a task as one design reads them.

    Attributes:
      module: The text module.
      vocabulary: Numbers of the wide part's features.
      wide: By split, the features of each row.
      deep: By split, vectors, rows of `table`, or texts.
      table: Vectors of the words, if `deep` are rows of it.
      rows: What the rows of `table` are in the module's own, if it is a table.
    """

    module: TextModule
    vocabulary: np.ndarray
    wide: Mapping[str, tf.RaggedTensor]
    deep: Mapping[str, Any]
    table: np.ndarray | None = None
    rows: np.ndarray | None = None

    def reader(self, design: Design) -> "Reader":
        """Returns what makes inputs of them, with variables of its own."""
        return Reader(self, design)


class Reader:
    """Makes a model's inputs of prepared texts.

    Attributes:
      trained: Variables of the module that are trained.
    """

    def __init__(self, prepared: Prepared, design: Design):
        self._prepared, self._design = prepared, design
        self.trained: list[tf.Variable] = []
        self._table: tf.Tensor | tf.Variable | None = None
        if prepared.table is not None:
            fine_tune = design.fine_tune
            self._table = (tf.Variable if fine_tune else tf.constant)(prepared.table)
            self.trained = [self._table] if fine_tune else []
        elif design.fine_tune:
            self.trained = prepared.module.tuned()

    def __call__(self, split: str, rows: tf.Tensor) -> Inputs:
        """Returns the inputs of some rows of a split."""
        wide = tf.gather(self._prepared.wide[split], rows)
        deep = tf.gather(self._prepared.deep[split], rows)
        return {**self._embed(deep), WIDE: wide}

    def _embed(self, deep: tf.Tensor | tf.RaggedTensor) -> Inputs:
        if self._table is None:
            if deep.dtype == tf.string:
                return embed_texts(self._design, self._prepared.module, deep)
            return {EMBEDDED: deep}
        if self._design.convolution:
            return word_inputs(deep.with_values(tf.gather(self._table, deep.flat_values)))
        return {EMBEDDED: pool(self._table, deep)}


class Features:
    """The texts of a task, prepared for any design.

    Args:
      texts: By split, the texts.
      cache_dir: Where vectors are kept that took long.
    """

    def __init__(self, texts: Mapping[str, Sequence[str]], cache_dir: str):
        self._texts = {split: tf.constant(list(each), tf.string) for split, each in texts.items()}
        self._cache_dir = cache_dir
        self._kept: dict[tuple, Any] = {}

    def prepare(self, design: Design) -> Prepared:
        """Returns the texts as a design reads them."""
        normal = (design.lower_case, design.letters_only)
        module = open_module(design.module)
        vocabulary, wide = self._once(("wide", *normal), lambda: self._wide(normal))
        if design.fine_tune and not isinstance(module, TableModule):
            return Prepared(module, vocabulary, wide, self._normalised(normal))
        if not design.convolution and not design.fine_tune:
            named = ("vectors", design.module, *normal)
            deep = self._once(named, lambda: self._vectors(module, normal))
            return Prepared(module, vocabulary, wide, deep)
        # Only a convolution cuts texts.
        most = MOST_WORDS if design.convolution else None
        key = ("words", design.module, most, *normal)
        deep, table, rows = self._once(key, lambda: self._words(module, normal, most))
        return Prepared(module, vocabulary, wide, deep, table, rows)

    def _once(self, key: tuple, compute: Callable[[], Any]) -> Any:
        if key not in self._kept:
            self._kept[key] = compute()
        return self._kept[key]

    def _normalised(self, normal: tuple[bool, bool]) -> dict[str, tf.Tensor]:
        return {split: normalise(each, *normal) for split, each in self._texts.items()}

    def _wide(self, normal: tuple[bool, bool]) -> tuple[np.ndarray, dict[str, tf.RaggedTensor]]:
        hashed = {split: hash_features(each) for split, each in self._normalised(normal).items()}
        vocabulary = feature_vocabulary(hashed[TRAIN])
        return vocabulary, {
            split: known_features(each, tf.constant(vocabulary)) for split, each in hashed.items()
        }

    def _vectors(self, module: TextModule, normal: tuple[bool, bool]) -> dict[str, tf.Tensor]:
        return {
            split: tf.constant(self._embed(module, module.as_read(texts)))
            for split, texts in self._normalised(normal).items()
        }

    def _embed(self, module: TextModule, texts: tf.Tensor) -> np.ndarray:
        """Embeds texts, or takes the vectors from an earlier time."""
        digest = hashlib.sha256(module.fingerprint.encode())
        for text in texts.numpy():
            digest.update(hashlib.sha256(text).digest())
        path = os.path.join(self._cache_dir, f"{digest.hexdigest()[:32]}.npy")
        # One that is damaged is computed again.
        with contextlib.suppress(OSError, ValueError, EOFError):
            with open_bytes(path) as file:
                vectors = np.load(file)
            if vectors.shape == (len(texts), module.width):
                return vectors
        vectors = module.embed_all(texts)
        try:
            make_folders(self._cache_dir)
            with new_file(path) as beside, open(beside, "wb") as file:
                np.save(file, vectors)
        except OSError as error:
            raise file_error(path, error) from None
        return vectors

    def _words(
        self, module: TextModule, normal: tuple[bool, bool], most: int | None
    ) -> tuple[dict[str, tf.RaggedTensor], np.ndarray, np.ndarray | None]:
        """Returns the places of the texts' words in a table, the table, and what it has."""
        split = module.rows if isinstance(module, TableModule) else split_words
        words = {name: split(each)[:, :most] for name, each in self._normalised(normal).items()}
        values = [each.flat_values.numpy() for each in words.values()]
        found, places = np.unique(np.concatenate(values), return_inverse=True)
        ends = np.cumsum([len(each) for each in values])[:-1]
        parts = zip(words.items(), np.split(places.astype(np.int32), ends), strict=True)
        deep = {name: ragged.with_values(tf.constant(part)) for (name, ragged), part in parts}
        if isinstance(module, TableModule):
            return deep, module.values[found], found
        read = module.as_read(tf.constant(found, tf.string)).numpy()
        distinct, places = np.unique(read, return_inverse=True)
        return deep, self._embed(module, tf.constant(distinct, tf.string))[places], None
