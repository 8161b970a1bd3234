import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from adapter_bert_tf.data.squad import to_train
from adapter_bert_tf.data.squad_tfds import read_squad_tfds
from adapter_bert_tf.errors import UserError


def _rows(*_args, **_kwargs) -> tf.data.Dataset:
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
    with tfds.testing.mock_data(as_dataset_fn=_rows):
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
    with tfds.testing.mock_data(as_dataset_fn=_rows):
        articles = read_squad_tfds(training=True, with_negative=True)
    assert to_train(articles, "TFDS", with_negative=True).answers[2] is None


def test_without_a_network_it_is_told(monkeypatch):
    def fail(*_args, **_kwargs):
        raise ConnectionError("no network\nand more")

    monkeypatch.setattr(tfds, "load", fail)
    with pytest.raises(UserError, match="TFDS has no squad/v1.1, train: no network; or give"):
        read_squad_tfds(training=True, with_negative=False)
