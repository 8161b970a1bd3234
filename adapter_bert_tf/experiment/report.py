"""The report of an experiment, made from its CSV files alone.

It can be made at any time, from the trials that are complete, and made again: the same files give
the same report.
"""

import collections
import csv
import dataclasses
import io
import os
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from adapter_bert_tf.errors import UserError, file_error
from adapter_bert_tf.experiment import figures, paper
from adapter_bert_tf.experiment.accounting import SuiteCost
from adapter_bert_tf.experiment.figures import Chart, HeatMap, percent
from adapter_bert_tf.experiment.pages import PAPER, Block, Table, to_html, to_markdown
from adapter_bert_tf.experiment.records import (
    ABLATION,
    COMPLETE,
    FAILED,
    PRUNED,
    RUNNING,
    WAITING,
    Record,
    in_words,
    read_records,
)
from adapter_bert_tf.experiment.select import Point, choose, points, standard_error
from adapter_bert_tf.files import write_atomically

# By experiment. The numbers are those of the paper's tables and figures.
# What is ranked in reports, and how much of it.
_RANKED = {"squad": "settings", "sweep": "settings", "baseline": "designs"}
_MOST_RANKED = 50
_TITLES = {
    "glue": "GLUE (Table 1)",
    "additional": "17 additional tasks (Table 2, Figure 3)",
    "tradeoff": "Score and trained parameters (Figures 1, 3 and 4)",
    "squad": "SQuAD v1.1 (Figure 5)",
    "ablation": "Layers without adapters (Figure 6)",
    "init_scale": "Initial deviation of the adapters (Figure 6)",
    "learning_rate": "Learning rates (Figure 7)",
    "size": "Size of the adapters",
    "variants": "Variants of the adapter",
    "sweep": "Sweep",
    "baseline": "The baseline without BERT",
}

_NONE, _TIMES = "\N{EN DASH}", "\N{MULTIPLICATION SIGN}"
# The variant of the adapter that the paper uses.
_STANDARD = "houlsby"
# Points by task, as a column of a table.
Column = Mapping[str, Point]


def write_report(folder: str, experiment: str, about: Mapping[str, Any]) -> None:
    """Writes the report of an experiment, with its figures and their points.

    Args:
      folder: The experiment's folder, with its CSV files.
      experiment: Name of the experiment.
      about: Whatever else should be told: settings, machine, commit.
    """
    records = read_records(folder)
    blocks = [
        _progress(records),
        *_CONTENTS[experiment](records),
        *_ablation(folder),
        *_facts(experiment),
        _chosen(records, folder),
        *_rankings(experiment, records),
        *_failures(records),
        _about(about, records),
    ]
    drawn = {each.name: each.svg() for each in blocks if not isinstance(each, Table)}
    files = {"report.html": to_html(_TITLES[experiment], blocks, drawn)}
    files["report.md"] = to_markdown(_TITLES[experiment], blocks)
    for block in blocks:
        if not isinstance(block, Table):
            files[f"figure_{block.name}.svg"] = drawn[block.name]
            files[f"figure_{block.name}.csv"] = _csv(block.rows())
    for name, text in files.items():
        write_atomically(os.path.join(folder, name), text.encode())


# Of all experiments.


def _progress(records: Sequence[Record]) -> Table:
    counts = collections.Counter(each.state for each in records)
    states = (COMPLETE, RUNNING, WAITING, PRUNED, FAILED)
    is_open = any(counts[state] for state in (RUNNING, WAITING))
    note = "The experiment is not finished: what follows is made from what is complete."
    row = [str(counts[state]) for state in states]
    return Table("Trials", states, [row], note if is_open else "")


def _about(about: Mapping[str, Any], records: Iterable[Record]) -> Table:
    hours = sum(each.seconds or 0 for each in records) / 3600
    told = {**about, "hours of trials": f"{hours:.2f}"}
    return Table("About", ("what", "value"), [(name, str(each)) for name, each in told.items()])


def _failures(records: Iterable[Record]) -> list[Table]:
    rows = [
        (each.task, each.method, in_words(each.settings), str(each.seed), each.reason)
        for each in records
        if each.state == FAILED
    ]
    header = ("task", "method", "settings", "seed", "reason")
    return [Table("Failed trials", header, rows)] if rows else []


