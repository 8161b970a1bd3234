"""Reads questions from SQuAD's files, v1.1 and v2.0, or from TensorFlow Datasets."""

import bisect
import dataclasses
import re
from typing import Any

import numpy as np

from adapter_bert_tf.data.download import load_tfds
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.files import read_json

# The original ends a word at these characters, and at no other kind of space.
WORD = re.compile(r"[^ \t\r\n\u202f]+")


@dataclasses.dataclass(frozen=True)
class LabelledAnswer:
    """The right answer to a training question.

    Args:
      text: The text as it is written in the context.
      first_word: Number of the word in which it starts.
      last_word: Number of the word in which it ends.
    """

    text: str
    first_word: int
    last_word: int


@dataclasses.dataclass(frozen=True)
class Questions:
    """The questions of a file, as columns.

    Args:
      ids: The ids of the questions.
      texts: The questions.
      contexts: The contexts. Several questions may share one.
      context_of: Number of each question's context.
      answers: The right answers, None for a question without one. Empty for prediction.
      skipped: Ids of the questions that were left out because their answer is not found at the
        place that the file gives.
    """

    ids: list[str]
    texts: list[str]
    contexts: list[str]
    context_of: list[int]
    answers: list[LabelledAnswer | None] = dataclasses.field(default_factory=list)
    skipped: list[str] = dataclasses.field(default_factory=list)

    def __len__(self) -> int:
        return len(self.ids)


def read_squad(path: str) -> list[dict[str, Any]]:
    """Reads the articles of a file and checks that they have all fields."""
    data = read_json(path)
    if not isinstance(data, dict):
        raise UserError(f"{path}: expected an object with 'data', as SQuAD's files are")
    articles = _get(path, data, "", "data", list)
    for a, article in enumerate(articles):
        where = f"data[{a}]"
        for p, paragraph in enumerate(_get(path, article, where, "paragraphs", list)):
            _check_paragraph(path, paragraph, f"{where}.paragraphs[{p}]")
    return articles


def _check_paragraph(path: str, paragraph: Any, where: str) -> None:
    _get(path, paragraph, where, "context", str)
    for q, question in enumerate(_get(path, paragraph, where, "qas", list)):
        here = f"{where}.qas[{q}]"
        _get(path, question, here, "id", str)
        _get(path, question, here, "question", str)
        if question.get("answers") is not None:
            _get(path, question, here, "answers", list)
        for n, answer in enumerate(question.get("answers") or []):
            _get(path, answer, f"{here}.answers[{n}]", "text", str)
            _get(path, answer, f"{here}.answers[{n}]", "answer_start", int)


def _get(path: str, value: Any, where: str, key: str, kind: type) -> Any:
    place = f" in {where}" if where else ""
    if not isinstance(value, dict) or key not in value:
        raise UserError(f"{path}: no {key!r}{place}")
    found = value[key]
    if not isinstance(found, kind) or isinstance(found, bool):
        raise UserError(f"{path}: {key!r}{place} is not {_KINDS[kind]}")
    return found


_KINDS = {list: "a list", str: "a text", int: "a whole number"}


def to_predict(articles: list[dict[str, Any]]) -> Questions:
    """Returns all questions of a file, for prediction."""
    questions = Questions([], [], [], [])
    for number, (paragraph, _) in enumerate(_paragraphs(articles)):
        questions.contexts.append(paragraph["context"])
        for question in paragraph["qas"]:
            _add(questions, question, number)
    return questions


def some_questions(articles: list[dict[str, Any]], count: int | None) -> list[dict[str, Any]]:
    """Returns articles with so many of their questions, in their order, always the same ones."""
    total = sum(len(paragraph["qas"]) for paragraph, _ in _paragraphs(articles))
    if count is None or count >= total:
        return articles
    kept = iter(np.isin(np.arange(total), np.random.default_rng(0).permutation(total)[:count]))
    found = []
    for article in articles:
        paragraphs = [
            {**each, "qas": [question for question in each["qas"] if next(kept)]}
            for each in article["paragraphs"]
        ]
        found.append({**article, "paragraphs": [each for each in paragraphs if each["qas"]]})
    return found


