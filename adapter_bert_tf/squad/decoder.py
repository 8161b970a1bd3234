"""From the logits of windows to answers in the words of the context, as the original finds them.

`decode` is a TensorFlow graph. Exported models run it for each request; `find_answers` runs it
on whole files.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from adapter_bert_tf.squad.texts import Columns, different_texts, row_splits, stack_rows, take_rows
from adapter_bert_tf.squad.windows import (
    ENCODING,
    Contexts,
    SpanWindows,
    Windows,
    has_most_context,
)
from adapter_bert_tf.text.tokenizer import Tokenizer

# What the original writes to its files if a question of v1.1 has no span at all.
_EMPTY = "empty"
# The odds of "" that the original gives to a question whose context has no window.
_WITHOUT_WINDOW = 1_000_000.0
# About how many windows of a file are decoded together, which bounds the memory.
_WINDOWS_TOGETHER = 4096


@dataclasses.dataclass(frozen=True)
class Decoding:
    """How answers are chosen.

    Args:
      n_best_size: Number of answers listed for a question. In each window, this many starts and
        this many ends are tried.
      max_answer_length: Maximum number of tokens of an answer.
      with_negative: Whether a question may have no answer, as in SQuAD v2.0. `decode` also takes
        a tensor with a value for each question.
      null_threshold: With `with_negative`, the answer is "" if its score exceeds that of the
        best other answer by more than this. `decode` also takes a tensor of float64.
    """

    n_best_size: int = 20
    max_answer_length: int = 30
    with_negative: bool | tf.Tensor = False
    null_threshold: float | tf.Tensor = 0.0

    @classmethod
    def of(cls, inputs: Mapping[str, Any]) -> "Decoding":
        """Reads the settings from the `inputs` of a task pack."""
        names = (field.name for field in dataclasses.fields(cls))
        return cls(**{name: inputs[name] for name in names if name in inputs})


class Candidate(NamedTuple):
    """A possible answer. A tuple, because a file has hundreds of thousands of them.

    Args:
      text: Its words with single spaces between them; "" stands for no answer.
      start_logit: Logit of its first token.
      end_logit: Logit of its last token.
      probability: Its probability among the n best.
      start: The byte of the context at which it starts.
      end: The byte of the context at which it ends; 0 if it is not part of the context.
    """

    text: str
    start_logit: float
    end_logit: float
    probability: float = 0.0
    start: int = 0
    end: int = 0

    def to_json(self) -> dict[str, Any]:
        """Returns the answer as `nbest_predictions.json` has it."""
        return {
            "text": self.text,
            "probability": self.probability,
            "start_logit": self.start_logit,
            "end_logit": self.end_logit,
        }

    def place(self, context: str) -> tuple[int, int] | None:
        """Returns where it starts and ends in the context, counted in characters."""
        if not self.end:
            return None
        encoded = context.encode(*ENCODING)
        start = len(encoded[: self.start].decode(*ENCODING))
        return start, start + len(encoded[self.start : self.end].decode(*ENCODING))


@dataclasses.dataclass(frozen=True)
class Answered:
    """The answer to a question.

    Args:
      text: The chosen answer.
      n_best: The possible answers, the most probable first.
      null_odds: The score of "" minus that of the best other answer; None in v1.1.
    """

    text: str
    n_best: list[Candidate]
    null_odds: float | None = None

    @property
    def chosen(self) -> Candidate:
        """The chosen answer among the n best."""
        return next(answer for answer in self.n_best if answer.text == self.text)

    @property
    def best(self) -> str:
        """The best answer that is not ""."""
        return next((answer.text for answer in self.n_best if answer.text), "")


@dataclasses.dataclass(frozen=True)
class Decoded:
    """The answers to a batch of questions, as tensors.

    Args:
      text: The chosen answer, `[questions]`; "" if there is none.
      score: Its probability among the n best, `[questions]`.
      start: The byte of the context at which it starts, `[questions]`; 0 if there is none.
      end: The byte of the context at which it ends, `[questions]`; 0 if there is none.
      null_odds: The score of "" minus that of the best other answer, `[questions]`.
      n_best: The fields of `Candidate`, each `[questions, (answers)]`, the most probable first.
    """

    text: tf.Tensor
    score: tf.Tensor
    start: tf.Tensor
    end: tf.Tensor
    null_odds: tf.Tensor
    n_best: dict[str, tf.RaggedTensor]


def find_answers(
    spans: SpanWindows, logits: np.ndarray, tokenizer: Tokenizer, decoding: Decoding
) -> list[Answered]:
    """Answers all questions of a file.

    Args:
      spans: The questions and their windows.
      logits: Logits of start and end in each window, `[windows, positions, 2]`.
      tokenizer: The base's tokenizer.
      decoding: How answers are chosen, with one threshold for all questions.
    """
    predictions: list[Answered] = []
    context_of = np.array(spans.questions.context_of, np.int64)
    for first, end in _parts(spans.windows, len(context_of)):
        windows, rows = spans.windows.of_questions(first, end)
        used, context = np.unique(context_of[first:end], return_inverse=True)
        contexts = spans.contexts.take(used)
        # Not in a `tf.function`: tracing it takes longer than it saves in a few parts.
        found = decode(tokenizer, contexts, windows, context, logits[rows], decoding)
        predictions += _predictions(found, bool(decoding.with_negative))
    return predictions


def _parts(windows: Windows, questions: int) -> Iterator[tuple[int, int]]:
    """Yields ranges of questions with about the same number of windows."""
    before = np.searchsorted(windows.question.numpy(), np.arange(questions))
    ends = np.flatnonzero(np.diff(before // _WINDOWS_TOGETHER)) + 1
    yield from itertools.pairwise([0, *ends.tolist(), questions])


def _predictions(found: Decoded, with_negative: bool) -> Iterator[Answered]:
    columns = {name: values.flat_values.numpy().tolist() for name, values in found.n_best.items()}
    columns["text"] = [text.decode(*ENCODING) for text in columns["text"]]
    answers = list(map(Candidate, *(columns[name] for name in Candidate._fields)))
    splits = found.n_best["text"].row_splits.numpy().tolist()
    texts, odds = found.text.numpy().tolist(), found.null_odds.numpy().tolist()
    for number, (start, end) in enumerate(itertools.pairwise(splits)):
        if start == end:
            yield Answered(_EMPTY, [Candidate(_EMPTY, 0.0, 0.0, 1.0)])
            continue
        null_odds = odds[number] if with_negative else None
        yield Answered(texts[number].decode(*ENCODING), answers[start:end], null_odds)


def decode(
    tokenizer: Tokenizer,
    contexts: Contexts,
    windows: Windows,
    context_of: tf.Tensor,
    logits: tf.Tensor,
    decoding: Decoding,
) -> Decoded:
    """Finds the n best answers to each question, and chooses one.

    Args:
      tokenizer: The base's tokenizer.
      contexts: The contexts, encoded as UTF-8; lone surrogates may be in them.
      windows: The windows.
      context_of: Number of each question's context, `[questions]`.
      logits: Logits of start and end, `[windows, positions, 2]`.
      decoding: How answers are chosen.
    """
    context_of = tf.convert_to_tensor(context_of)
    questions = tf.size(context_of, tf.int64)
    spans = _find_spans(logits, windows, contexts, context_of, decoding)
    spans = different_texts(tokenizer, contexts, spans, questions, decoding.n_best_size)
    nulls = _nulls(logits, windows, questions)
    with_negative = tf.broadcast_to(decoding.with_negative, [questions])
    # Of equal scores, that of "" comes last, as in the original.
    n_best = _sorted(stack_rows(spans, take_rows(nulls, tf.where(with_negative)[:, 0])))
    question = n_best["question"]
    rank = tf.range(tf.size(question, tf.int64)) - tf.gather(
        row_splits(question, questions), question
    )
    # "" is listed even if n others are better.
    kept = (rank < decoding.n_best_size) | (n_best["text"] == "")
    n_best = take_rows(n_best, tf.where(kept)[:, 0])
    n_best["probability"] = _probabilities(n_best, questions)
    return _choose(n_best, nulls, with_negative, decoding.null_threshold)


def _sorted(table: Columns) -> Columns:
    """Sorts spans by question, then by score, the highest first. Ties keep their order."""
    order = tf.argsort(table["start_logit"] + table["end_logit"], 0, "DESCENDING", stable=True)
    by_question = tf.argsort(tf.gather(table["question"], order), stable=True)
    return take_rows(table, tf.gather(order, by_question))


def _find_spans(
    logits: tf.Tensor,
    windows: Windows,
    contexts: Contexts,
    context_of: tf.Tensor,
    decoding: Decoding,
) -> Columns:
    """Pairs the best starts and ends of each window.

    The columns `first` and `last` are tokens, counted over all contexts.
    """
    tried = tf.minimum(decoding.n_best_size, tf.shape(logits)[1])
    # Of equal logits, both `top_k` and the original take the first.
    start_logits, starts = tf.math.top_k(logits[:, :, 0], tried)
    end_logits, ends = tf.math.top_k(logits[:, :, 1], tried)
    starts, ends = (tf.cast(each, tf.int64) for each in (starts, ends))
    rows = tf.range(tf.shape(logits, tf.int64)[0])[:, tf.newaxis] + tf.zeros_like(starts)
    may_start = _in_context(windows, starts) & has_most_context(windows, rows, starts)
    may_end = _in_context(windows, ends)
    length = ends[:, tf.newaxis, :] - starts[:, :, tf.newaxis] + 1
    fits = (length > 0) & (length <= decoding.max_answer_length)
    pairs = tf.where(fits & may_start[:, :, tf.newaxis] & may_end[:, tf.newaxis, :])
    window, start, end = tf.unstack(pairs, axis=1)
    at_start, at_end = tf.stack([window, start], 1), tf.stack([window, end], 1)
    context = tf.gather(context_of, windows.question)
    to_token = tf.gather(contexts.ids.row_starts(), context) + windows.first - windows.offset
    to_token = tf.gather(to_token, window)
    spans = {
        "question": tf.gather(windows.question, window),
        # The original adds logits in Python, that is in double precision. In single precision,
        # there would be more ties.
        "start_logit": tf.cast(tf.gather_nd(start_logits, at_start), tf.float64),
        "end_logit": tf.cast(tf.gather_nd(end_logits, at_end), tf.float64),
        "first": tf.gather_nd(starts, at_start) + to_token,
        "last": tf.gather_nd(ends, at_end) + to_token,
    }
    return _sorted(spans)


def _in_context(windows: Windows, positions: tf.Tensor) -> tf.Tensor:
    first = windows.offset[:, tf.newaxis]
    return (positions >= first) & (positions < first + windows.length[:, tf.newaxis])


def _nulls(logits: tf.Tensor, windows: Windows, questions: tf.Tensor) -> Columns:
    """Returns the answer "" to each question, from the window in which it scores least.

    The column `odds` has the odds of "" for questions that have no span.
    """
    # A sum, as there is no first position if there is no window at all.
    logits = tf.cast(tf.reduce_sum(logits[:, :1], axis=1), tf.float64)
    score = tf.reduce_sum(logits, axis=1)
    lowest = tf.math.unsorted_segment_min(score, windows.question, questions)
    is_lowest = score == tf.gather(lowest, windows.question)
    window = _first_rows(is_lowest, windows.question, questions)
    # A question without a window takes the row that is added here.
    logits = tf.gather(tf.concat([logits, tf.zeros([1, 2], tf.float64)], 0), window)
    has_window = window < tf.size(score, tf.int64)
    return {
        "question": tf.range(questions),
        "start_logit": logits[:, 0],
        "end_logit": logits[:, 1],
        "text": tf.fill([questions], ""),
        "start": tf.zeros([questions], tf.int64),
        "end": tf.zeros([questions], tf.int64),
        "odds": tf.where(has_window, tf.reduce_sum(logits, axis=1), _WITHOUT_WINDOW),
    }


def _first_rows(chosen: tf.Tensor, question: tf.Tensor, questions: tf.Tensor) -> tf.Tensor:
    """Returns the first chosen row of each question; without one, the number of rows."""
    rows = tf.where(chosen)[:, 0]
    first = tf.math.unsorted_segment_min(rows, tf.gather(question, rows), questions)
    return tf.minimum(first, tf.size(question, tf.int64))


def _probabilities(n_best: Columns, questions: tf.Tensor) -> tf.Tensor:
    score = n_best["start_logit"] + n_best["end_logit"]
    question = n_best["question"]
    highest = tf.math.unsorted_segment_max(score, question, questions)
    weight = tf.exp(score - tf.gather(highest, question))
    total = tf.math.unsorted_segment_sum(weight, question, questions)
    return weight / tf.gather(total, question)


def _choose(
    n_best: Columns, nulls: Columns, with_negative: tf.Tensor, threshold: float | tf.Tensor
) -> Decoded:
    """Chooses the best span, or "" if it may be the answer and its odds exceed the threshold."""
    questions = tf.size(with_negative, tf.int64)
    question, is_null = n_best["question"], n_best["text"] == ""
    best = _first_rows(~is_null, question, questions)
    null = _first_rows(is_null, question, questions)
    # A question without any answer takes the row that is added here.
    nothing = {name: tf.zeros([1], column.dtype) for name, column in n_best.items()}
    rows = stack_rows(n_best, nothing)

    span = take_rows(rows, best)
    has_span = best < tf.size(question, tf.int64)
    odds = nulls["start_logit"] + nulls["end_logit"] - span["start_logit"] - span["end_logit"]
    odds = tf.where(has_span, odds, nulls["odds"])
    # `tf.cast` would round a float of Python to single precision.
    threshold = tf.convert_to_tensor(threshold, tf.float64)
    says_null = with_negative & (~has_span | (odds > threshold))
    chosen = take_rows(rows, tf.where(says_null, null, best))
    splits = row_splits(question, questions)
    return Decoded(
        text=chosen["text"],
        score=chosen["probability"],
        start=chosen["start"],
        end=chosen["end"],
        null_odds=odds,
        n_best={
            name: tf.RaggedTensor.from_row_splits(n_best[name], splits, validate=False)
            for name in Candidate._fields
        },
    )
