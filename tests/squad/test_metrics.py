import random

import pytest
from official.nlp.tools import squad_evaluate_v1_1, squad_evaluate_v2_0

from adapter_bert_tf.squad.decoder import Answered, Candidate
from adapter_bert_tf.squad.metrics import questions_of, score, score_predictions
from tests import squad_lib

WORDS = ["the", "An", "answer", "is", "it's", "42", "(forty-two)"]


def _predict(articles, seed: int) -> dict[str, str]:
    """Answers of which some are right, some in part, and some missing."""
    generator = random.Random(seed)
    predictions = {}
    for question in questions_of(articles):
        right = [answer["text"] for answer in question["answers"]] or [""]
        other = " ".join(generator.choices(WORDS, k=3))
        choices = [right[0], f"The {right[0]}!", f"{right[0]} {other}", other, ""]
        if generator.random() < 0.9:
            predictions[question["id"]] = generator.choice(choices)
    return predictions


@pytest.mark.parametrize("seed", range(5))
def test_v1_is_the_official_score_in_percent(seed):
    articles = squad_lib.articles(seed, WORDS, paragraphs=20)
    predictions = _predict(articles, seed)
    official = squad_evaluate_v1_1.evaluate(articles, predictions)
    assert score(articles, predictions) == {
        "exact_match": pytest.approx(100 * official["exact_match"]),
        "f1": pytest.approx(100 * official["final_f1"]),
    }
    assert 0 < official["exact_match"] < 1


@pytest.mark.parametrize("seed", range(5))
def test_v2_is_the_official_score(seed):
    articles = squad_lib.articles(seed, WORDS, paragraphs=20, negative=True)
    predictions = _predict(articles, seed)
    odds = {name: random.Random(name).uniform(-5, 5) for name in predictions}
    official = squad_evaluate_v2_0.evaluate(articles, predictions, odds)
    found = score(articles, predictions, odds)
    assert found["exact"] == pytest.approx(official["exact"])
    assert found["f1"] == pytest.approx(official["f1"])
    assert found["best_f1"] == pytest.approx(official["final_f1"])
    assert found["best_f1_thresh"] == pytest.approx(official["final_f1_thresh"])


def test_the_best_threshold_reaches_the_best_score():
    articles = squad_lib.articles(3, WORDS, paragraphs=20, negative=True)
    predictions = {}
    for question in questions_of(articles):
        answers = question["answers"]
        # Certain where there is an answer, but for some.
        odds = random.Random(question["id"]).gauss(-1.0 if answers else 2.0, 1.0)
        text = answers[0]["text"] if answers else "the 42"
        answer = Candidate(text, 0.0, 0.0)
        predictions[question["id"]] = Answered("" if odds > 0 else text, [answer], odds)
    scores = score_predictions(articles, predictions)
    threshold = scores["best_f1_thresh"]
    again = {
        name: "" if found.null_odds > threshold else found.best
        for name, found in predictions.items()
    }
    assert score(articles, again)["f1"] == pytest.approx(scores["best_f1"])
    assert scores["best_f1"] > scores["f1"]


def test_a_file_of_v1_has_no_thresholds():
    articles = squad_lib.articles(0, WORDS)
    predictions = {
        question["id"]: Answered("", [Candidate("", 0.0, 0.0)])
        for question in questions_of(articles)
    }
    assert score_predictions(articles, predictions).keys() == {"exact_match", "f1"}