def to_train(articles: list[dict[str, Any]], path: str, with_negative: bool) -> Questions:
    """Returns the questions of a file with their answers, for training.

    Args:
      articles: The articles of a file.
      path: The file, for error messages.
      with_negative: Whether questions may have no answer, as in v2.0.
    """
    questions = Questions([], [], [], [])
    for number, (paragraph, where) in enumerate(_paragraphs(articles)):
        context = paragraph["context"]
        questions.contexts.append(context)
        matches = list(WORD.finditer(context))
        starts, words = [match.start() for match in matches], [match[0] for match in matches]
        for q, question in enumerate(paragraph["qas"]):
            answer = None
            if not _is_impossible(question, path, f"{where}.qas[{q}]", with_negative):
                answer = _find_answer(question["answers"][0], len(context), starts, words)
                if answer is None:
                    questions.skipped.append(question["id"])
                    continue
            _add(questions, question, number)
            questions.answers.append(answer)
    return questions


def _paragraphs(articles: list[dict[str, Any]]):
    for a, article in enumerate(articles):
        for p, paragraph in enumerate(article["paragraphs"]):
            yield paragraph, f"data[{a}].paragraphs[{p}]"


def _add(questions: Questions, question: dict[str, Any], context: int) -> None:
    questions.ids.append(question["id"])
    questions.texts.append(question["question"])
    questions.context_of.append(context)


def _is_impossible(question: dict, path: str, where: str, with_negative: bool) -> bool:
    if with_negative:
        impossible = question.get("is_impossible")
        if not isinstance(impossible, bool):
            raise UserError(f"{path}: no true or false 'is_impossible' in {where}, as v2.0 has it")
        if impossible:
            return True
    answers = question.get("answers") or []
    if len(answers) != 1:
        hint = "" if with_negative else "; v2.0 wants --version_2_with_negative"
        raise UserError(
            f"{path}: {where} has {len(answers)} answers; for training, one is expected{hint}"
        )
    return False


def _find_answer(
    answer: dict[str, Any], size: int, starts: list[int], words: list[str]
) -> LabelledAnswer | None:
    """Finds the words of an answer; None if its text is not in them, as in the original."""
    first = answer["answer_start"]
    last = first + len(answer["text"]) - 1
    if not 0 <= first <= last < size:
        return None
    first_word, last_word = (bisect.bisect_right(starts, place) - 1 for place in (first, last))
    held = " ".join(words[first_word : last_word + 1])
    if first_word < 0 or " ".join(answer["text"].split()) not in held:
        return None
    return LabelledAnswer(answer["text"], first_word, last_word)


def read_squad_tfds(training: bool, with_negative: bool) -> list[dict[str, Any]]:
    """Returns a split of SQuAD v1.1 or v2.0 as articles, in the form of its files."""
    version = "v2.0" if with_negative else "v1.1"
    instead = f"give --train_file=train-{version}.json and --predict_file=dev-{version}.json"
    split = "train" if training else "validation"
    rows = load_tfds(f"squad/{version}", split, instead).as_numpy_iterator()
    paragraphs: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        questions = paragraphs.setdefault(row["context"].decode(), [])
        questions.append(_question(row))
    return [
        {"paragraphs": [{"context": context, "qas": questions}]}
        for context, questions in paragraphs.items()
    ]


def _question(row: dict[str, Any]) -> dict[str, Any]:
    answers = row["answers"]
    question = {
        "id": row["id"].decode(),
        "question": row["question"].decode(),
        "answers": [
            {"text": text.decode(), "answer_start": int(start)}
            # Those of TFDS's mock data are not equally many.
            for text, start in zip(answers["text"], answers["answer_start"], strict=False)
        ],
    }
    if "is_impossible" in row:
        question["is_impossible"] = bool(row["is_impossible"])
    return question
