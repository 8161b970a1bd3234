"""How the step grows with tokens and layers."""

import contextlib
import functools
import itertools

from environments import our_worker
from sizes import BERT_BASE, Case
from timing import fastest

_ROUNDS = 4
# Narrower than BERT-base, so that 24 layers take seconds.
_SMALL = BERT_BASE.but(width=384, layers=2)


def growth() -> dict[str, dict[int, float]]:
    """Seconds of a step with 1, 2, 4 and 8 times the rows, and with 2 to 24 layers."""
    rows = {factor: _SMALL.but(rows=8 * factor) for factor in (1, 2, 4, 8)}
    layers = {count: _SMALL.but(layers=count) for count in (2, 4, 8, 16, 24)}
    return {"times the tokens": _steps(rows), "layers": _steps(layers)}


def _steps(cases: dict[int, Case]) -> dict[int, float]:
    with contextlib.ExitStack() as stack:
        workers = {n: stack.enter_context(our_worker(case)) for n, case in cases.items()}
        steps = {n: functools.partial(worker.seconds, "step") for n, worker in workers.items()}
        return fastest(steps, _ROUNDS)


def lines(found: dict[str, dict[int, float]]) -> list[str]:
    """The growth as text: each time, and what each further unit took since the one before."""
    result = []
    for what, seconds in found.items():
        points = list(seconds.items())
        parts = ["{}: {:.2f} s".format(*points[0])]
        for (before, less), (number, more) in itertools.pairwise(points):
            each = 1000 * (more - less) / (number - before)
            parts.append(f"{number}: {more:.2f} s (+{each:.0f} ms each)")
        result.append(f"step by {what:<18} {', '.join(parts)}")
    return result
