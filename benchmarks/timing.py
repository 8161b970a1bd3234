"""Timing that compares: runs are interleaved, and the fastest of each counts."""

import os
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

Name = TypeVar("Name")


def fastest(candidates: Mapping[Name, Callable[[], object]], rounds: int) -> dict[Name, float]:
    """Returns the seconds of the fastest call of each candidate, called in turn.

    A candidate that answers a number has timed itself.
    """
    for call in candidates.values():
        call()  # Traces and allocates.
        call()
    times = {name: float("inf") for name in candidates}
    for _ in range(rounds):
        for name, call in candidates.items():
            start = time.perf_counter()
            answer = call()
            took = answer if isinstance(answer, float) else time.perf_counter() - start
            times[name] = min(times[name], took)
    return times


def load_line() -> str:
    """Says how busy the machine is."""
    one, five, _ = os.getloadavg()
    return f"{len(os.sched_getaffinity(0))} cores, load {one:.1f} (1 min), {five:.1f} (5 min)"