def _chosen(records: Iterable[Record], folder: str) -> Table:
    note = (
        "By the mean on the validation set alone. Results on the test set were computed only for "
        "what was chosen, and had no part in choosing it."
    )
    found = list(choose(records).values())
    table = _listing("Chosen settings", found, note)
    packs = [pack_of(point.first, folder) or _NONE for point in found]
    if set(packs) <= {_NONE}:  # The trials' folders are elsewhere.
        return table
    rows = [[*row, pack] for row, pack in zip(table.rows, packs, strict=True)]
    return dataclasses.replace(table, header=[*table.header, "task pack"], rows=rows)


def pack_of(record: Record, folder: str) -> str | None:
    """Returns where the task pack of a trial is, seen from the experiment's folder."""
    pack = os.path.join(record.folder, "pack")
    return pack if record.folder and os.path.isdir(os.path.join(folder, pack)) else None


def _listing(title: str, listed: Iterable[Point], note: str = "") -> Table:
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
                _score(first.task, point.values),
                _score(first.task, point.tests),
                f"{first.trained:,}" if first.trained is not None else _NONE,
            )
        )
    header = ("task", "method", "settings", "seeds", "metric", "validation", "test", "trained")
    return Table(title, header, rows, note)


def _rankings(experiment: str, records: Iterable[Record]) -> list[Table]:
    """Returns what was tried, where that is a list and no picture."""
    if experiment not in _RANKED:
        return []
    ranked = sorted(points(records), key=lambda each: (each.first.task, -each.mean))
    note = f"The best {_MOST_RANKED} of {len(ranked):,}; trials.csv has all."
    title = f"All {_RANKED[experiment]}, best first"
    return [_listing(title, ranked[:_MOST_RANKED], note if len(ranked) > _MOST_RANKED else "")]


def _facts(experiment: str) -> list[Table]:
    facts = paper.FACTS.get(experiment, ())
    rows = [(each.what, _paper_score(each.score, "g")) for each in facts]
    note = f"Numbers of {paper.SOURCE}, not ours. Its scores and changes are in percent."
    header = (f"{PAPER}: what", f"{PAPER}: result")
    return [Table("The paper's numbers", header, rows, note)] if rows else []


# Of each.


_GLUE_NOTE = (
    "Ours: best on the validation set, in percent. Columns that begin with \u201cPaper\u201d: "
    f"Table 1 of {paper.SOURCE}, which used BERT-large and the test scores of GLUE's server. "
    "Its total is the server's, not a mean; the mean of its scores is computed here."
)
_ADDITIONAL_NOTE = (
    "Ours: accuracy on the test set of what is best on the validation set, in percent, mean ± "
    "standard error over the seeds. Columns that begin with \u201cPaper\u201d: Table 2 of "
    f"{paper.SOURCE}, which used BERT-base; its mean over our tasks is computed here."
)


def _glue(records: Sequence[Record]) -> list[Block]:
    of_64 = [each for each in records if each.settings.get("adapter_size") == 64]
    columns = {
        "full": _best(records, "full"),
        "adapters": _best(records, "adapters"),
        "adapters of 64": _best(of_64, "adapters"),
    }
    ours = _Columns(columns, _base(records), lambda point: point.values)
    theirs = [paper.GLUE[name] for name in columns]
    blank = [_NONE] * len(columns)
    rows = [
        [*ours.scores(task), *_glue_metrics(columns, task)]
        + [_number(row.scores.get(task)) for row in theirs]
        for task in ours.tasks(first=paper.GLUE_TASKS)
    ]
    rows += [
        [*ours.means(), _NONE, _NONE, *(ours.paper_mean(row.scores) for row in theirs)],
        ["GLUE's total", *blank, _NONE, _NONE, *(_number(row.total) for row in theirs)],
        [*ours.shares(), _NONE, _NONE, *(f"{row.trained:g} %" for row in theirs)],
        [*ours.suites(), _NONE, _NONE, *(f"{row.suite:g}{_TIMES}" for row in theirs)],
    ]
    header = ["task", *columns, "metric", *(f"{PAPER}: {each}" for each in ("metric", *columns))]
    return [Table("Results", header, rows, _GLUE_NOTE)]


