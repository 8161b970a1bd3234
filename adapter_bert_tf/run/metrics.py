"""The metrics of the tasks."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import scipy.stats
import sklearn.metrics


def _classes(metric: Callable) -> Callable[[np.ndarray, np.ndarray], float]:
    return lambda labels, logits: metric(labels, np.argmax(logits, axis=-1))


def _correlation(metric: Callable) -> Callable[[np.ndarray, np.ndarray], float]:
    return lambda labels, values: metric(labels, values)[0]


_METRICS: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "accuracy": _classes(sklearn.metrics.accuracy_score),
    "f1": _classes(sklearn.metrics.f1_score),
    "matthews": _classes(sklearn.metrics.matthews_corrcoef),
    "pearson": _correlation(scipy.stats.pearsonr),
    "spearman": _correlation(scipy.stats.spearmanr),
}


def compute_metrics(
    names: Sequence[str], labels: np.ndarray, outputs: np.ndarray
) -> dict[str, float]:
    """Returns the metrics called `names`; `outputs` are logits, or values of a regression.

    What is not defined, such as the correlation with values that are all alike, is 0.
    """
    found = {name: float(_METRICS[name](labels, outputs)) for name in names}
    return {name: value if math.isfinite(value) else 0.0 for name, value in found.items()}
