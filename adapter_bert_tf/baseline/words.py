"""From texts to words, and to the features of the wide part, in the graph."""

import numpy as np
import tensorflow as tf

# Words and pairs that fall on the same number share a weight; of a million features, 6 % do.
_BUCKETS = 2**24
_OTHERS = r"[^\pL\pN]+"


def normalise(texts: tf.Tensor, lower_case: bool, letters_only: bool) -> tf.Tensor:
    """Returns texts as a design reads them.

    Args:
      texts: The texts.
      lower_case: Whether they are lower-cased.
      letters_only: Whether all but letters and digits becomes a space.
    """
    texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")
    if lower_case:
        texts = tf.strings.lower(texts, "utf-8")
    if letters_only:
        texts = tf.strings.regex_replace(texts, _OTHERS, " ")
    return texts


def join_pairs(texts: tf.Tensor, pairs: tf.Tensor | None) -> tf.Tensor:
    """Returns each text with its second one behind it: a baseline reads a pair as one text."""
    return texts if pairs is None else tf.strings.join([texts, pairs], " ")


def split_words(texts: tf.Tensor) -> tf.RaggedTensor:
    """Returns what stands between spaces, `[texts, (words)]`."""
    return tf.strings.split(texts)


def hash_features(texts: tf.Tensor) -> tf.RaggedTensor:
    """Returns the numbers of a text's words and of its pairs of neighbours."""
    words = split_words(texts)
    first, second = words[:, :-1], words[:, 1:]
    pairs = first.with_values(tf.strings.join([first.flat_values, second.flat_values], " "))
    features = tf.concat([words, pairs], axis=1)
    return features.with_values(tf.strings.to_hash_bucket_fast(features.flat_values, _BUCKETS))


def feature_vocabulary(hashed: tf.RaggedTensor) -> np.ndarray:
    """Returns the numbers that occur, ascending; at least one, even if there are no words."""
    found = np.unique(hashed.flat_values.numpy())
    return found if len(found) else np.array([-1])


def known_features(hashed: tf.RaggedTensor, vocabulary: tf.Tensor) -> tf.RaggedTensor:
    """Returns the places of the features in a vocabulary, without those that it does not have."""
    places = tf.searchsorted(vocabulary, hashed.flat_values)
    places = tf.minimum(places, tf.size(vocabulary) - 1)
    known = tf.gather(vocabulary, places) == hashed.flat_values
    return tf.ragged.boolean_mask(hashed.with_values(places), hashed.with_values(known))