def _glue_metrics(columns: Mapping[str, Column], task: str) -> list[str]:
    """Returns the name of our metric, and of the paper's: they can differ."""
    ours = {column[task].first.metric for column in columns.values() if task in column}
    theirs = paper.GLUE_METRICS.get(task, "accuracy" if task in paper.GLUE_TASKS else _NONE)
    return [", ".join(sorted(ours)) or _NONE, theirs]


def _additional(records: Sequence[Record]) -> list[Block]:
    methods = ("full", "top_k", "adapters", "no_bert")
    columns = {method: _best(records, method) for method in methods}
    if not columns["no_bert"]:
        del columns["no_bert"]
    ours = _Columns(columns, _base(records), lambda point: point.tests)
    rows = []
    for task in ours.tasks(first=paper.ADDITIONAL):
        theirs = paper.ADDITIONAL.get(task, {})
        scores = (_paper_score(theirs[each]) if each in theirs else _NONE for each in methods)
        rows.append([*ours.scores(task), *scores])
    costs = [paper.ADDITIONAL_COST.get(method) for method in methods]
    their_scores = [
        {task: scores[method].mean for task, scores in paper.ADDITIONAL.items()}
        for method in methods
    ]
    their_means = (_number(paper.ADDITIONAL_MEAN[method]) for method in methods)
    rows += [
        [*ours.means(), *map(ours.paper_mean, their_scores)],
        ["mean of all 17 tasks", *(_NONE for _ in columns), *their_means],
        [*ours.shares(), *(f"{cost[1]:g} %" if cost else _NONE for cost in costs)],
        [*ours.suites(), *(f"{cost[0]:g}{_TIMES}" if cost else _NONE for cost in costs)],
    ]
    names = {method: "no BERT" if method == "no_bert" else method for method in methods}
    ours_first = [names[method] for method in columns]
    header = ["task", *ours_first, *(f"{PAPER}: {name}" for name in names.values())]
    # The paper's Figure 3 has test scores; here only what was chosen has one.
    return [Table("Results", header, rows, _ADDITIONAL_NOTE), *_tradeoff(records)]


def _tradeoff(records: Sequence[Record]) -> list[Block]:
    rows = [
        (
            each.method,
            str(each.size),
            str(each.tasks),
            f"{each.trained:,.0f}",
            *(f"{value:+.1f}" for value in each.percentiles),
        )
        for each in figures.spreads(records)
    ]
    names = (f"{percentile}th percentile" for percentile in figures.PERCENTILES)
    header = ("method", "size or k", "tasks", "trained", *names)
    note = "Differences to full fine-tuning over the tasks, in points, on the validation sets."
    charts = _drawable(figures.tradeoff(records), figures.by_parameters(records))
    differences = Table("Differences to full fine-tuning", header, rows, note)
    return [_scores(records), *charts[:1], differences, *charts[1:]]


def _scores(records: Sequence[Record]) -> Table:
    """Returns the best score of each task, for each size of each method."""
    known = [each for each in records if each.method in figures.METHODS]
    best = choose(known, lambda each: (*figures.sized(each)[1:], each.task))
    tasks = list(dict.fromkeys(task for *_, task in best))
    rows = []
    for method, size in sorted({key[:2] for key in best}, key=_by_method):
        found = {task: best.get((method, size, task)) for task in tasks}
        trained = [each.first.trained for each in found.values() if each and each.first.trained]
        rows.append(
            (
                method,
                _NONE if size is None else str(size),
                f"{statistics.fmean(trained):,.0f}" if trained else _NONE,
                *(_score(task, each.values) if each else _NONE for task, each in found.items()),
            )
        )
    metrics = {point.first.task: point.first.metric for point in best.values()}
    names = (f"{task} ({metrics[task]})" for task in tasks)
    note = "Best of all other settings on the validation set, in percent."
    return Table("Scores", ("method", "size or k", "trained", *names), rows, note)


