"""Exact match and F1 of answers, computed by the official scorers in Model Garden."""

from collections.abc import Iterator, Mapping
from typing import Any

from official.nlp.tools import squad_evaluate_v1_1, squad_evaluate_v2_0

from adapter_bert_tf.errors import quiet
from adapter_bert_tf.squad.decoder import Answered

# Model Garden's names and the official ones.
_V2_NAMES = {
    "final_exact": "best_exact",
    "final_exact_thresh": "best_exact_thresh",
    "final_f1": "best_f1",
    "final_f1_thresh": "best_f1_thresh",
}


def questions_of(articles: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yields the questions of a file."""
    for article in articles:
        for paragraph in article["paragraphs"]:
            yield from paragraph["qas"]


def has_answers(articles: list[dict[str, Any]]) -> bool:
    """Tells whether a file has answers, so that predictions can be scored."""
    return any(question.get("answers") for question in questions_of(articles))


def has_negative(articles: list[dict[str, Any]]) -> bool:
    """Tells whether questions may have no answer, as in v2.0."""
    return any(
        "is_impossible" in question or not question.get("answers")
        for question in questions_of(articles)
    )


def score_predictions(
    articles: list[dict[str, Any]], predictions: Mapping[str, Answered]
) -> dict[str, float]:
    """Scores the predictions of a run. In v2.0, also searches the best thresholds for ""."""
    scores = score(articles, {name: found.text for name, found in predictions.items()})
    odds = {
        name: found.null_odds for name, found in predictions.items() if found.null_odds is not None
    }
    if not odds:
        return scores
    # The search decides on its own where "" is better, so it needs the best other answers.
    answers = {name: found.best for name, found in predictions.items()}
    searched = score_v2(articles, answers, odds)
    best = {name: value for name, value in searched.items() if name not in scores}
    for name in ("best_exact_thresh", "best_f1_thresh"):
        if best[name] not in odds.values():
            # The scorer returns 0.0 if it is best to answer no question at all.
            best[name] = min(odds.values()) - 1.0
    return scores | best


def score(
    articles: list[dict[str, Any]],
    predictions: Mapping[str, str],
    null_odds: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Scores predictions with the scorer of the file's version."""
    if null_odds is None and not has_negative(articles):
        return score_v1(articles, predictions)
    return score_v2(articles, predictions, null_odds)


def score_v1(articles: list[dict[str, Any]], predictions: Mapping[str, str]) -> dict[str, float]:
    """Scores v1.1 in percent. A question without a prediction counts as wrong."""
    with quiet():
        scores = squad_evaluate_v1_1.evaluate(articles, predictions)
    return {"exact_match": 100 * scores["exact_match"], "f1": 100 * scores["final_f1"]}


def score_v2(
    articles: list[dict[str, Any]],
    predictions: Mapping[str, str],
    null_odds: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Scores v2.0 in percent. With `null_odds`, also searches the best thresholds."""
    whole = [_with_answers(question) for question in questions_of(articles)]
    # The scorer fails on ids that are not in the file.
    names = {question["id"] for question in whole}
    predictions = {name: text for name, text in predictions.items() if name in names}
    if null_odds is not None:
        null_odds = {name: null_odds[name] for name in predictions}
    with quiet():
        scores = squad_evaluate_v2_0.evaluate(
            [{"paragraphs": [{"qas": whole}]}], predictions, null_odds
        )
    if null_odds is None:
        searched = ("final", "pr_")
        scores = {name: value for name, value in scores.items() if not name.startswith(searched)}
    return {_V2_NAMES.get(name, name): float(value) for name, value in scores.items()}


def _with_answers(question: dict[str, Any]) -> dict[str, Any]:
    return {**question, "answers": question.get("answers") or []}
