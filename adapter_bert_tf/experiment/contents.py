"""What the report of each experiment shows besides what all have: its tables and figures."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from adapter_bert_tf.experiment import figures, paper
from adapter_bert_tf.experiment.cells import (
    NONE,
    TIMES,
    Column,
    Columns,
    base_size,
    best_of,
    mean_or_none,
    shown,
    shown_paper_score,
    shown_score,
)
from adapter_bert_tf.experiment.figures import Chart, HeatMap, percent
from adapter_bert_tf.experiment.pages import PAPER, Block, Table
from adapter_bert_tf.experiment.records import Record
from adapter_bert_tf.experiment.select import choose

# The variant of the adapter that the paper uses.
_STANDARD = "houlsby"
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
        "full": best_of(records, "full"),
        "adapters": best_of(records, "adapters"),
        "adapters of 64": best_of(of_64, "adapters"),
    }
    ours = Columns(columns, base_size(records), lambda point: point.values)
    theirs = [paper.GLUE[name] for name in columns]
    blank = [NONE] * len(columns)
    rows = [
        [*ours.scores(task), *_glue_metrics(columns, task)]
        + [shown(row.scores.get(task)) for row in theirs]
        for task in ours.tasks(first=paper.GLUE_TASKS)
    ]
    rows += [
        [*ours.means(), NONE, NONE, *(ours.paper_mean(row.scores) for row in theirs)],
        ["GLUE's total", *blank, NONE, NONE, *(shown(row.total) for row in theirs)],
        [*ours.shares(), NONE, NONE, *(f"{row.trained:g} %" for row in theirs)],
        [*ours.suites(), NONE, NONE, *(f"{row.suite:g}{TIMES}" for row in theirs)],
    ]
    header = ["task", *columns, "metric", *(f"{PAPER}: {each}" for each in ("metric", *columns))]
    return [Table("Results", header, rows, _GLUE_NOTE)]


def _glue_metrics(columns: Mapping[str, Column], task: str) -> list[str]:
    """Returns the name of our metric, and of the paper's: they can differ."""
    ours = {column[task].first.metric for column in columns.values() if task in column}
    theirs = paper.GLUE_METRICS.get(task, "accuracy" if task in paper.GLUE_TASKS else NONE)
    return [", ".join(sorted(ours)) or NONE, theirs]


def _additional(records: Sequence[Record]) -> list[Block]:
    methods = ("full", "top_k", "adapters", "no_bert")
    columns = {method: best_of(records, method) for method in methods}
    if not columns["no_bert"]:
        del columns["no_bert"]
    ours = Columns(columns, base_size(records), lambda point: point.tests)
    rows = []
    for task in ours.tasks(first=paper.ADDITIONAL):
        theirs = paper.ADDITIONAL.get(task, {})
        scores = (shown_paper_score(theirs[each]) if each in theirs else NONE for each in methods)
        rows.append([*ours.scores(task), *scores])
    costs = [paper.ADDITIONAL_COST.get(method) for method in methods]
    their_scores = [
        {task: scores[method].mean for task, scores in paper.ADDITIONAL.items()}
        for method in methods
    ]
    their_means = (shown(paper.ADDITIONAL_MEAN[method]) for method in methods)
    rows += [
        [*ours.means(), *map(ours.paper_mean, their_scores)],
        ["mean of all 17 tasks", *(NONE for _ in columns), *their_means],
        [*ours.shares(), *(f"{cost[1]:g} %" if cost else NONE for cost in costs)],
        [*ours.suites(), *(f"{cost[0]:g}{TIMES}" if cost else NONE for cost in costs)],
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
    charts = drawable(figures.tradeoff(records), figures.by_parameters(records))
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
                NONE if size is None else str(size),
                f"{statistics.fmean(trained):,.0f}" if trained else NONE,
                *(shown_score(task, each.values) if each else NONE for task, each in found.items()),
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
    means = {size: mean_or_none([scores[size, task] for task in common]) for size in sizes}
    rows = [
        (str(size), *(shown(scores.get((size, task))) for task in tasks), shown(means[size]))
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
        (f"one size for all tasks: {one}", shown(means[one])),
        ("the best size for each task", shown(each)),
        ("what one size costs, in points", shown(each - means[one], ".2f")),
    ]
    return [Table("One size for all tasks", ("choice", "mean"), rows)]


def _variants(records: Sequence[Record]) -> list[Block]:
    best = choose(records)
    tasks = list(dict.fromkeys(task for task, _ in best))
    standard = {task: best[task, _STANDARD] for task in tasks if (task, _STANDARD) in best}
    scores = (
        shown_score(task, standard[task].values) if task in standard else NONE for task in tasks
    )
    rows = [[f"{_STANDARD}: score", *scores, NONE]]
    for variant in dict.fromkeys(name for _, name in best if name != _STANDARD):
        differences = {
            task: percent(task, best[task, variant].mean - standard[task].mean)
            for task in standard
            if (task, variant) in best
        }
        numbers = [*map(differences.get, tasks), mean_or_none(differences.values())]
        rows.append([variant, *(shown(each, "+.1f") for each in numbers)])
    note = (
        "On the validation set: the score of the paper's own adapter in percent, and of the "
        "others the difference to it in points."
    )
    return [Table("Results", ("variant", *tasks, "mean"), rows, note)]


def _squad(records: Sequence[Record]) -> list[Block]:
    chart = drawable(figures.by_parameters(records))
    return [_scores(records), *chart]


def _sweep(records: Sequence[Record]) -> list[Block]:
    chart = figures.by_parameters(records)
    has_sizes = any(len(line.dots) > 1 for panel in chart.panels for line in panel.lines)
    return drawable(chart) if has_sizes else []


def _baseline(records: Sequence[Record]) -> list[Block]:
    best = best_of(records, "no_bert")
    rows = []
    for task, point in best.items():
        trials = [each for each in records if each.task == task]
        theirs = paper.ADDITIONAL.get(task, {})
        seconds = [each.seconds for each in trials if each.seconds]
        rows.append(
            (
                task,
                str(len(trials)),
                shown_score(task, point.values),
                shown_score(task, point.tests),
                str(point.first.settings.get("module", NONE)),
                shown(sum(seconds) / 60) if seconds else NONE,
                shown(statistics.median(seconds)) if seconds else NONE,
                shown_paper_score(theirs["no_bert"]) if theirs else NONE,
            )
        )
    header = ["task", "trials", "validation", "test", "module", "minutes", "seconds a trial"]
    note = "The best on the validation set, in percent; the seconds of a trial are a median."
    return [Table("Results", (*header, f"{PAPER}: no BERT"), rows, note)]


def drawable(*charts: Chart | HeatMap) -> list[Block]:
    """Leaves out figures that have nothing to show yet."""
    return [chart for chart in charts if chart.panels]


# By experiment.
CONTENTS: dict[str, Callable[[Sequence[Record]], list[Block]]] = {
    "glue": _glue,
    "additional": _additional,
    "tradeoff": _tradeoff,
    "squad": _squad,
    "ablation": lambda records: [],
    "init_scale": lambda records: drawable(figures.init_scale(records)),
    "learning_rate": lambda records: drawable(figures.learning_rate(records)),
    "size": _size,
    "variants": _variants,
    "sweep": _sweep,
    "baseline": _baseline,
}
