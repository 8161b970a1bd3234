"""Workers of one machine."""

import functools
import subprocess
import sys
import threading

import pytest

from adapter_bert_tf.experiment import program


def _process(code: str) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", code])


DIES = "import os; os.kill(os.getpid(), 9)"


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(program, "_PAUSE", 0.01)


def test_another_worker_takes_the_place_of_one_that_is_killed(capsys):
    start = functools.partial(_process, "")
    workers = [_process(DIES), _process("")]
    assert program._wait_for(workers, start, threading.Event()) == [0, 0]
    assert "killed by signal 9" in capsys.readouterr().out


def test_workers_that_are_always_killed_come_to_an_end(monkeypatch):
    monkeypatch.setattr(program, "_MOST_KILLED", 3)
    started = []

    def start() -> subprocess.Popen:
        started.append(1)
        return _process(DIES)

    assert program._wait_for([start()], start, threading.Event()) == [-9]
    assert len(started) == 1 + 3


@pytest.mark.parametrize(("code", "is_stopped"), [("raise SystemExit(3)", False), (DIES, True)])
def test_none_takes_the_place_of_one_that_ends_or_is_stopped(code, is_stopped):
    stopped = threading.Event()
    if is_stopped:
        stopped.set()
    start = functools.partial(pytest.fail, "another worker was started")
    assert len(program._wait_for([_process(code)], start, stopped)) == 1
