"""The figures of experiments: their points, and how they are drawn as SVG.

Lines differ in their markers and dashes as well as in colour, so that they can be told apart in a
print.
"""

import collections
import contextlib
import dataclasses
import io
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from adapter_bert_tf.experiment.records import Record
from adapter_bert_tf.experiment.select import Point, choose

PERCENTILES = (20, 50, 80)

# The setting that gives a method different sizes.
SIZES = {"adapters": "adapter_size", "top_k": "top_k"}

# Colours that people with any kind of colour blindness can tell apart (Okabe and Ito).
_COLOURS = ("#0072B2", "#D55E00", "#000000", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<")
_DASHES = ("-", "--", "-.", ":")
METHODS = ("adapters", "top_k", "full", "layer_norm", "head", "no_bert")

# Inches.
_WIDTH, _HEIGHT, _LEGEND_ROW, _CELL, _LETTER = 3.6, 3.0, 0.22, 0.42, 0.08
_COLUMNS = 3
_LONGEST_NAME = 48

_TRAINED = "trained parameters a task"


class Dot(NamedTuple):
    """A point of a figure. Without an `x` it is a level for all of them."""

    x: float | None
    y: float
    error: float = 0.0


@dataclasses.dataclass(frozen=True)
class Line:
    """Points that belong together; `look` is the number of their colour and marker."""

    name: str
    dots: tuple[Dot, ...]
    look: int
    dashes: str = "-"


@dataclasses.dataclass(frozen=True)
class Panel:
    """Lines over the same axes."""

    title: str
    y: str
    lines: tuple[Line, ...]


@dataclasses.dataclass(frozen=True)
class Chart:
    """Panels with the same logarithmic x axis.

    Attributes:
      name: Part of the names of its files.
      title: What it shows.
      x: Label of the x axis.
      panels: The panels; without any there is nothing to draw.
    """

    name: str
    title: str
    x: str
    panels: tuple[Panel, ...]

    def rows(self) -> list[tuple[Any, ...]]:
        """The points as a table, with a header."""
        dots = [
            (panel.title, line.name, *dot)
            for panel in self.panels
            for line in panel.lines
            for dot in line.dots
        ]
        return [("panel", "line", "x", "y", "error"), *dots]

    def svg(self) -> str:
        """The drawing."""
        with _settings(self.name):
            return _svg(_draw_chart(self))


@dataclasses.dataclass(frozen=True)
class HeatMap:
    """A triangle of numbers for each task: what taking out a span of layers changes, in percent.

    Attributes:
      name: Part of the names of its files.
      title: What it shows.
      panels: By task, the change by first and last layer.
    """

    name: str
    title: str
    panels: Mapping[str, Mapping[tuple[int, int], float]]

    def rows(self) -> list[tuple[Any, ...]]:
        """The cells as a table, with a header."""
        cells = [
            (task, *span, change)
            for task, changes in self.panels.items()
            for span, change in changes.items()
        ]
        return [("task", "first", "last", "relative_percent"), *cells]

    def svg(self) -> str:
        """The drawing."""
        with _settings(self.name):
            return _svg(_draw_heat_map(self))


# What the figures show.


def percent(task: str, value: float) -> float:
    """Returns a score in percent. The scorers of SQuAD already count so."""
    return value if task.startswith("SQuAD") else 100 * value


def sized(record: Record) -> tuple[str, str, Any]:
    """Returns a trial's task, its method, and the size if the method has several."""
    setting = SIZES.get(record.method)
    return record.task, record.method, record.settings.get(setting) if setting else None


class Spread(NamedTuple):
    """The differences to full fine-tuning over the tasks, for one size of a method.

    Attributes:
      method: The method.
      size: The size of the adapters, or the number of trained layers.
      tasks: How many tasks have a result.
      trained: Mean number of trained parameters a task.
      percentiles: Those of the differences that `PERCENTILES` lists.
    """

    method: str
    size: Any
    tasks: int
    trained: float
    percentiles: tuple[float, ...]


def spreads(records: Sequence[Record]) -> list[Spread]:
    """Returns how far each size of each method is from full fine-tuning."""
    full = choose(_of(records, "full"), lambda each: each.task)
    found: dict[tuple[str, Any], list[tuple[int, float]]] = collections.defaultdict(list)
    for (task, method, size), point in choose(_of(records, *SIZES), sized).items():
        if task in full and point.first.trained is not None:
            difference = percent(task, point.mean - full[task].mean)
            found[method, size].append((point.first.trained, difference))
    lines = [_spread(method, size, pairs) for (method, size), pairs in found.items()]
    return sorted(lines, key=lambda each: (each.method, each.trained))


def _spread(method: str, size: Any, pairs: Sequence[tuple[int, float]]) -> Spread:
    trained, differences = zip(*pairs, strict=True)
    percentiles = tuple(float(each) for each in np.percentile(differences, PERCENTILES))
    return Spread(method, size, len(pairs), statistics.fmean(trained), percentiles)


def tradeoff(records: Sequence[Record]) -> Chart:
    """Draws the paper's Figures 1 and 3."""
    found = spreads(records)
    lines = []
    for method in SIZES:
        for i, percentile in enumerate(PERCENTILES):
            dots = tuple(Dot(s.trained, s.percentiles[i]) for s in found if s.method == method)
            name = f"{method}, {percentile}th percentile"
            dashes = {20: ":", 50: "-", 80: "--"}[percentile]
            lines.append(Line(name, dots, METHODS.index(method), dashes))
    title = (
        "Scores on the validation sets minus those of full fine-tuning, over the tasks: the best "
        "model of each task and size."
    )
    panels = _panels([Panel("", "score minus full fine-tuning's, in points", tuple(lines))])
    return Chart("tradeoff", title, f"{_TRAINED}, mean", panels)


def by_parameters(records: Sequence[Record]) -> Chart:
    """Draws the paper's Figures 4 and 5: a panel a task, full fine-tuning as a level."""
    best = choose(_of(records, *METHODS), sized)
    panels = []
    for task in _tasks(records):
        lines = []
        for method in METHODS:
            chosen = [best[key] for key in best if key[:2] == (task, method)]
            dots = (_dot(each, each.first.trained) for each in chosen)
            lines.append(_method_line(method, [dot for dot in dots if dot.x is not None]))
        panels.append(Panel(task, _score_label(records, task), tuple(lines)))
    title = "Best score on the validation set for each size; the bars are standard errors."
    return Chart("parameters", title, _TRAINED, _panels(panels))


def init_scale(records: Sequence[Record]) -> Chart:
    """Draws the right of the paper's Figure 6: a line a task."""
    setting = "adapter_init_scale"
    best = choose(_with(records, setting), lambda each: (each.task, each.settings[setting]))
    lines = []
    for i, task in enumerate(_tasks(records)):
        dots = (_dot(point, x) for (name, x), point in best.items() if name == task)
        lines.append(Line(task, tuple(sorted(dots)), i, _DASHES[i % len(_DASHES)]))
    title = "Score on the validation set by the adapters' initial deviation, with standard errors."
    panels = _panels([Panel("", "score on the validation set, in percent", tuple(lines))])
    return Chart("init_scale", title, "initial deviation of the adapters", panels)


def learning_rate(records: Sequence[Record]) -> Chart:
    """Draws the paper's Figure 7: the best of all other settings at each rate."""
    setting = "learning_rate"
    best = choose(
        _with(records, setting), lambda each: (each.task, each.method, each.settings[setting])
    )
    panels = []
    for task in _tasks(records):
        lines = []
        for method in dict.fromkeys(name for _, name, _ in best):
            found = [(key[2], point) for key, point in best.items() if key[:2] == (task, method)]
            lines.append(_line(method, [_dot(point, x) for x, point in found]))
        panels.append(Panel(task, _score_label(records, task), tuple(lines)))
    title = "Best score on the validation set at each learning rate, with standard errors."
    return Chart("learning_rate", title, "learning rate", _panels(panels))


def ablation(rows: Iterable[Mapping[str, str]]) -> HeatMap:
    """Draws the left of the paper's Figure 6 from the rows of a table.

    A score of 0 can't fall, and a model whose outputs are all the same has no correlation: such
    cells stay empty.
    """
    panels: dict[str, dict[tuple[int, int], float]] = collections.defaultdict(dict)
    for row in rows:
        value, full = float(row["value"]), float(row["full"])
        if full and math.isfinite(value - full):
            span = int(row["first"]), int(row["last"])
            panels[row["task"]][span] = 100 * (value - full) / full
    title = (
        "Change of the score on the validation set, in percent of it, without the adapters of the "
        "layers from the first to the last; nothing is trained again."
    )
    return HeatMap("ablation", title, panels)


def _of(records: Iterable[Record], *methods: str) -> list[Record]:
    return [each for each in records if each.method in methods]


def _with(records: Iterable[Record], setting: str) -> list[Record]:
    return [each for each in records if setting in each.settings]


def _tasks(records: Iterable[Record]) -> list[str]:
    return list(dict.fromkeys(each.task for each in records))


def _dot(point: Point, x: float | None) -> Dot:
    task = point.first.task
    return Dot(x, percent(task, point.mean), percent(task, point.error))


def _method_line(method: str, dots: Sequence[Dot]) -> Line:
    if method == "full":
        return _line(method, [dot._replace(x=None) for dot in dots], "--")
    return _line(method, dots)


def _line(method: str, dots: Iterable[Dot], dashes: str = "-") -> Line:
    look = METHODS.index(method) if method in METHODS else len(METHODS)
    return Line(method, tuple(sorted(dots)), look, dashes)


def _score_label(records: Iterable[Record], task: str) -> str:
    metrics = {each.metric for each in records if each.task == task and each.metric}
    return f"{', '.join(sorted(metrics)) or 'score'}, in percent"


def _panels(panels: Iterable[Panel]) -> tuple[Panel, ...]:
    """Leaves out what has no points yet."""
    kept = (
        dataclasses.replace(panel, lines=tuple(line for line in panel.lines if line.dots))
        for panel in panels
    )
    return tuple(panel for panel in kept if panel.lines)


# How they are drawn.


@contextlib.contextmanager
def _settings(name: str) -> Iterator[None]:
    """Draws the same file every time, and takes no name for a formula."""
    with matplotlib.rc_context(
        {"svg.hashsalt": name, "svg.fonttype": "path", "text.parse_math": False, "font.size": 9}
    ):
        yield


def _svg(figure: Figure) -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()


def _grid(number: int, width: float, height: float, legend: float, columns: int) -> Any:
    """Returns a figure with axes for `number` panels, and those axes."""
    columns = min(number, columns)
    rows = math.ceil(number / columns)
    figure = Figure((width * columns, height * rows + legend), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).flat
    for spare in axes[number:]:
        spare.set_axis_off()
    return figure, axes[:number]


def _draw_chart(chart: Chart) -> Figure:
    number = len(chart.panels)
    scale = 1.0 if number > 1 else 1.8  # A single panel has the page for itself.
    names = {_short(line.name) for panel in chart.panels for line in panel.lines}
    width = _WIDTH * scale * min(number, _COLUMNS)
    columns = max(1, int(width / (1 + _LETTER * max(map(len, names)))))
    legend = _LEGEND_ROW * math.ceil(len(names) / columns)
    figure, axes = _grid(number, _WIDTH * scale, _HEIGHT * scale * 0.9, legend, _COLUMNS)
    handles: dict[str, Any] = {}
    for ax, panel in zip(axes, chart.panels, strict=True):
        _draw_panel(ax, panel)
        ax.set_xlabel(chart.x)
        handles.update(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    figure.legend(
        list(handles.values()),
        list(handles),
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        handlelength=4,  # So that dashes can be told apart.
    )
    return figure


def _draw_panel(ax: Axes, panel: Panel) -> None:
    for line in panel.lines:
        _draw_line(ax, line)
    ax.set_title(_short(panel.title), fontsize="medium")
    ax.set_ylabel(_short(panel.y))
    ax.grid(alpha=0.3)
    _draw_x_axis(ax, [dot.x for line in panel.lines for dot in line.dots if dot.x])


def _draw_line(ax: Axes, line: Line) -> None:
    colour = _COLOURS[line.look % len(_COLOURS)]
    levels = [dot for dot in line.dots if dot.x is None]
    for level in levels:
        ax.axhline(level.y, color=colour, linestyle=line.dashes, label=_short(line.name))
        ax.axhspan(level.y - level.error, level.y + level.error, color=colour, alpha=0.15, lw=0)
    if not levels:
        x, y, errors = zip(*line.dots, strict=True)
        ax.errorbar(
            x,
            y,
            yerr=errors if any(errors) else None,
            label=_short(line.name),
            color=colour,
            marker=_MARKERS[line.look % len(_MARKERS)],
            markersize=5,
            linestyle=line.dashes,
            capsize=3,
        )


def _draw_x_axis(ax: Axes, values: Sequence[float]) -> None:
    ax.set_xscale("log")
    # Powers of ten alone would leave a short axis without labels.
    is_short = bool(values) and max(values) < 100 * min(values)
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if is_short else (1,)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _amount(value)))
    ax.xaxis.set_minor_formatter(NullFormatter())


