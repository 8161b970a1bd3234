"""Cuts contexts that are too long for BERT into overlapping windows.

A window is `[CLS] question [SEP] part of the context [SEP]`.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from adapter_bert_tf.squad.questions import Questions
from adapter_bert_tf.text.inputs import join, keep
from adapter_bert_tf.text.tokenizer import Tokenizer

# The characters at which the original ends a word. The narrow no-break space takes three bytes;
# it is replaced by three spaces, so that the byte offsets of what follows stay the same.
_SPACE, _NARROW_SPACE = r"[ \t\r\n]", "\u202f"

# JSON can hold lone surrogates, which UTF-8 can't. The tokenizer drops them.
ENCODING = ("utf-8", "surrogatepass")


@dataclasses.dataclass(frozen=True)
class WindowSizes:
    """How contexts are cut into windows.

    Args:
      max_seq_length: Maximum number of tokens in a window, with question and special tokens.
      doc_stride: Tokens from the start of one window to the start of the next.
      max_query_length: Maximum number of tokens of a question; longer questions are truncated.
    """

    max_seq_length: int = 384
    doc_stride: int = 128
    max_query_length: int = 64

    @classmethod
    def of(cls, inputs: Mapping[str, Any]) -> "WindowSizes":
        """Reads the sizes from the `inputs` of a task pack."""
        names = (field.name for field in dataclasses.fields(cls))
        return cls(**{name: inputs[name] for name in names if name in inputs})


@dataclasses.dataclass(frozen=True)
class Contexts:
    """Tokenised contexts.

    Args:
      words: The words, `[contexts, (words)]`: whatever stands between spaces.
      word_starts: The byte of the context at which each word starts, `[contexts, (words)]`.
      split: The words after `Tokenizer.split`, `[contexts, (words)]`.
      tokens: Ids of the tokens of each word, `[contexts, (words), (tokens)]`.
    """

    words: tf.RaggedTensor
    word_starts: tf.RaggedTensor
    split: tf.RaggedTensor
    tokens: tf.RaggedTensor

    @property
    def ids(self) -> tf.RaggedTensor:
        """Ids of the tokens, `[contexts, (tokens)]`."""
        return self.tokens.merge_dims(1, 2)

    def take(self, numbers: tf.Tensor) -> "Contexts":
        """Returns the contexts with these numbers."""
        return Contexts(**{name: tf.gather(each, numbers) for name, each in vars(self).items()})


def tokenize_contexts(tokenizer: Tokenizer, contexts: tf.Tensor) -> Contexts:
    """Splits contexts into words and words into tokens, as the original does."""
    words, starts = split_words(contexts)
    split = tokenizer.split(words.flat_values)
    return Contexts(
        words=words,
        word_starts=starts,
        split=words.with_values(split),
        tokens=words.with_values(tokenizer.tokenize_split(split)),
    )


def split_words(texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Returns the words of each text, and the byte at which each of them starts."""
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
    """Windows, ordered by question and by their place in the context.

    Args:
      question: Number of the question, `[windows]`.
      number: Number of the window among those of its question, `[windows]`.
      first: The first token of the context that is in the window, `[windows]`.
      length: How many tokens of the context are in the window, `[windows]`.
      offset: The position in the window at which these tokens start, `[windows]`.
      room: How many tokens of the context would fit, `[windows]`.
      stride: Tokens from the start of this window to the start of the next, `[windows]`.
      context_length: Tokens of the whole context, `[windows]`.
      overlapping: The maximum number of windows that hold the same token.
      inputs: BERT's inputs, without padding.
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

    def of_questions(self, first: int, end: int) -> tuple["Windows", slice]:
        """Returns the windows of a range of questions, and which of these windows they are."""
        rows = slice(*np.searchsorted(self.question.numpy(), [first, end]))
        columns = {name: each[rows] for name, each in vars(self).items() if tf.is_tensor(each)}
        columns["question"] -= first
        inputs = {name: each[rows] for name, each in self.inputs.items()}
        return dataclasses.replace(self, **columns, inputs=inputs), rows


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
      contexts: The contexts. A context without tokens has no windows.
      context_of: Number of each question's context, `[questions]`.
      sizes: How the contexts are cut.
    """
    queries = keep(tokenizer.tokenize(questions), sizes.max_query_length)
    ids = contexts.ids
    room = sizes.max_seq_length - queries.row_lengths() - 3
    stride = tf.minimum(room, sizes.doc_stride)
    tokens = tf.gather(ids.row_lengths(), context_of)
    counts = -(tf.maximum(tokens - room, 0) // -stride) + tf.cast(tokens > 0, tf.int64)

    question = tf.repeat(tf.range(tf.size(counts, tf.int64)), counts)
    number = tf.ragged.range(counts).flat_values
    query = tf.gather(queries, question)
    room, stride, tokens = (tf.gather(each, question) for each in (room, stride, tokens))
    first = number * stride
    length = tf.minimum(tokens - first, room)
    start = tf.gather(ids.row_starts(), tf.gather(context_of, question)) + first
    part = tf.gather(ids.flat_values, tf.ragged.range(start, start + length))
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
    """Tells whether a token has at least as much context here as in any other window.

    Of several windows with equally much context, only the first counts.

    Args:
      windows: The windows.
      window: Numbers of windows, of any shape.
      position: Positions in these windows, of the same shape. They must hold tokens of the
        context.
    """
    first, stride = tf.gather(windows.first, window), tf.gather(windows.stride, window)
    tokens, room = tf.gather(windows.context_length, window), tf.gather(windows.room, window)
    token = first + position - tf.gather(windows.offset, window)

    def score(first: tf.Tensor) -> tf.Tensor:
        length = tf.minimum(tokens - first, room)
        context = tf.minimum(token - first, first + length - 1 - token)
        # The original computes with Python's floats; double precision gives the same ties.
        value = tf.cast(context, tf.float64) + 0.01 * tf.cast(length, tf.float64)
        is_window = (first >= 0) & ((first == 0) | (first - stride + room < tokens))
        holds = is_window & (token >= first) & (token < first + length)
        return tf.where(holds, value, -1.0)

    own = score(first)
    most = tf.fill(tf.shape(own), True)
    for step in range(1, windows.overlapping):
        most &= (own > score(first - step * stride)) & (own >= score(first + step * stride))
    return most


@dataclasses.dataclass(frozen=True)
class SpanWindows:
    """Questions, their tokenised contexts, and the windows of both."""

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
    """Encodes texts as a tensor of strings."""
    return tf.constant([text.encode(*ENCODING) for text in texts], tf.string, [len(texts)])


def answer_positions(spans: SpanWindows, tokenizer: Tokenizer) -> np.ndarray:
    """Returns the first and last position of the answer in each window, `[windows, 2]`.

    Both are 0 where a question has no answer, and where a window does not hold all of it.
    """
    tokens = _answer_tokens(spans, tokenizer)[spans.windows.question.numpy()]
    first, length = spans.windows.first.numpy(), spans.windows.length.numpy()
    holds = (tokens[:, 0] >= first) & (tokens[:, 1] < first + length)
    positions = tokens + (spans.windows.offset.numpy() - first)[:, np.newaxis]
    return np.where(holds[:, np.newaxis], positions, 0)


def _answer_tokens(spans: SpanWindows, tokenizer: Tokenizer) -> np.ndarray:
    """Returns the first and last token of each question's answer in its context, or -1."""
    tokens, questions = spans.contexts.tokens, spans.questions
    first_words = tokens.row_starts().numpy().tolist()
    # Where the tokens of each word start, counted over all contexts.
    starts = tokens.values.row_splits.numpy().tolist()
    ids = tokens.flat_values.numpy().tolist()
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