def _by_method(key: tuple[str, Any]) -> tuple:
    """Sorts methods as figures do, and their sizes from the largest down."""
    method, size = key
    return figures.METHODS.index(method), -(size or 0)


def _size(records: Sequence[Record]) -> list[Block]:
    sized = [each for each in records if "adapter_size" in each.settings]
    best = choose(sized, lambda each: (each.settings["adapter_size"], each.task))
    sizes, tasks = sorted({size for size, _ in best}), list(dict.fromkeys(t for _, t in best))
    common = [task for task in tasks if all((size, task) in best for size in sizes)]
    scores = {key: percent(key[1], point.mean) for key, point in best.items()}
    means = {size: _mean([scores[size, task] for task in common]) for size in sizes}
    rows = [
        (str(size), *(_number(scores.get((size, task))) for task in tasks), _number(means[size]))
        for size in sizes
    ]
    note = (
        f"Best of all other settings on the validation set, in percent. The mean is over the "
        f"{len(common)} tasks that have a result for every size."
    )
    table = Table("Results", ("size", *tasks, "mean"), rows, note)
    return [table, *_one_size(scores, sizes, common)]


def _one_size(
    scores: Mapping[tuple[int, str], float], sizes: Sequence[int], tasks: Sequence[str]
) -> list[Table]:
    """Compares the best size for all tasks with the best one for each."""
    if not tasks:
        return []
    means = {size: statistics.fmean(scores[size, task] for task in tasks) for size in sizes}
    one = max(sizes, key=lambda size: means[size])
    each = statistics.fmean(max(scores[size, task] for size in sizes) for task in tasks)
    rows = [
        (f"one size for all tasks: {one}", _number(means[one])),
        ("the best size for each task", _number(each)),
        ("what one size costs, in points", _number(each - means[one], ".2f")),
    ]
    return [Table("One size for all tasks", ("choice", "mean"), rows)]


def _variants(records: Sequence[Record]) -> list[Block]:
    best = choose(records)
    tasks = list(dict.fromkeys(task for task, _ in best))
    standard = {task: best[task, _STANDARD] for task in tasks if (task, _STANDARD) in best}
    scores = (_score(task, standard[task].values) if task in standard else _NONE for task in tasks)
    rows = [[f"{_STANDARD}: score", *scores, _NONE]]
    for variant in dict.fromkeys(name for _, name in best if name != _STANDARD):
        differences = {
            task: percent(task, best[task, variant].mean - standard[task].mean)
            for task in standard
            if (task, variant) in best
        }
        numbers = [*map(differences.get, tasks), _mean(differences.values())]
        rows.append([variant, *(_number(each, "+.1f") for each in numbers)])
    note = (
        "On the validation set: the score of the paper's own adapter in percent, and of the "
        "others the difference to it in points."
    )
    return [Table("Results", ("variant", *tasks, "mean"), rows, note)]


def _squad(records: Sequence[Record]) -> list[Block]:
    chart = _drawable(figures.by_parameters(records))
    return [_scores(records), *chart]


def _sweep(records: Sequence[Record]) -> list[Block]:
    chart = figures.by_parameters(records)
    has_sizes = any(len(line.dots) > 1 for panel in chart.panels for line in panel.lines)
    return _drawable(chart) if has_sizes else []


def _baseline(records: Sequence[Record]) -> list[Block]:
    best = _best(records, "no_bert")
    rows = []
    for task, point in best.items():
        trials = [each for each in records if each.task == task]
        theirs = paper.ADDITIONAL.get(task, {})
        seconds = [each.seconds for each in trials if each.seconds]
        rows.append(
            (
                task,
                str(len(trials)),
                _score(task, point.values),
                _score(task, point.tests),
                str(point.first.settings.get("module", _NONE)),
                _number(sum(seconds) / 60) if seconds else _NONE,
                _number(statistics.median(seconds)) if seconds else _NONE,
                _paper_score(theirs["no_bert"]) if theirs else _NONE,
            )
        )
    header = ["task", "trials", "validation", "test", "module", "minutes", "seconds a trial"]
    note = "The best on the validation set, in percent; the seconds of a trial are a median."
    return [Table("Results", (*header, f"{PAPER}: no BERT"), rows, note)]