def _amount(value: float) -> str:
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:g}{unit}"
    return f"{value:g}" if value >= 0.01 else f"{value:.0e}".replace("e-0", "e-")


def _short(name: str) -> str:
    """Returns a name that fits, without what can't be drawn or stand in XML."""
    name = "".join(each if each.isprintable() else " " for each in name)
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"


def _draw_heat_map(chart: HeatMap) -> Figure:
    layers = 1 + max(last for changes in chart.panels.values() for _, last in changes)
    low = min(change for changes in chart.panels.values() for change in changes.values())
    size = max(_WIDTH, _CELL * layers)
    figure, axes = _grid(len(chart.panels), size + 0.4, size, 0.5, 2)
    for ax, (task, changes) in zip(axes, chart.panels.items(), strict=True):
        cells = np.full((layers, layers), np.nan)
        for span, change in changes.items():
            cells[span] = change
        # The scale is the same for all tasks, so that they can be compared.
        image = ax.imshow(cells, cmap="Blues_r", vmin=min(low, -1), vmax=0)
        _draw_numbers(ax, changes, image.norm)
        ax.set_title(_short(task), fontsize="medium")
        ax.set(xlabel="last layer without adapters", ylabel="first layer without adapters")
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(MaxNLocator(nbins=layers, integer=True))
    figure.colorbar(image, ax=list(axes), label="change of the score, in percent", shrink=0.8)
    return figure


def _draw_numbers(
    ax: Axes, changes: Mapping[tuple[int, int], float], norm: Callable[[float], Any]
) -> None:
    for (first, last), change in changes.items():
        colour = "white" if norm(change) < 0.45 else "black"
        digits = 1 if abs(change) < 9.95 else 0
        text = f"{change:.{digits}f}"
        ax.text(last, first, text, ha="center", va="center", color=colour, fontsize=7)
