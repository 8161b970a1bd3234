import re

import pytest
import tensorflow as tf

from adapter_bert_tf.squad.windows import (
    WindowSizes,
    has_most_context,
    make_windows,
    split_words,
    tokenize_contexts,
)
from adapter_bert_tf.text.tokenizer import Tokenizer, read_vocabulary


@pytest.fixture(scope="module")
def tokenizer(bert) -> Tokenizer:
    return Tokenizer(read_vocabulary(f"{bert}/vocab.txt", lower_case=True))


@pytest.mark.parametrize(
    "text", ["", "  ", "a", " a\u202fb  c\n", "中文 é\tx\r\ny", "\u00a0a b", "a\x00b c"]
)
def test_words_stand_where_they_say(text):
    words, starts = (ragged.to_list()[0] for ragged in split_words(tf.constant([text])))
    assert [word.decode() for word in words] == re.findall(r"[^ \t\r\n\u202f]+", text)
    for word, start in zip(words, starts, strict=True):
        assert text.encode()[start : start + len(word)] == word


def _windows(tokenizer: Tokenizer, tokens: int, sizes: WindowSizes):
    contexts = tokenize_contexts(tokenizer, tf.constant([" ".join(["w1"] * tokens)]))
    return make_windows(tokenizer, tf.constant(["w2"]), contexts, tf.constant([0]), sizes)


@pytest.mark.parametrize("tokens", [0, 1, 5, 6, 7, 8, 30])
@pytest.mark.parametrize("stride", [1, 3, 6, 50])
def test_windows_cover_the_context(tokens, stride, tokenizer):
    windows = _windows(tokenizer, tokens, WindowSizes(10, stride, 4))
    held = set()
    for first, length in zip(windows.first.numpy(), windows.length.numpy(), strict=True):
        held |= set(range(first, first + length))
    assert held == set(range(tokens))
    assert windows.inputs["input_word_ids"].row_lengths().numpy().max(initial=0) <= 10


@pytest.mark.parametrize("tokens", [1, 7, 20, 31])
@pytest.mark.parametrize("stride", [1, 2, 4, 6])
def test_each_token_has_most_context_in_one_window(tokens, stride, tokenizer):
    windows = _windows(tokenizer, tokens, WindowSizes(10, stride, 4))
    owners = dict.fromkeys(range(tokens), 0)
    columns = (windows.first.numpy(), windows.length.numpy(), windows.offset.numpy())
    for number, (first, length, offset) in enumerate(zip(*columns, strict=True)):
        positions = tf.range(offset, offset + length)
        most = has_most_context(windows, tf.fill([length], number), positions)
        for token, owns in zip(range(first, first + length), most.numpy(), strict=True):
            owners[token] += int(owns)
    assert set(owners.values()) == {1}


def test_a_long_question_is_cut(tokenizer):
    contexts = tokenize_contexts(tokenizer, tf.constant(["w1"]))
    questions = tf.constant([" ".join(["w2"] * 99)])
    windows = make_windows(tokenizer, questions, contexts, tf.constant([0]), WindowSizes(16, 4, 5))
    assert windows.inputs["input_word_ids"].row_lengths().numpy().tolist() == [5 + 1 + 3]
