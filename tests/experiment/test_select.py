"""Choosing among trials."""

import dataclasses
import math
import random

import pytest

from adapter_bert_tf.experiment.records import COMPLETE, FAILED, PRUNED, Record
from adapter_bert_tf.experiment.select import choose, points, standard_error


def _trial(value: float | None, size: int = 8, seed: int = 0, **more) -> Record:
    settings = {"adapter_size": size}
    return Record("t", "adapters", settings, seed, **{"state": COMPLETE, "value": value, **more})


def _chosen_size(records) -> int:
    return choose(records)["t", "adapters"].first.settings["adapter_size"]


def _grid() -> list[Record]:
    numbers = random.Random(0)
    return [
        _trial(numbers.random(), size, seed, test=numbers.random())
        for size in range(10)
        for seed in range(3)
    ]


def test_trials_that_differ_in_their_seed_are_one_point():
    found = points([_trial(0.5, seed=1), _trial(0.7, seed=0), _trial(0.9, size=64)])
    assert [each.values for each in found] == [[0.7, 0.5], [0.9]]
    assert found[0].mean == pytest.approx(0.6)
    assert found[0].error == pytest.approx(0.1)


def test_the_order_of_settings_makes_no_difference():
    settings = {"a": 1, "b": 2}, {"b": 2, "a": 1}
    trials = [Record("t", "full", each, i, COMPLETE, value=0.5) for i, each in enumerate(settings)]
    assert len(points(trials)) == 1


@pytest.mark.parametrize(
    "trial",
    [
        _trial(0.9, state=FAILED),
        _trial(0.9, state=PRUNED),
        _trial(None),
        _trial(math.nan),
        _trial(math.inf),
    ],
)
def test_only_complete_trials_with_a_number_count(trial):
    assert points([trial]) == []
    assert choose([trial]) == {}


def test_the_best_mean_is_chosen():
    trials = [_trial(0.9, 8, 0), _trial(0.5, 8, 1), _trial(0.75, 64, 0), _trial(0.75, 64, 1)]
    assert _chosen_size(trials) == 64


def test_a_single_lucky_seed_does_not_win():
    assert _chosen_size([_trial(0.99, 8), _trial(0.7, 64, 0), _trial(0.7, 64, 1)]) == 64


def test_a_seed_that_failed_does_not_take_out_the_others():
    lucky = [_trial(0.7, 8, seed) for seed in range(4)]
    assert _chosen_size([*lucky, *(_trial(0.6, 64, seed) for seed in range(5))]) == 8


def test_test_values_have_no_part_in_the_choice():
    trials, numbers = _grid(), random.Random(1)
    expected = _chosen_size(trials)
    for _ in range(20):
        tests = [each.test for each in trials]
        numbers.shuffle(tests)
        changed = [
            dataclasses.replace(each, test=test) for each, test in zip(trials, tests, strict=True)
        ]
        assert _chosen_size(changed) == expected
    for test in (None, math.nan, 1e9):
        assert _chosen_size([dataclasses.replace(each, test=test) for each in trials]) == expected


def test_the_order_of_the_trials_has_no_part_in_the_choice():
    trials = [_trial(0.5, size, seed) for size in range(4) for seed in range(2)]
    expected = _chosen_size(trials)
    for i in range(20):
        random.Random(i).shuffle(trials)
        assert _chosen_size(trials) == expected


def test_it_is_chosen_apart_for_each_key():
    best = choose(_grid(), lambda each: each.settings["adapter_size"])
    assert sorted(best) == list(range(10))
    assert all(len(each.records) == 3 for each in best.values())


def test_standard_error():
    assert standard_error([0.5]) == 0
    assert standard_error([1.0, 2.0, 3.0]) == pytest.approx(1 / math.sqrt(3))
