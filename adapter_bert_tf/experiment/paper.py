"""The numbers of the paper, to lay ours beside them.

Houlsby et al., "Parameter-Efficient Transfer Learning for NLP", ICML 2019. All scores are in
percent. They are under the names of our tasks and methods.
"""

from collections.abc import Mapping
from typing import NamedTuple

SOURCE = "Houlsby et al., ICML 2019"


class GlueRow(NamedTuple):
    """A row of Table 1: BERT-large, scored by GLUE's server.

    Attributes:
      suite: Parameters of all nine tasks together, as a multiple of one BERT.
      trained: Trained parameters of a task, in percent of BERT's.
      scores: Score by task.
      total: The server's overall score, which is not the mean of the others.
    """

    suite: float
    trained: float
    scores: Mapping[str, float]
    total: float


GLUE_TASKS = ("CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI", "MNLI-mm", "QNLI", "RTE")


def _glue(suite: float, trained: float, total: float, *scores: float) -> GlueRow:
    return GlueRow(suite, trained, dict(zip(GLUE_TASKS, scores, strict=True)), total)


GLUE = {
    "full": _glue(9.0, 100, 80.4, 60.5, 94.9, 89.3, 87.6, 72.1, 86.7, 85.9, 91.1, 70.1),
    "adapters": _glue(1.3, 3.6, 80.0, 59.5, 94.0, 89.5, 86.9, 71.8, 84.9, 85.1, 90.7, 71.5),
    "adapters of 64": _glue(1.2, 2.1, 79.6, 56.9, 94.2, 89.6, 87.3, 71.8, 85.3, 84.6, 91.4, 68.8),
}

# What Table 1 scores a task with, where it is not the accuracy.
GLUE_METRICS = {"CoLA": "matthews", "MRPC": "f1", "STS-B": "spearman", "QQP": "f1"}


class Score(NamedTuple):
    """A score, and the standard error of its mean where one is given."""

    mean: float
    error: float | None = None


def _additional(no_bert: float, *pairs: tuple[float, float]) -> dict[str, Score]:
    full, top_k, adapters = (Score(*pair) for pair in pairs)
    return {"no_bert": Score(no_bert), "full": full, "top_k": top_k, "adapters": adapters}


# Table 2: BERT-base, accuracy on the test set.
ADDITIONAL = {
    "20newsgroups": _additional(91.1, (92.8, 0.1), (92.8, 0.1), (91.7, 0.2)),
    "airline": _additional(84.5, (83.6, 0.3), (84.0, 0.1), (84.5, 0.2)),
    "corporate_messaging": _additional(91.9, (92.5, 0.5), (92.4, 0.6), (92.9, 0.3)),
    "disasters": _additional(84.9, (85.3, 0.4), (85.3, 0.4), (84.1, 0.2)),
    "economic_news_relevance": _additional(81.1, (82.1, 0.0), (78.9, 2.8), (82.5, 0.3)),
    "emotion": _additional(36.3, (38.4, 0.1), (37.6, 0.2), (38.7, 0.1)),
    "global_warming": _additional(82.7, (84.2, 0.4), (81.9, 0.2), (82.7, 0.3)),
    "political_audience": _additional(81.0, (80.9, 0.3), (80.7, 0.8), (79.0, 0.5)),
    "political_bias": _additional(76.8, (75.2, 0.9), (76.5, 0.4), (75.9, 0.3)),
    "political_message": _additional(43.8, (38.9, 0.6), (44.9, 0.6), (44.1, 0.2)),
    "primary_emotions": _additional(33.5, (36.9, 1.6), (38.2, 1.0), (33.9, 1.4)),
    "progressive_opinion": _additional(70.6, (71.6, 0.5), (75.9, 1.3), (71.7, 1.1)),
    "progressive_stance": _additional(54.3, (63.8, 1.0), (61.5, 1.3), (60.6, 1.4)),
    "us_economic_performance": _additional(75.6, (75.3, 0.1), (76.5, 0.4), (77.3, 0.1)),
    "customer_complaints": _additional(54.5, (55.9, 0.1), (56.4, 0.1), (55.4, 0.1)),
    "news_aggregator": _additional(95.2, (96.3, 0.0), (96.5, 0.0), (96.2, 0.0)),
    "sms_spam": _additional(98.5, (99.3, 0.2), (99.3, 0.2), (95.1, 2.2)),
}

ADDITIONAL_MEAN = {"no_bert": 72.7, "full": 73.7, "top_k": 74.0, "adapters": 73.3}

# By method: all 17 tasks as a multiple of one BERT, and trained parameters in percent of BERT's.
ADDITIONAL_COST = {"full": (17.0, 100.0), "top_k": (9.9, 52.9), "adapters": (1.19, 1.14)}


class Fact(NamedTuple):
    """A number that the paper's text gives for one of its figures.

    Attributes:
      what: What was measured.
      score: The result.
    """

    what: str
    score: Score


# By experiment. A fall is relative to the score of the whole model, a difference is in points.
FACTS = {
    "tradeoff": (
        Fact("BERT-base, MNLI, top layer alone: accuracy", Score(77.8, 0.1)),
        Fact("BERT-base, MNLI, adapters of 64: accuracy", Score(83.7, 0.1)),
        Fact("BERT-base, MNLI, full: accuracy", Score(84.4, 0.02)),
        Fact("BERT-base, MNLI, LayerNorms alone: difference to full", Score(-4.0)),
        Fact("BERT-base, CoLA, LayerNorms alone: difference to full", Score(-3.5)),
    ),
    "squad": (
        Fact("adapters of 2: F1", Score(89.9)),
        Fact("adapters of 64: F1", Score(90.4)),
        Fact("full: F1", Score(90.7)),
    ),
    "ablation": (
        Fact("BERT-base, any single layer: greatest relative fall", Score(-2.0)),
        Fact("BERT-base, MNLI, all layers: relative fall", Score(-37.0)),
        Fact("BERT-base, CoLA, all layers: relative fall", Score(-69.0)),
    ),
    "init_scale": (Fact("largest initial deviation that the results are robust to", Score(0.01)),),
    "size": (
        Fact("adapters of 8: mean accuracy of eight tasks", Score(86.2)),
        Fact("adapters of 64: mean accuracy of eight tasks", Score(85.8)),
        Fact("adapters of 256: mean accuracy of eight tasks", Score(85.7)),
    ),
}
