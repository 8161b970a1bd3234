import itertools

import pytest
import tensorflow as tf

from adapter_bert_tf.text.inputs import IDS, MASK, SEGMENTS, encode
from adapter_bert_tf.text.tokenizer import Tokenizer, Vocabulary
from tests.text import oracle

CLS, SEP, A, B = 2, 3, 4, 5


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer(Vocabulary(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b"), True))


def test_pairs_are_cut_one_token_at_a_time_from_the_longer(tokenizer):
    counts = list(itertools.product(range(12), repeat=2))
    texts = tf.constant(["a " * a for a, _ in counts])
    pairs = tf.constant(["b " * b for _, b in counts])
    for max_seq_length in (4, 5, 10, 13):
        found = encode(tokenizer, texts, pairs, max_seq_length)
        for row, (a, b) in enumerate(counts):
            # In the original an empty second text is none: it has no [SEP], and needs no room.
            first, second = oracle.cut([A] * a, [B] * b, max_seq_length - (3 if b else 2))
            tail = [*second, SEP] if second else []
            ids = [CLS, *first, SEP, *tail]
            assert found[IDS][row].numpy().tolist() == ids
            assert found[MASK][row].numpy().tolist() == [1] * len(ids)
            segments = [0] * (len(first) + 2) + [1] * len(tail)
            assert found[SEGMENTS][row].numpy().tolist() == segments


def test_single_texts_are_cut_at_the_end(tokenizer):
    found = encode(tokenizer, tf.constant(["a b a b", "b", ""]), None, 5)
    assert found[IDS].to_list() == [[CLS, A, B, A, SEP], [CLS, B, SEP], [CLS, SEP]]
    assert found[SEGMENTS].to_list() == [[0] * 5, [0] * 3, [0] * 2]
