import os

import numpy as np
import pytest
import tensorflow as tf

from adapter_bert_tf.baseline.features import Features, embed_texts
from adapter_bert_tf.baseline.model import EMBEDDED, WORD_ROWS
from adapter_bert_tf.baseline.open import open_module
from adapter_bert_tf.baseline.space import Design
from adapter_bert_tf.baseline.text_module import TextModule
from adapter_bert_tf.baseline.words import normalise
from tests.baseline import made

TEXTS = {"train": [*made.texts_and_labels(20)[0], ""], "dev": made.texts_and_labels(7, 1)[0]}


@pytest.fixture
def counted(monkeypatch) -> list[int]:
    """Notes how many texts were embedded, each time."""
    found = []
    embed_all = TextModule.embed_all
    monkeypatch.setattr(
        TextModule,
        "embed_all",
        lambda self, texts: found.append(len(texts)) or embed_all(self, texts),
    )
    return found


def test_vectors_are_computed_once_for_all_trials_and_for_later_ones(
    tmp_path, second_format, counted
):
    cache = str(tmp_path / "cache")
    features = Features(TEXTS, cache)
    design = Design(module=second_format)
    first = features.prepare(design)
    assert counted == [21, 7]
    for other in (Design(module=second_format, hidden_layers=3, deep_rate=0.5), design):
        assert features.prepare(other).deep is first.deep
    features.prepare(Design(module=second_format, letters_only=True))
    assert counted == [21, 7] * 2
    again = Features(TEXTS, cache).prepare(design)  # Another worker.
    assert counted == [21, 7] * 2
    np.testing.assert_array_equal(again.deep["train"], first.deep["train"])
    names = os.listdir(cache)
    assert len(names) == 4
    for name in names:  # Damaged files are written again.
        (tmp_path / "cache" / name).write_bytes(b"damaged")
    repaired = Features(TEXTS, cache).prepare(design)
    np.testing.assert_array_equal(repaired.deep["dev"], first.deep["dev"])
    assert counted == [21, 7] * 3


def test_a_word_is_embedded_once(tmp_path, second_format, counted):
    design = Design(module=second_format, convolution=True)
    prepared = Features(TEXTS, str(tmp_path)).prepare(design)
    words = {word for texts in TEXTS.values() for text in texts for word in text.lower().split()}
    assert counted == [len(words)]
    assert prepared.table.shape == (len(words), made.WIDTH)


def test_words_that_the_module_does_not_tell_apart_are_embedded_once(tmp_path, bert, counted):
    design = Design(module=f"bert:{bert}", convolution=True, lower_case=False)
    texts = {"train": ["w1 W1 w2"], "dev": ["W2 w3"]}
    prepared = Features(texts, str(tmp_path)).prepare(design)
    assert counted == [3]
    assert len(prepared.table) == 5
    first, capital, second = (prepared.table[i] for i in prepared.deep["train"].flat_values.numpy())
    np.testing.assert_array_equal(first, capital)
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("convolution", [False, True])
@pytest.mark.parametrize("fine_tune", [False, True])
@pytest.mark.parametrize("module", ["glove", "first_format", "second_format"])
def test_training_reads_what_serving_reads(
    tmp_path, small_glove, module, fine_tune, convolution, request
):
    name = module if module == "glove" else request.getfixturevalue(module)
    design = Design(module=name, fine_tune=fine_tune, convolution=convolution, letters_only=True)
    reader = Features(TEXTS, str(tmp_path)).prepare(design).reader(design)
    inputs = reader("dev", tf.constant([4, 0, 5]))
    texts = normalise(tf.constant([TEXTS["dev"][i] for i in (4, 0, 5)]), True, True)
    served = embed_texts(design, open_module(name), texts)
    np.testing.assert_allclose(inputs[EMBEDDED], served[EMBEDDED], rtol=1e-5, atol=1e-6)
    if convolution:
        np.testing.assert_array_equal(inputs[WORD_ROWS], served[WORD_ROWS])


def test_a_bert_is_a_sentence_encoder(tmp_path, bert, counted):
    features = Features(TEXTS, str(tmp_path))
    prepared = features.prepare(Design(module=f"bert:{bert}"))
    vectors = prepared.deep["train"].numpy()
    assert vectors.shape == (21, prepared.module.width)
    np.testing.assert_allclose((vectors**2).mean(axis=1), 1, rtol=1e-4)
    features.prepare(Design(module=f"bert:{bert}", lower_case=False))
    assert prepared.module.tuned() == []
    # It does not tell capitals apart, so nothing is computed again.
    assert counted == [21, 7]


def test_a_remote_cache_is_no_folder_here(tmp_path, second_format, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        Features({"train": ["a"]}, "ram://vectors").prepare(Design(module=second_format))
    assert len(tf.io.gfile.listdir("ram://vectors")) == 1
    assert os.listdir(tmp_path) == []
    tf.io.gfile.rmtree("ram://vectors")
