"""From questions to windows, and to the tokens of their answers in them."""

import dataclasses

import numpy as np
import tensorflow as tf

from adapter_bert_tf.data.squad import Questions
from adapter_bert_tf.text.tokenizer import Tokenizer
from adapter_bert_tf.text.windows import (
    Contexts,
    Windows,
    WindowSizes,
    make_windows,
    tokenize_contexts,
)

# Lone surrogates, which JSON can hold and UTF-8 can't, are dropped by the tokenizer.
ENCODING = ("utf-8", "surrogatepass")


@dataclasses.dataclass(frozen=True)
class SpanWindows:
    """Questions with their tokenised contexts, in windows."""

    questions: Questions
    contexts: Contexts
    windows: Windows


def to_windows(questions: Questions, tokenizer: Tokenizer, sizes: WindowSizes) -> SpanWindows:
    """Tokenises questions and contexts, each context once, and cuts the windows."""
    contexts = tokenize_contexts(tokenizer, to_tensor(questions.contexts))
    windows = make_windows(
        tokenizer,
        to_tensor(questions.texts),
        contexts,
        tf.constant(questions.context_of, tf.int64),
        sizes,
    )
    return SpanWindows(questions, contexts, windows)


def to_tensor(texts: list[str]) -> tf.Tensor:
    """Encodes texts."""
    return tf.constant([text.encode(*ENCODING) for text in texts], tf.string, [len(texts)])


def answer_positions(spans: SpanWindows, tokenizer: Tokenizer) -> np.ndarray:
    """The first and last position of the answer in each window, `[windows, 2]`.

    They are 0 where a window does not hold the whole answer, and where there is none.
    """
    tokens = _answer_tokens(spans, tokenizer)[spans.windows.question.numpy()]
    first, length = spans.windows.first.numpy(), spans.windows.length.numpy()
    holds = (tokens[:, 0] >= first) & (tokens[:, 1] < first + length)
    positions = tokens + (spans.windows.offset.numpy() - first)[:, np.newaxis]
    return np.where(holds[:, np.newaxis], positions, 0)


def _answer_tokens(spans: SpanWindows, tokenizer: Tokenizer) -> np.ndarray:
    """The first and last token of each question's answer in its context; -1 without one."""
    contexts, questions = spans.contexts, spans.questions
    first_words = contexts.words.row_starts().numpy().tolist()
    # Of all contexts: where the tokens of a word start.
    starts = contexts.tokens.row_splits.numpy().tolist()
    ids = contexts.tokens.flat_values.numpy().tolist()
    texts = to_tensor([answer.text if answer else "" for answer in questions.answers])
    answer_ids = tokenizer.tokenize(texts).to_list()
    found = []
    for context, answer, wanted in zip(
        questions.context_of, questions.answers, answer_ids, strict=True
    ):
        if answer is None:
            found.append((-1, -1))
            continue
        word = first_words[context]
        first, end = starts[word + answer.first_word], starts[word + answer.last_word + 1]
        first, end = _narrow(ids, first, end, wanted)
        found.append((first - starts[word], end - 1 - starts[word]))
    return np.array(found, np.int64).reshape(-1, 2)


def _narrow(ids: list[int], first: int, end: int, wanted: list[int]) -> tuple[int, int]:
    """Finds the answer's own tokens among those of its words: "1895" in "(1895-1943)"."""
    size = len(wanted)
    for start in range(first, end - size + 1) if size else ():
        if ids[start : start + size] == wanted:
            return start, start + size
    return first, end
