"""GloVe's word vectors, from the PyPI package that contains them."""

import numpy as np
import tensorflow as tf

from adapter_bert_tf.baseline.modules import (
    GLOVE,
    VECTORS,
    WORDS,
    find_glove,
    glove_fingerprint,
)
from adapter_bert_tf.baseline.text_module import TableModule

# Words that GloVe does not know share so many rows of zeros, which fine-tuning fills.
_UNKNOWN = 1000
# GloVe's words are lower-case, and a mark of punctuation is a word of its own.
_MARK = r"[^\pL\pN\s]"


class Glove(TableModule):
    """GloVe 6B: 400,000 words, 50 wide. As the paper's modules it normalises texts itself."""

    def __init__(self):
        # Imported here, because nothing else needs it.
        import pyarrow.parquet

        paths = find_glove()
        self._words = pyarrow.parquet.read_table(paths[WORDS])["index"].to_numpy()
        vectors = np.load(paths[VECTORS])
        unknown = np.zeros([_UNKNOWN, vectors.shape[1]], np.float32)
        super().__init__(GLOVE, np.concatenate([vectors, unknown]))
        self._lookup = make_lookup(self._words)

    @property
    def fingerprint(self) -> str:
        return glove_fingerprint()

    def tracked(self) -> list:
        return [*super().tracked(), self._lookup]

    def rows(self, texts: tf.Tensor) -> tf.RaggedTensor:
        texts = tf.strings.regex_replace(tf.strings.lower(texts, "utf-8"), _MARK, r" \0 ")
        words = tf.strings.split(texts)
        return words.with_values(find_rows(self._lookup, words.flat_values))


def make_lookup(words: np.ndarray) -> tf.lookup.StaticHashTable:
    """Returns a table from words to their numbers."""
    numbers = tf.range(len(words), dtype=tf.int64)
    initial = tf.lookup.KeyValueTensorInitializer(tf.constant(list(words), tf.string), numbers)
    return tf.lookup.StaticHashTable(initial, default_value=-1)


def find_rows(lookup: tf.lookup.StaticHashTable, words: tf.Tensor) -> tf.Tensor:
    """Returns the number of each word; unknown ones have numbers behind those of all others."""
    hashed = tf.strings.to_hash_bucket_fast(words, _UNKNOWN) + lookup.size()
    found = lookup.lookup(words)
    return tf.where(found < 0, hashed, found)