def _ablation(folder: str) -> list[Block]:
    path = os.path.join(folder, ABLATION)
    if not os.path.exists(path):
        return []
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return _drawable(figures.ablation(csv.DictReader(file)))
    except OSError as error:
        raise file_error(path, error) from None
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: not a table of scores without adapters: {error}") from None


def _drawable(*charts: Chart | HeatMap) -> list[Block]:
    """Leaves out figures that have nothing to show yet."""
    return [chart for chart in charts if chart.panels]


_CONTENTS: dict[str, Callable[[Sequence[Record]], list[Block]]] = {
    "glue": _glue,
    "additional": _additional,
    "tradeoff": _tradeoff,
    "squad": _squad,
    "ablation": lambda records: [],
    "init_scale": lambda records: _drawable(figures.init_scale(records)),
    "learning_rate": lambda records: _drawable(figures.learning_rate(records)),
    "size": _size,
    "variants": _variants,
    "sweep": _sweep,
    "baseline": _baseline,
}


# Parts of tables.


def _best(records: Iterable[Record], method: str) -> Column:
    return choose((each for each in records if each.method == method), lambda each: each.task)


def _base(records: Iterable[Record]) -> int | None:
    """Returns the size of the base: a model without adapters has only a small head besides."""
    sizes = (each.total for each in records if each.total and each.method != "no_bert")
    return min(sizes, default=None)


@dataclasses.dataclass(frozen=True)
class _Columns:
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
        found = [column.get(task) for column in self.columns.values()]
        return [task, *(_score(task, self.values(each)) if each else _NONE for each in found)]

    def means(self) -> list[str]:
        """Returns means over the common tasks, as other means could not be compared."""
        common = self._common()
        means = [
            _mean(percent(task, statistics.fmean(self.values(column[task]))) for task in common)
            if column
            else None
            for column in self.columns.values()
        ]
        return [f"mean of {len(common)} tasks", *map(_number, means)]

    def paper_mean(self, scores: Mapping[str, float]) -> str:
        """Returns the mean of the paper's scores of the same tasks, if it has all of them."""
        common = self._common()
        is_there = all(task in scores for task in common)
        return _number(_mean(scores[task] for task in common) if is_there else None)

    def _common(self) -> list[str]:
        """Returns the tasks that all columns that are not empty have a value for."""
        columns = [column for column in self.columns.values() if column]
        return [
            task
            for task in self.tasks(first=())
            if all(task in column and self.values(column[task]) for column in columns)
        ]

    def shares(self) -> list[str]:
        costs = [self._cost(column) for column in self.columns.values()]
        texts = (f"{100 * each.share:.3g} %" if each else _NONE for each in costs)
        return ["trained a task", *texts]

    def suites(self) -> list[str]:
        costs = [self._cost(column) for column in self.columns.values()]
        texts = (
            f"{each.total:.3g}{_TIMES} ({len(each.held)} tasks)" if each else _NONE
            for each in costs
        )
        return ["all tasks, beside one BERT", *texts]

    def _cost(self, column: Column) -> SuiteCost | None:
        firsts = [each.first for each in column.values()]
        held = tuple(each.trained for each in firsts if each.trained and each.method != "no_bert")
        return SuiteCost(self.base, held) if self.base and held else None


def _mean(values: Iterable[float]) -> float | None:
    values = list(values)
    return statistics.fmean(values) if values else None


def _number(value: float | None, form: str = ".1f") -> str:
    return _NONE if value is None else format(value, form)


def _score(task: str, values: Sequence[float]) -> str:
    """Returns the mean in percent, with its standard error if there are several values."""
    if not values:
        return _NONE
    mean = _number(percent(task, statistics.fmean(values)))
    error = percent(task, standard_error(values))
    return f"{mean} ± {error:.1f}" if len(values) > 1 else mean


def _paper_score(score: paper.Score, form: str = ".1f") -> str:
    mean = _number(score.mean, form)
    return mean if score.error is None else f"{mean} ± {_number(score.error, form)}"


def _csv(rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
