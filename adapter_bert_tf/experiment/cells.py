"""Cells, columns and lists of a report's tables."""

import dataclasses
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence

from adapter_bert_tf.experiment import paper
from adapter_bert_tf.experiment.accounting import SuiteCost
from adapter_bert_tf.experiment.figures import percent
from adapter_bert_tf.experiment.pages import Table
from adapter_bert_tf.experiment.records import Record, in_words
from adapter_bert_tf.experiment.select import Point, choose, standard_error

NONE, TIMES = "\N{EN DASH}", "\N{MULTIPLICATION SIGN}"
# Points by task, as a column of a table.
Column = Mapping[str, Point]


def best_of(records: Iterable[Record], method: str) -> Column:
    """Returns what was chosen for each task, of one method."""
    return choose((each for each in records if each.method == method), lambda each: each.task)


def base_size(records: Iterable[Record]) -> int | None:
    """Returns the size of the base: a model without adapters has only a small head besides."""
    sizes = (each.total for each in records if each.total and each.method != "no_bert")
    return min(sizes, default=None)


@dataclasses.dataclass(frozen=True)
class Columns:
    """Our part of a table of tasks and methods, row by row.

    Attributes:
      columns: By method, what was chosen for the tasks.
      base: Number of parameters of the base.
      values: Returns the values of a point that are shown.
    """

    columns: Mapping[str, Column]
    base: int | None
    values: Callable[[Point], list[float]]

    def tasks(self, first: Iterable[str]) -> list[str]:
        """Returns the tasks: the paper's in its order, then others."""
        ours = (task for column in self.columns.values() for task in column)
        return list(dict.fromkeys([*first, *ours]))

    def scores(self, task: str) -> list[str]:
        """Returns the row of a task."""
        found = [column.get(task) for column in self.columns.values()]
        return [task, *(shown_score(task, self.values(each)) if each else NONE for each in found)]

    def means(self) -> list[str]:
        """Returns means over the common tasks, as other means could not be compared."""
        common = self._common()
        means = [
            mean_or_none(
                percent(task, statistics.fmean(self.values(column[task]))) for task in common
            )
            if column
            else None
            for column in self.columns.values()
        ]
        return [f"mean of {len(common)} tasks", *map(shown, means)]

    def paper_mean(self, scores: Mapping[str, float]) -> str:
        """Returns the mean of the paper's scores of the same tasks, if it has all of them."""
        common = self._common()
        is_there = all(task in scores for task in common)
        return shown(mean_or_none(scores[task] for task in common) if is_there else None)

    def _common(self) -> list[str]:
        """Returns the tasks that all columns that are not empty have a value for."""
        columns = [column for column in self.columns.values() if column]
        return [
            task
            for task in self.tasks(first=())
            if all(task in column and self.values(column[task]) for column in columns)
        ]

    def shares(self) -> list[str]:
        """Returns the row that tells what share of the parameters a task trains."""
        costs = [self._cost(column) for column in self.columns.values()]
        texts = (f"{100 * each.share:.3g} %" if each else NONE for each in costs)
        return ["trained a task", *texts]

    def suites(self) -> list[str]:
        """Returns the row that tells what all tasks cost, as a multiple of one BERT."""
        costs = [self._cost(column) for column in self.columns.values()]
        texts = (
            f"{each.total:.3g}{TIMES} ({len(each.held)} tasks)" if each else NONE for each in costs
        )
        return ["all tasks, beside one BERT", *texts]

    def _cost(self, column: Column) -> SuiteCost | None:
        firsts = [each.first for each in column.values()]
        held = tuple(each.trained for each in firsts if each.trained and each.method != "no_bert")
        return SuiteCost(self.base, held) if self.base and held else None


def mean_or_none(values: Iterable[float]) -> float | None:
    """Returns the mean, if there are values."""
    values = list(values)
    return statistics.fmean(values) if values else None


def shown(value: float | None, form: str = ".1f") -> str:
    """Returns a number as a table shows it."""
    return NONE if value is None else format(value, form)


def shown_score(task: str, values: Sequence[float]) -> str:
    """Returns the mean in percent, with its standard error if there are several values."""
    if not values:
        return NONE
    mean = shown(percent(task, statistics.fmean(values)))
    error = percent(task, standard_error(values))
    return f"{mean} ± {error:.1f}" if len(values) > 1 else mean


def shown_paper_score(score: paper.Score, form: str = ".1f") -> str:
    """Returns a score of the paper, with its error if it has one."""
    mean = shown(score.mean, form)
    return mean if score.error is None else f"{mean} ± {shown(score.error, form)}"


def listing(title: str, listed: Iterable[Point], note: str = "") -> Table:
    """Returns a table with a row for each point."""
    rows = []
    for point in listed:
        first = point.first
        rows.append(
            (
                first.task,
                first.method,
                in_words(first.settings),
                str(len(point.records)),
                first.metric,
                shown_score(first.task, point.values),
                shown_score(first.task, point.tests),
                f"{first.trained:,}" if first.trained is not None else NONE,
            )
        )
    header = ("task", "method", "settings", "seeds", "metric", "validation", "test", "trained")
    return Table(title, header, rows, note)
