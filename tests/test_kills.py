"""A run that is killed at any moment ends as if nothing had happened: see kills.py."""

import pytest

from tests.kills import PROGRAMS, Killed


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_killed_run_leaves_the_files_of_one_that_was_left_alone(program, tmp_path):
    runs = Killed(program, tmp_path / "runs", seed=0)
    runs.leave_alone()
    kills = 0
    while not kills:
        kills, odd = runs.kill(4)
        assert odd == []
