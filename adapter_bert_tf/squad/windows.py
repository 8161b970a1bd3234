"""Questions with long contexts: windows of `[CLS] question [SEP] part of the context [SEP]`."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from adapter_bert_tf.squad.questions import Questions
from adapter_bert_tf.text.inputs import join, keep
from adapter_bert_tf.text.tokenizer import Tokenizer

# What the original takes for the end of a word. A narrow no-break space has three bytes; as
# many spaces keep the offsets of what follows.
_SPACE, _NARROW_SPACE = r"[ \t\r\n]", "\u202f"


@dataclasses.dataclass(frozen=True)
class WindowSizes:
    """How contexts are cut.

    Args:
      max_seq_length: Tokens of a window, with the question and the special tokens.
      doc_stride: Tokens between the starts of two windows.
      max_query_length: Tokens of a question at the most; the rest is cut.
    """

    max_seq_length: int = 384
    doc_stride: int = 128
    max_query_length: int = 64

    @classmethod
    def of(cls, inputs: Mapping[str, Any]) -> "WindowSizes":
        """Those that a task pack keeps among its `inputs`."""
        names = (field.name for field in dataclasses.fields(cls))
        return cls(**{name: inputs[name] for name in names if name in inputs})


@dataclasses.dataclass(frozen=True)
class Contexts:
    """Tokenised contexts.

    Args:
      words: The words, `[contexts, (words)]`: what stands between spaces.
      word_starts: Where they start, in bytes, `[contexts, (words)]`.
      tokens: Ids of the tokens of each word, `[all words, (tokens)]`.
      ids: Ids of the tokens, `[contexts, (tokens)]`.
      word_of: The word that each token belongs to, `[contexts, (tokens)]`.
    """

    words: tf.RaggedTensor
    word_starts: tf.RaggedTensor
    tokens: tf.RaggedTensor
    ids: tf.RaggedTensor
    word_of: tf.RaggedTensor


def tokenize_contexts(tokenizer: Tokenizer, contexts: tf.Tensor) -> Contexts:
    """Splits contexts into words and these into tokens, as the original does."""
    words, starts = split_words(contexts)
    tokens = tokenizer.tokenize(words.flat_values)
    counts = tokens.row_lengths()
    word_numbers = tf.ragged.range(words.row_lengths()).flat_values
    ids = words.with_flat_values(counts)
    lengths = tf.reduce_sum(ids, axis=1)
    return Contexts(
        words=words,
        word_starts=starts,
        tokens=tokens,
        ids=tf.RaggedTensor.from_row_lengths(tokens.flat_values, lengths),
        word_of=tf.RaggedTensor.from_row_lengths(tf.repeat(word_numbers, counts), lengths),
    )


def split_words(texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Returns the words of each text, and the bytes that they start at."""
    spaced = tf.strings.regex_replace(texts, _SPACE, " ")
    spaced = tf.strings.regex_replace(spaced, _NARROW_SPACE, " " * len(_NARROW_SPACE.encode()))
    parts = tf.strings.split(spaced, " ")
    sizes = tf.cast(tf.strings.length(parts.flat_values), tf.int64) + 1
    starts = tf.cumsum(sizes, exclusive=True)
    first = tf.gather(tf.concat([starts, [0]], 0), parts.row_starts())
    starts -= tf.repeat(first, parts.row_lengths())
    is_word = parts.with_flat_values(sizes > 1)
    return (
        tf.ragged.boolean_mask(parts, is_word),
        tf.ragged.boolean_mask(parts.with_flat_values(starts), is_word),
    )


@dataclasses.dataclass(frozen=True)
class Windows:
    """Windows, in the order of the questions and of their contexts.

    Args:
      question: Number of the question, `[windows]`.
      number: Number of the window among those of the question, `[windows]`.
      first: First token of the context in the window, `[windows]`.
      length: Number of the context's tokens in the window, `[windows]`.
      offset: Where in the window these stand, `[windows]`.
      room: Number of the context's tokens that it could hold, `[windows]`.
      stride: Tokens from this window's first to the next one's, `[windows]`.
      context_length: Tokens of the whole context, `[windows]`.
      overlapping: How many windows may hold the same token.
      inputs: BERT's inputs, unpadded.
    """

    question: tf.Tensor
    number: tf.Tensor
    first: tf.Tensor
    length: tf.Tensor
    offset: tf.Tensor
    room: tf.Tensor
    stride: tf.Tensor
    context_length: tf.Tensor
    overlapping: int
    inputs: dict[str, tf.RaggedTensor]


def make_windows(
    tokenizer: Tokenizer,
    questions: tf.Tensor,
    contexts: Contexts,
    context_of: tf.Tensor,
    sizes: WindowSizes,
) -> Windows:
    """Cuts the context of each question into windows.

    Args:
      tokenizer: The base's tokenizer.
      questions: The questions, `[questions]`.
      contexts: The contexts.
      context_of: Number of each question's context, `[questions]`.
      sizes: How they are cut. A context without tokens has no window.
    """
    queries = keep(tokenizer.tokenize(questions), sizes.max_query_length)
    room = sizes.max_seq_length - queries.row_lengths() - 3
    stride = tf.minimum(room, sizes.doc_stride)
    tokens = tf.gather(contexts.ids.row_lengths(), context_of)
    counts = -(tf.maximum(tokens - room, 0) // -stride) + tf.cast(tokens > 0, tf.int64)

    question = tf.repeat(tf.range(tf.size(counts, tf.int64)), counts)
    number = tf.ragged.range(counts).flat_values
    query = tf.gather(queries, question)
    room, stride, tokens = (tf.gather(each, question) for each in (room, stride, tokens))
    first = number * stride
    length = tf.minimum(tokens - first, room)
    start = tf.gather(contexts.ids.row_starts(), tf.gather(context_of, question)) + first
    part = tf.gather(contexts.ids.flat_values, tf.ragged.range(start, start + length))
    return Windows(
        question=question,
        number=number,
        first=first,
        length=length,
        offset=query.row_lengths() + 2,
        room=room,
        stride=stride,
        context_length=tokens,
        overlapping=-(-sizes.max_seq_length // sizes.doc_stride),
        inputs=join(tokenizer, query, part),
    )


def has_most_context(windows: Windows, window: tf.Tensor, position: tf.Tensor) -> tf.Tensor:
    """Whether a token has no more context in another window than in this one.

    Args:
      windows: The windows.
      window: Numbers of windows, of any shape.
      position: Positions in these windows, of the same shape, which hold the context's tokens.
    """
    first, stride = tf.gather(windows.first, window), tf.gather(windows.stride, window)
    tokens, room = tf.gather(windows.context_length, window), tf.gather(windows.room, window)
    token = first + position - tf.gather(windows.offset, window)

    def score(first: tf.Tensor) -> tf.Tensor:
        length = tf.minimum(tokens - first, room)
        context = tf.minimum(token - first, first + length - 1 - token)
        # In double precision, as the original's ties are those of Python's numbers.
        value = tf.cast(context, tf.float64) + 0.01 * tf.cast(length, tf.float64)
        is_window = (first >= 0) & ((first == 0) | (first - stride + room < tokens))
        holds = is_window & (token >= first) & (token < first + length)
        return tf.where(holds, value, -1.0)

    own = score(first)
    most = tf.fill(tf.shape(own), True)
    for step in range(1, windows.overlapping):
        # Of windows with like context the first counts.
        most &= (own > score(first - step * stride)) & (own >= score(first + step * stride))
    return most


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
