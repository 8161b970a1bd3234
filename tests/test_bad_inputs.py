"""Whatever is wrong is told in one line, soon and in little memory: see bad_inputs.py."""

import collections

import pytest

from tests import bad_inputs

# One in so many is tried in each run of the tests.
_SAMPLE = 11


def _problems(cases) -> list[str]:
    outcomes = ((case.name, bad_inputs.attempt(case).problem) for case in cases)
    return [f"{name}: {problem}" for name, problem in outcomes if problem]


def test_some_bad_inputs_are_told():
    cases = list(bad_inputs.cases(loading=False))
    assert len(cases) > 1000
    twice = [name for name, n in collections.Counter(case.name for case in cases).items() if n > 3]
    assert not twice
    assert _problems(cases[::_SAMPLE]) == []


@pytest.mark.slow
def test_all_bad_inputs_are_told():
    assert _problems(bad_inputs.cases()) == []


def test_the_limits_hold(monkeypatch):
    monkeypatch.setattr(bad_inputs, "SECONDS", 1)
    monkeypatch.setattr(bad_inputs, "MEGABYTES", 50)

    def told(folder):
        raise bad_inputs.UserError("a line")

    def eats(folder):
        bytearray(b"x" * 10**8)
        told(folder)

    wrong = {
        "was accepted": lambda folder: None,
        "took more than": lambda folder: [None for _ in iter(int, 1)],
        "ZeroDivisionError": lambda folder: 1 / 0,
        "MB": eats,
    }
    assert _problems([bad_inputs.Case("right", told)]) == []
    for problem, give in wrong.items():
        assert problem in _problems([bad_inputs.Case("wrong", give)])[0]
