import numpy as np
import tensorflow as tf

from adapter_bert_tf.baseline import sentences
from adapter_bert_tf.baseline.sentences import SentenceEncoder
from tests import tiny


def test_texts_together_get_the_vectors_that_they_get_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(sentences, "_TOGETHER", 3)
    module = SentenceEncoder(f"bert:{tiny.write_google_bert(tmp_path)}")
    texts = ["w1 w2 w3 w4", "w5", "w6 w7", "", "w1", "w8 w9 w1", "w2"]
    alone = [module.embed(tf.constant([text])).numpy()[0] for text in texts]
    np.testing.assert_allclose(module.embed(tf.constant(texts)), alone, atol=1e-5)
    assert module.embed(tf.constant([], tf.string)).shape == (0, module.width)


def test_long_and_short_texts_are_not_padded_to_each_other(tmp_path, monkeypatch):
    monkeypatch.setattr(sentences, "_TOGETHER", 3)
    module = SentenceEncoder(f"bert:{tiny.write_google_bert(tmp_path)}")
    widths = []
    embed = module._embed

    def seen(texts: tf.Tensor) -> tf.Tensor:
        widths.append(tf.strings.length(texts).numpy().tolist())
        return embed(texts)

    monkeypatch.setattr(module, "_embed", seen)
    module.embed(tf.constant(["w1 w2 w3 w4", "w5", "w1", "w8 w9", "w2"]))
    assert widths == [[2, 2, 2], [5, 11]]
