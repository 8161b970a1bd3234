"""Timing that compares: runs are interleaved, and the fastest of each counts."""

import os
import time
from collections.abc import Callable, Mapping


def fastest(candidates: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Returns the seconds of the fastest call of each candidate, called in turn."""
    for call in candidates.values():
        call()  # Traces and allocates.
    times = {name: float("inf") for name in candidates}
    for _ in range(rounds):
        for name, call in candidates.items():
            start = time.perf_counter()
            call()
            times[name] = min(times[name], time.perf_counter() - start)
    return times


def load_line() -> str:
    """Says how busy the machine is."""
    one, five, _ = os.getloadavg()
    return f"{os.cpu_count()} cores, load {one:.1f} (1 min), {five:.1f} (5 min)"
