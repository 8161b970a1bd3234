"""From logits to answers in the words of the context, as the original finds them."""

import bisect
import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from adapter_bert_tf.squad.questions import WORD
from adapter_bert_tf.squad.spans import find_spans
from adapter_bert_tf.squad.windows import ENCODING, SpanWindows, Windows
from adapter_bert_tf.text.tokenizer import Tokenizer

# What the original answers where there is no span, and the odds of "" without a window.
_NOTHING, _CERTAIN = "empty", 1_000_000.0


@dataclasses.dataclass(frozen=True)
class Decoding:
    """How logits become answers.

    Args:
      n_best_size: Answers that are listed for a question, and starts and ends that are tried.
      max_answer_length: Tokens of an answer at the most.
      with_negative: Whether a question may have no answer, as in SQuAD v2.0.
      null_threshold: There, the answer is "" if its score is above the best one's by more.
    """

    n_best_size: int = 20
    max_answer_length: int = 30
    with_negative: bool = False
    null_threshold: float = 0.0

    @classmethod
    def of(cls, inputs: Mapping[str, Any]) -> "Decoding":
        """What a task pack keeps of it among its `inputs`."""
        names = (field.name for field in dataclasses.fields(cls))
        return cls(**{name: inputs[name] for name in names if name in inputs})


class Answer(NamedTuple):
    """A possible answer; a tuple, as there are hundreds of thousands in a file.

    Args:
      text: Its words, with single spaces between them; "" for no answer.
      start_logit: Logit of its first token.
      end_logit: Logit of its last token.
      words: Numbers of its first and its last word in the context; None without a span.
      cut: Where it starts and ends in these words, with single spaces between them.
      probability: Among the n best.
    """

    text: str
    start_logit: float
    end_logit: float
    words: tuple[int, int] | None = None
    cut: tuple[int, int] = (0, 0)
    probability: float = 0.0

    @property
    def score(self) -> float:
        """The sum of the logits."""
        return self.start_logit + self.end_logit

    def to_json(self) -> dict[str, Any]:
        """As `nbest_predictions.json` has it."""
        return {
            "text": self.text,
            "probability": self.probability,
            "start_logit": self.start_logit,
            "end_logit": self.end_logit,
        }

    def place(self, context: str) -> tuple[int, int] | None:
        """Where it starts and ends in the context, in characters."""
        if self.words is None:
            return None
        first, last = self.words
        words = list(WORD.finditer(context))[first : last + 1]
        places = [place for word in words for place in range(word.start(), word.end() + 1)]
        return places[self.cut[0]], places[self.cut[1] - 1] + 1


_WITHOUT_WINDOW = Answer("", 0.0, 0.0)


@dataclasses.dataclass(frozen=True)
class Prediction:
    """What is answered to a question.

    Args:
      text: The answer.
      n_best: Possible answers, the most probable first.
      null_odds: Score of "" minus that of the best answer, where "" is possible.
    """

    text: str
    n_best: list[Answer]
    null_odds: float | None = None

    @property
    def best(self) -> str:
        """The best answer besides ""."""
        return next((answer.text for answer in self.n_best if answer.text), "")


def find_answers(
    spans: SpanWindows, logits: np.ndarray, tokenizer: Tokenizer, decoding: Decoding
) -> list[Prediction]:
    """Returns the prediction for each question.

    Args:
      spans: Questions and windows.
      logits: Logits of start and end in each window, `[windows, positions, 2]`.
      tokenizer: The base's tokenizer.
      decoding: How to choose.
    """
    nulls = _nulls(spans.windows, logits, len(spans.questions)) if decoding.with_negative else None
    predictions = []
    for number, answers in enumerate(_answers(spans, logits, tokenizer, decoding)):
        null = nulls[number] if nulls else None
        n_best = _n_best(answers, null, decoding.n_best_size)
        predictions.append(_predict(n_best, null, decoding.null_threshold))
    return predictions


def _nulls(windows: Windows, logits: np.ndarray, questions: int) -> list[Answer]:
    """The answer "" to each question: from the window where it scores least."""
    question = windows.question.numpy()
    null_logits = logits[:, 0].astype(np.float64)
    order = np.lexsort((null_logits.sum(axis=1), question))
    asked, firsts = np.unique(question[order], return_index=True)
    nulls = [_WITHOUT_WINDOW] * questions
    for number, window in zip(asked.tolist(), order[firsts].tolist(), strict=True):
        nulls[number] = Answer("", *null_logits[window].tolist())
    return nulls


