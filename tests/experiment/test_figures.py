"""The points of the figures, and that they can be drawn."""

import math
import xml.etree.ElementTree

import pytest

from adapter_bert_tf.experiment import figures
from adapter_bert_tf.experiment.records import COMPLETE, Record

HOSTILE = "<script>$\\frac$ & --> \x00\n" + "long " * 40


def _trial(task, method, value, trained=None, seed=0, **settings) -> Record:
    return Record(task, method, settings, seed, COMPLETE, "accuracy", value, trained=trained)


def _dots(chart, panel: str) -> dict[str, tuple[figures.Dot, ...]]:
    found = {each.title: each for each in chart.panels}[panel]
    return {line.name: line.dots for line in found.lines}


def _check_drawing(chart) -> None:
    svg = chart.svg()
    assert xml.etree.ElementTree.fromstring(svg).tag.endswith("svg")
    assert svg == chart.svg()
    assert "dc:date" not in svg


def test_percent():
    assert figures.percent("MNLI", 0.5) == 50
    assert figures.percent("SQuAD v1.1", 90.4) == 90.4


def test_percentiles_over_tasks():
    """Differences of -2, -1, 0, 1, 2, 3 points: the median lies between two, others as well."""
    trials = []
    for i in range(6):
        trials.append(_trial(f"task {i}", "full", 0.5, 1000))
        trials.append(_trial(f"task {i}", "adapters", 0.48 + 0.01 * i, 10 + i, adapter_size=8))
    (spread,) = figures.spreads(trials)
    assert (spread.method, spread.size, spread.tasks) == ("adapters", 8, 6)
    assert spread.trained == 12.5
    assert spread.percentiles == pytest.approx((-1, 0.5, 2))


def test_only_tasks_with_full_fine_tuning_count():
    trials = [
        _trial("a", "full", 0.5, 1000),
        _trial("a", "top_k", 0.4, 100, top_k=1),
        _trial("b", "top_k", 0.9, 100, top_k=1),
        _trial("a", "adapters", 0.9, None, adapter_size=8),
    ]
    (spread,) = figures.spreads(trials)
    assert (spread.method, spread.tasks) == ("top_k", 1)
    assert spread.percentiles == pytest.approx((-10,) * 3)


def test_the_best_model_of_each_size_is_drawn():
    trials = [
        _trial("a", "full", 0.9, 1000),
        _trial("a", "adapters", 0.6, 20, adapter_size=8, learning_rate=1e-3),
        _trial("a", "adapters", 0.7, 20, adapter_size=8, learning_rate=1e-4),
        _trial("a", "adapters", 0.5, 10, adapter_size=2, learning_rate=1e-4),
    ]
    dots = _dots(figures.by_parameters(trials), "a")
    assert [(dot.x, dot.y) for dot in dots["adapters"]] == [(10, 50), (20, 70)]
    assert dots["full"] == (figures.Dot(None, 90),)


def test_errors_are_standard_errors():
    trials = [_trial("a", "adapters", value, 10, i) for i, value in enumerate((0.1, 0.2, 0.3))]
    ((dot,),) = _dots(figures.by_parameters(trials), "a").values()
    assert dot.error == pytest.approx(10 / math.sqrt(3))


def test_each_rate_has_the_best_of_the_other_settings():
    trials = [
        _trial("a", "full", value, learning_rate=rate, num_train_epochs=epochs)
        for rate, epochs, value in ((1e-3, 3, 0.1), (1e-3, 20, 0.3), (1e-4, 3, 0.2))
    ]
    dots = _dots(figures.learning_rate(trials), "a")["full"]
    assert [(dot.x, dot.y) for dot in dots] == [(1e-4, 20), (1e-3, 30)]


def test_a_task_is_a_line_over_initial_deviations():
    trials = [
        _trial(task, "adapters", 0.5, adapter_init_scale=scale)
        for task in ("b", "a")
        for scale in (1.0, 1e-7)
    ]
    dots = _dots(figures.init_scale(trials), "")
    assert list(dots) == ["b", "a"]
    assert [dot.x for dot in dots["a"]] == [1e-7, 1.0]


def test_the_fall_is_relative_to_the_whole_model():
    row = {"task": "a", "first": "0", "last": "1", "value": "0.6", "full": "0.8"}
    chart = figures.ablation([row])
    assert chart.panels["a"][0, 1] == pytest.approx(-25)
    assert chart.rows()[1][:3] == ("a", 0, 1)


@pytest.mark.parametrize(("value", "full"), [("nan", "0.5"), ("0.5", "nan"), ("0.1", "0")])
def test_a_cell_without_a_number_stays_empty(value, full):
    row = {"task": "a", "first": "0", "last": "0", "value": value, "full": full}
    assert not figures.ablation([row]).panels


def test_without_trials_there_is_nothing_to_draw():
    for make in (
        figures.tradeoff,
        figures.by_parameters,
        figures.init_scale,
        figures.learning_rate,
    ):
        assert make([]).panels == ()
        assert make([Record("a", "full", {}, 0)]).panels == ()


@pytest.mark.filterwarnings("ignore:Glyph")
def test_any_name_can_be_drawn():
    trials = [
        _trial(HOSTILE, "full", 0.5, 1000, learning_rate=1e-3),
        _trial(HOSTILE, "full", 0.6, 1000, 1, learning_rate=1e-3),
        _trial(HOSTILE, "$x", 0.6, 1000, learning_rate=1e-3),
        _trial(HOSTILE, "adapters", 0.4, 10, adapter_size=8, adapter_init_scale=1e-3),
        _trial(HOSTILE, "top_k", 0.4, 500, top_k=1),
    ]
    for make in (
        figures.tradeoff,
        figures.by_parameters,
        figures.init_scale,
        figures.learning_rate,
    ):
        _check_drawing(make(trials))
    row = {"task": HOSTILE, "first": "0", "last": "2", "value": "0.6", "full": "0.5"}
    _check_drawing(figures.ablation([row]))


def test_everything_drawn_is_within_the_picture():
    names = [f"a task with quite a long name, {i}" for i in range(17)]
    trials = [
        _trial(name, "adapters", 0.01 * i, adapter_init_scale=scale)
        for i, name in enumerate(names)
        for scale in (1e-7, 1e-3, 1.0)
    ]
    chart = figures.init_scale(trials)
    with figures._settings(chart.name):
        figure = figures._draw_chart(chart)
        figure.draw_without_rendering()
        tight = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    assert tight.x0 >= 0
    assert tight.y0 >= 0
    assert tight.x1 <= width
    assert tight.y1 <= height
    looks = {(line.look, line.dashes) for line in chart.panels[0].lines}
    assert len(looks) == len(names)
