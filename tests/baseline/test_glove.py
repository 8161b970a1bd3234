import numpy as np
import pytest
import tensorflow as tf

from adapter_bert_tf import UserError
from adapter_bert_tf.baseline.glove import Glove
from adapter_bert_tf.baseline.modules import find_glove


def test_words_are_looked_up_without_capitals_and_marks(small_glove):
    module = Glove()
    rows = module.rows(tf.constant(["Word3! a", "word3", "", "zzz"])).to_list()
    assert rows[:3] == [[3, 24, 25], [3], []]
    assert rows[3][0] >= 26  # An unknown word has a row of zeros.
    vectors = module.embed(tf.constant(["Word3! a", "", "zzz"])).numpy()
    wanted = module.values[[3, 24, 25]].sum(axis=0) / np.sqrt(3)
    np.testing.assert_allclose(vectors[0], wanted, rtol=1e-6)
    assert not vectors[1:].any()
    words = module.embed_words(tf.constant(["a word1", ""]), most=1)
    np.testing.assert_array_equal(words.flat_values.numpy(), module.values[[25]])


def test_other_vectors_are_another_module(small_glove):
    module = Glove()
    other = module.with_rows(np.array([3]), np.ones([1, module.width], np.float32))
    assert other.embed(tf.constant(["word3"])).numpy().tolist() == [[1.0] * module.width]
    assert module.embed(tf.constant(["word3"])).numpy()[0, 0] != 1.0


@pytest.mark.slow
def test_the_embedded_vectors_know_english():
    try:
        find_glove()
    except UserError as error:
        pytest.skip(str(error))
    module = Glove()
    king, queen, apple = module.embed(tf.constant(["King", "queen", "apple"])).numpy()

    def cosine(a, b):
        return a @ b / np.linalg.norm(a) / np.linalg.norm(b)

    assert module.width == 50
    assert cosine(king, queen) > 0.7 > cosine(king, apple) + 0.2
