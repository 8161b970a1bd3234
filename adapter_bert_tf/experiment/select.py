"""Choosing among trials: by validation alone, with means over seeds."""

import collections
import dataclasses
import json
import math
import statistics
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from adapter_bert_tf.experiment.records import Record


@dataclasses.dataclass(frozen=True)
class Point:
    """Complete trials that differ in nothing but their seed.

    Attributes:
      records: The trials.
    """

    records: tuple[Record, ...]

    @property
    def first(self) -> Record:
        """One of them, for what they have in common."""
        return self.records[0]

    @property
    def values(self) -> list[float]:
        """The validation values."""
        return [each.value for each in self.records if each.value is not None]

    @property
    def mean(self) -> float:
        """Mean of the validation values."""
        return statistics.fmean(self.values)

    @property
    def error(self) -> float:
        """Standard error of the mean; 0 for a single seed."""
        return standard_error(self.values)

    @property
    def tests(self) -> list[float]:
        """The test values: there are some only where this is what was chosen."""
        return [each.test for each in self.records if each.test is not None]


def standard_error(values: Sequence[float]) -> float:
    """Returns the standard error of a mean."""
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0


def points(records: Iterable[Record]) -> list[Point]:
    """Puts complete trials together that differ only in their seed."""
    groups: dict[Hashable, list[Record]] = collections.defaultdict(list)
    for record in records:
        if record.is_complete and record.value is not None and math.isfinite(record.value):
            settings = json.dumps(record.settings, sort_keys=True)
            groups[record.task, record.method, settings].append(record)
    return [Point(tuple(sorted(group, key=lambda each: each.seed))) for group in groups.values()]


def choose(
    records: Iterable[Record], key: Callable[[Record], Any] = lambda each: (each.task, each.method)
) -> dict[Any, Point]:
    """Returns the best point for each value of `key`, by the mean validation value alone.

    Of points with different numbers of seeds, only those are compared that have more than half of
    the most: a single lucky seed must not win against the mean of three, but a seed that failed
    does not take out the other four. Equal ones are decided by their settings, so that the choice
    does not depend on the order in which trials were finished.
    """
    groups: dict[Any, list[Point]] = collections.defaultdict(list)
    for point in points(records):
        groups[key(point.first)].append(point)
    return {name: _best(group) for name, group in groups.items()}


def _best(group: list[Point]) -> Point:
    most = max(len(each.records) for each in group)
    compared = [each for each in group if len(each.records) > most / 2]
    return max(compared, key=lambda each: (each.mean, _text(each)))


def _text(point: Point) -> str:
    return json.dumps(point.first.settings, sort_keys=True)