def _answers(
    spans: SpanWindows, logits: np.ndarray, tokenizer: Tokenizer, decoding: Decoding
) -> Iterator[Iterator[Answer]]:
    """Yields the possible answers to each question, the best first, with repetitions."""
    found = find_spans(logits, spans.windows, decoding.n_best_size, decoding.max_answer_length)
    columns = [each.numpy() for each in vars(found).values()]
    ends = np.searchsorted(columns[0], np.arange(len(spans.questions)), side="right").tolist()
    words = _Words(spans, tokenizer)
    for context, (first, end) in zip(
        spans.questions.context_of, itertools.pairwise([0, *ends]), strict=True
    ):
        rows = zip(*(column[first:end].tolist() for column in columns[1:]), strict=True)
        yield words.answers(context, rows)


def _n_best(answers: Iterable[Answer], null: Answer | None, size: int) -> list[Answer]:
    best: dict[str, Answer] = {}
    for answer in answers:
        if null and "" not in best and null.score > answer.score and len(best) < size:
            best[""] = null
        if len(best) >= size:
            break
        best.setdefault(answer.text, answer)
    if null:
        best.setdefault("", null)
    n_best = list(best.values()) or [Answer(_NOTHING, 0.0, 0.0)]
    weights = [math.exp(answer.score - n_best[0].score) for answer in n_best]
    total = sum(weights)
    return [
        answer._replace(probability=weight / total)
        for answer, weight in zip(n_best, weights, strict=True)
    ]


def _predict(n_best: list[Answer], null: Answer | None, threshold: float) -> Prediction:
    if null is None:
        return Prediction(n_best[0].text, n_best)
    best = next((answer for answer in n_best if answer.text), None)
    if best is None:
        return Prediction("", n_best, _CERTAIN if null is _WITHOUT_WINDOW else null.score)
    odds = null.score - best.start_logit - best.end_logit
    return Prediction("" if odds > threshold else best.text, n_best, odds)


class _Words:
    """The contexts' words, as they are written, and their tokens."""

    def __init__(self, spans: SpanWindows, tokenizer: Tokenizer):
        contexts = spans.contexts
        encoded = contexts.words.flat_values.numpy().tolist()
        different = list(dict.fromkeys(encoded))
        split = tokenizer.split(tf.constant(different, tf.string)).numpy().tolist()
        plain = {
            word: " ".join(text.decode().split())
            for word, text in zip(different, split, strict=True)
        }
        self._words = [word.decode(*ENCODING) for word in encoded]
        self._plain = [plain[word] for word in encoded]
        self._first_word = contexts.words.row_starts().numpy().tolist()
        tokens = tokenizer.vocabulary.tokens
        self._pieces = [tokens[number] for number in contexts.ids.flat_values.numpy().tolist()]
        self._word_of = contexts.word_of.flat_values.numpy().tolist()
        self._first_token = contexts.ids.row_starts().numpy().tolist()

    def answers(self, context: int, rows: Iterable[tuple]) -> Iterator[Answer]:
        """Words spans of tokens of a context."""
        word, token = self._first_word[context], self._first_token[context]
        for first, last, start_logit, end_logit in rows:
            words = self._word_of[token + first], self._word_of[token + last]
            here = slice(word + words[0], word + words[1] + 1)
            pieces = self._pieces[token + first : token + last + 1]
            cut = _locate(self._words[here], self._plain[here], pieces)
            text = " ".join(self._words[here])
            yield Answer(text[cut[0] : cut[1]], start_logit, end_logit, words, cut)


def _locate(words: list[str], plain: list[str], pieces: list[str]) -> tuple[int, int]:
    """Finds the text of some tokens in the words that hold them.

    The original looks for it in the words as the tokenizer splits them, and counts characters
    to find the place in the words as they are written. Where the counts differ, as they do
    if accents were dropped, it takes whole words.

    Args:
      words: The words, as they are written.
      plain: The words, as the tokenizer splits them.
      pieces: The tokens.

    Returns:
      Where it starts and ends in the words, with single spaces between them.
    """
    text = " ".join(" ".join(pieces).replace(" ##", "").replace("##", "").split())
    split = " ".join(filter(None, plain))
    ends = list(itertools.accumulate(map(len, words)))
    place = split.find(text)
    if not text or place < 0 or ends[-1] != len(split) - split.count(" "):
        return 0, ends[-1] + len(words) - 1
    first = place - split.count(" ", 0, place)
    last = first + len(text) - text.count(" ") - 1
    # A space for each word in front.
    return first + bisect.bisect_right(ends, first), last + bisect.bisect_right(ends, last) + 1
