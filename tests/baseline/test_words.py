import numpy as np
import tensorflow as tf

from adapter_bert_tf.baseline.words import (
    feature_vocabulary,
    hash_features,
    join_pairs,
    known_features,
    normalise,
)

TEXTS = tf.constant(["Größe: 3,5 — OK!", "", "a  b\tc"])


def _texts(lower_case: bool, letters_only: bool) -> list[str]:
    return [each.decode() for each in normalise(TEXTS, lower_case, letters_only).numpy()]


def test_texts_are_normalised_as_the_design_says():
    assert _texts(False, False) == ["Größe: 3,5 — OK!", "", "a  b\tc"]
    assert _texts(True, False)[0] == "größe: 3,5 — ok!"
    assert _texts(False, True) == ["Größe 3 5 OK ", "", "a b c"]
    assert normalise(tf.constant([b"caf\xe9"]), True, True).numpy()[0].decode().startswith("caf")


def test_a_text_has_its_words_and_its_pairs_of_neighbours():
    counts = hash_features(tf.constant(["a b c", "", "a"])).row_lengths().numpy()
    assert counts.tolist() == [5, 0, 1]
    first, second = hash_features(tf.constant(["a b", "b a"])).numpy()
    assert set(first[:2]) == set(second[:2])
    assert first[2] != second[2]  # The pair keeps its order.


def test_only_features_of_the_training_texts_are_known():
    hashed = hash_features(tf.constant(["a b", "c"]))
    vocabulary = feature_vocabulary(hashed)
    assert len(vocabulary) == 4
    known = known_features(
        hash_features(tf.constant(["b zzz a b", "zzz"])), tf.constant(vocabulary)
    )
    assert known.row_lengths().numpy().tolist() == [4, 0]  # b, a, b and the pair "a b".
    found = vocabulary[known.flat_values.numpy()]
    assert set(found) <= set(hashed.flat_values.numpy())


def test_without_any_words_there_are_no_features():
    vocabulary = feature_vocabulary(hash_features(tf.constant([""])))
    known = known_features(hash_features(tf.constant(["a b"])), tf.constant(vocabulary))
    assert known.row_lengths().numpy().tolist() == [0]


def test_a_pair_is_read_as_one_text():
    joined = join_pairs(tf.constant(["a"]), tf.constant(["b"])).numpy()
    assert np.array_equal(joined, [b"a b"])
