import json

import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from adapter_bert_tf.errors import UserError
from adapter_bert_tf.squad.questions import (
    read_squad,
    read_squad_tfds,
    some_questions,
    to_predict,
    to_train,
)

CONTEXT = "Ada Lovelace (1815-1852) wrote the first program."


def _articles(**changes):
    question = {
        "id": "q1",
        "question": "Who wrote it?",
        "answers": [{"text": "Ada Lovelace", "answer_start": 0}],
        **changes,
    }
    return [{"paragraphs": [{"context": CONTEXT, "qas": [question]}]}]


def _write(tmp_path, content: str) -> str:
    path = tmp_path / "squad.json"
    path.write_text(content, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('{"data": [\n{"paragraphs": oops', "not JSON: Expecting value at line 2, column 16"),
        ("[]", "expected an object with 'data'"),
        ("{}", "no 'data'"),
        ('{"data": 3}', "'data' is not a list"),
        ('{"data": [{}]}', r"no 'paragraphs' in data\[0\]"),
        ('{"data": [3]}', r"no 'paragraphs' in data\[0\]"),
        ('{"data": [{"paragraphs": [{"qas": []}]}]}', r"no 'context' in data\[0\].paragraphs\[0\]"),
        ('{"data": [{"paragraphs": [{"context": ""}]}]}', r"no 'qas' in data\[0\].paragraphs\[0\]"),
        ('{"data": [{"paragraphs": [{"context": "", "qas": [{"id": 3}]}]}]}', "'id' in .* text"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_wrong_file_is_told_in_one_line(content, told, tmp_path):
    path = _write(tmp_path, content)
    with pytest.raises(UserError, match=told) as error:
        read_squad(path)
    assert str(error.value).startswith(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("key", ["id", "question"])
def test_a_question_has_to_have_its_keys(key, tmp_path):
    articles = _articles()
    del articles[0]["paragraphs"][0]["qas"][0][key]
    path = _write(tmp_path, json.dumps({"data": articles}))
    with pytest.raises(UserError, match=rf"no '{key}' in data\[0\].paragraphs\[0\].qas\[0\]"):
        read_squad(path)


def test_an_answer_has_to_have_a_place(tmp_path):
    path = _write(tmp_path, json.dumps({"data": _articles(answers=[{"text": "Ada"}])}))
    with pytest.raises(UserError, match=r"no 'answer_start' in .*qas\[0\].answers\[0\]"):
        read_squad(path)


def test_questions_come_in_the_order_of_the_file():
    questions = to_predict(_articles() + _articles(id="q2"))
    assert questions.ids == ["q1", "q2"]
    assert questions.context_of == [0, 1]


def test_finds_the_words_of_an_answer():
    answers = [{"text": "1852", "answer_start": CONTEXT.index("1852")}]
    answer = to_train(_articles(answers=answers), "file", False).answers[0]
    assert (answer.first_word, answer.last_word) == (2, 2)


@pytest.mark.parametrize(
    ("text", "start"), [("Ada", 30), ("Ada", 1000), ("Ada", -3), ("program. And", 41), ("", 0)]
)
def test_leaves_out_answers_that_are_not_where_they_say(text, start):
    answers = [{"text": text, "answer_start": start}]
    questions = to_train(_articles(answers=answers), "file", False)
    assert len(questions) == 0
    assert questions.skipped == ["q1"]


def test_training_takes_one_answer():
    two = [{"text": "Ada", "answer_start": 0}] * 2
    with pytest.raises(UserError, match="2 answers; for training, one"):
        to_train(_articles(answers=two), "file", False)


def test_questions_without_answers_are_for_v2():
    with pytest.raises(UserError, match="--version_2_with_negative"):
        to_train(_articles(answers=[]), "file", False)
    with pytest.raises(UserError, match="no true or false 'is_impossible'"):
        to_train(_articles(answers=[]), "file", True)
    questions = to_train(_articles(answers=[], is_impossible=True), "file", True)
    assert questions.answers == [None]


def mock_rows(*_args, **_kwargs) -> tf.data.Dataset:
    def generate():
        for number, (context, text) in enumerate(
            [("one two", "two"), ("three", "three"), ("one two", "one")]
        ):
            yield {
                "id": str(number),
                "context": context,
                "question": f"q{number}",
                "answers": {"text": [text], "answer_start": [context.index(text)]},
                "is_impossible": number == 1,
            }

    string, whole = tf.TensorSpec([], tf.string), tf.TensorSpec([None], tf.int32)
    texts = tf.TensorSpec([None], tf.string)
    answers = {"text": texts, "answer_start": whole}
    signature = {"id": string, "context": string, "question": string, "answers": answers}
    signature["is_impossible"] = tf.TensorSpec([], tf.bool)
    return tf.data.Dataset.from_generator(generate, output_signature=signature)


def test_questions_about_one_context_share_it():
    with tfds.testing.mock_data(as_dataset_fn=mock_rows):
        articles = read_squad_tfds(training=True, with_negative=False)
    questions = to_train(articles, "TFDS", with_negative=False)
    assert questions.contexts == ["one two", "three"]
    assert list(zip(questions.texts, questions.context_of, strict=True)) == [
        ("q0", 0),
        ("q2", 0),
        ("q1", 1),
    ]
    assert [answer.text for answer in questions.answers] == ["two", "one", "three"]


def test_v2_has_questions_without_an_answer():
    with tfds.testing.mock_data(as_dataset_fn=mock_rows):
        articles = read_squad_tfds(training=True, with_negative=True)
    assert to_train(articles, "TFDS", with_negative=True).answers[2] is None


def test_without_a_network_it_is_told(monkeypatch):
    def fail(*_args, **_kwargs):
        raise ConnectionError("no network\nand more")

    monkeypatch.setattr(tfds, "builder", fail)
    with pytest.raises(UserError, match="squad/v1.1, train: no network; give --train_file"):
        read_squad_tfds(training=True, with_negative=False)


def test_some_questions_are_always_the_same_ones_and_keep_their_answers():
    def question(name: str) -> dict:
        return {"id": name, "question": f"{name}?", "answers": []}

    paragraphs = [
        {"context": f"text {i}", "qas": [question(f"{i}-{j}") for j in range(4)]} for i in range(5)
    ]
    articles = [{"paragraphs": paragraphs[:2]}, {"paragraphs": paragraphs[2:]}]
    some = to_predict(some_questions(articles, 7))
    everything = to_predict(articles)
    assert len(some) == 7
    assert some.ids == to_predict(some_questions(articles, 7)).ids
    place = {name: number for number, name in enumerate(everything.ids)}
    assert sorted(some.ids, key=place.get) == some.ids
    for name, context in zip(some.ids, some.context_of, strict=True):
        assert some.contexts[context] == everything.contexts[everything.context_of[place[name]]]
    assert to_predict(some_questions(articles, 20)).ids == everything.ids
    assert to_predict(some_questions(articles, None)).ids == everything.ids
