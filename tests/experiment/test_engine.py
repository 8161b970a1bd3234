import collections
import dataclasses
import multiprocessing
import os
import signal
import time

import pytest

from adapter_bert_tf import UserError
from adapter_bert_tf.baseline.space import SPACE, Design
from adapter_bert_tf.experiment import about, storage
from adapter_bert_tf.experiment.engine import Claim, Engine
from adapter_bert_tf.experiment.pruning import PRUNERS
from adapter_bert_tf.experiment.storage import (
    JOURNAL,
    MOST_RETRIES,
    LostStorageError,
    TakenError,
)
from adapter_bert_tf.experiment.table import Search
from adapter_bert_tf.experiment.trials import Trial

_SPAWN = multiprocessing.get_context("spawn")


def _trials(count: int) -> list[Trial]:
    return [Trial("CoLA", "adapters", {"adapter_size": i}, 0, {}) for i in range(1, count + 1)]


def test_each_trial_is_handed_out_once_and_kept(tmp_path):
    engine, other = (Engine(str(tmp_path), "sweep") for _ in range(2))
    for each in (engine, other):  # Two workers start with the same command.
        each.add(_trials(3))
    claims = [engine.claim(), other.claim(), engine.claim()]
    assert other.claim() is None
    assert {claim.trial.settings["adapter_size"] for claim in claims} == {1, 2, 3}
    claims[0].complete(0.5, metric="accuracy", trained=7, folder="a")
    claims[1].fail("too large")
    claims[2].prune()
    again = Engine(str(tmp_path), "sweep")
    again.add(_trials(3))
    assert again.claim() is None
    records = sorted(again.records(), key=lambda each: each.settings["adapter_size"])
    assert [each.state for each in records] == ["complete", "failed", "pruned"]
    assert (records[0].value, records[0].metric, records[0].trained) == (0.5, "accuracy", 7)
    assert records[1].reason == "too large"


def test_a_worker_stays_with_a_task_whose_texts_it_has(tmp_path):
    engine = Engine(str(tmp_path), "additional")
    searches = [Trial(task, "no_bert", {}, 0, {}) for task in ("SST-2", "CoLA")]
    done: list[str] = []
    last = None
    for _ in range(6):
        for each in searches:
            engine.search(Search(SPACE, trials=3, sampler="random"), each)
        claim = engine.claim(last=last)
        last = claim.trial
        done.append(last.task)
        claim.complete(0.5)
    assert done == ["SST-2"] * 3 + ["CoLA"] * 3


def test_what_was_put_back_is_handed_out_again(tmp_path):
    engine = Engine(str(tmp_path), "sweep")
    engine.add(_trials(1))
    engine.claim().put_back()
    claim = engine.claim()
    assert claim.trial == _trials(1)[0]
    claim.complete(1.0)
    assert [each.state for each in engine.records()] == ["complete"]


def test_a_test_score_is_added_to_a_record(tmp_path):
    engine = Engine(str(tmp_path), "sweep")
    engine.add(_trials(2))
    for value in (0.1, 0.2):
        engine.claim().complete(value)
    engine.note_test(engine.records()[1], 0.9)
    assert [each.test for each in engine.records()] == [None, 0.9]


def test_bad_trials_are_ended_early_if_asked_for(tmp_path):
    engine = Engine(str(tmp_path), "sweep", pruner="median")
    engine.add(_trials(8))
    for _ in range(6):
        claim = engine.claim()
        assert not claim.report(1, 0.9)
        claim.complete(0.9)
    assert engine.claim().report(1, 0.1)
    unpruned = Engine(str(tmp_path), "sweep")
    assert not unpruned.claim().report(1, 0.0)


def test_a_storage_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(UserError, match="sqlite") as error:
        Engine(str(tmp_path), "sweep", storage="sqlite:////nowhere/a.db")
    assert "\n" not in str(error.value)


def _work(folder: str, done: str, pause: float) -> None:
    """Does trials until none is left: writes down which, and sometimes waits long."""
    engine = Engine(folder, "sweep")
    engine.add(_trials(12))
    while True:
        claim = engine.claim()
        if claim is None:
            if all(each.state == "complete" for each in engine.records()):
                return
            time.sleep(0.05)
            continue
        time.sleep(pause)
        size = claim.trial.settings["adapter_size"]
        claim.complete(size / 100)
        with open(done, "a") as file:
            file.write(f"{size}\n")


def test_what_a_killed_worker_leaves_is_done_by_others_and_nothing_twice(tmp_path):
    done = str(tmp_path / "done.txt")
    dying, living = (
        _SPAWN.Process(target=_work, args=(str(tmp_path), done, pause)) for pause in (0.3, 0.05)
    )
    dying.start()
    while not os.path.exists(done):
        assert dying.is_alive()
        time.sleep(0.02)
    time.sleep(0.1)
    os.kill(dying.pid, signal.SIGKILL)
    living.start()
    living.join(timeout=60)
    assert living.exitcode == 0
    records = Engine(str(tmp_path), "sweep").records()
    assert sorted(each.value for each in records) == [size / 100 for size in range(1, 13)]
    counts = collections.Counter(open(done).read().split())
    assert set(counts.values()) == {1}


_SPACE = {**SPACE, "module": ("use",)}


def _search(engine: Engine, trials: int, space=_SPACE, sampler: str = "tpe") -> list[dict]:
    """Does a search, and returns its settings in their order."""
    found = []
    example = Trial("airline", "no_bert", {}, 0, {})
    while True:
        engine.search(Search(space, trials, sampler), example)
        claim = engine.claim()
        if claim is None:
            return found
        found.append(claim.trial.settings)
        claim.complete(claim.trial.settings["filters"] / 200)


def test_a_search_ends_after_its_trials_and_goes_on_if_there_are_more(tmp_path):
    first = _search(Engine(str(tmp_path), "baseline"), 3)
    assert len(first) == 3
    assert _search(Engine(str(tmp_path), "baseline"), 3) == []
    assert len(_search(Engine(str(tmp_path), "baseline"), 5)) == 2
    assert len(Engine(str(tmp_path), "baseline").records()) == 5


def test_a_search_that_was_killed_goes_on_as_if_nothing_was(tmp_path):
    whole = _search(Engine(str(tmp_path / "whole"), "baseline"), 14)
    engine = Engine(str(tmp_path / "killed"), "baseline")
    example = Trial("airline", "no_bert", {}, 0, {})
    found = _search(engine, 11)
    engine.search(Search(_SPACE, 14), example)
    _die(engine.claim())
    found += _search(Engine(str(tmp_path / "killed"), "baseline"), 14)
    assert found == whole


def test_a_small_space_is_tried_but_once(tmp_path):
    space = {name: (getattr(Design(), name),) for name in SPACE}
    space |= {"hidden_layers": (0, 1), "hidden_size": (64, 128)}
    found = _search(Engine(str(tmp_path), "baseline"), 40, space, "random")
    assert len(found) == 4


def _die(claim: Claim) -> None:
    """Leaves a trial as a worker does that is killed."""
    claim._lock.close()


def test_half_a_line_of_a_full_disk_is_cut_off(tmp_path):
    engine = Engine(str(tmp_path), "sweep")
    engine.add(_trials(2))
    engine.claim().complete(0.5)
    journal = tmp_path / JOURNAL
    whole = journal.read_bytes()
    journal.write_bytes(whole + b'{"op_code": 4, "wor')
    again = Engine(str(tmp_path), "sweep")
    again.claim().complete(0.7)
    assert journal.read_bytes().startswith(whole)
    values = [each.value for each in Engine(str(tmp_path), "sweep").records()]
    assert sorted(values) == [0.5, 0.7]


def _hold(journal: str) -> None:
    """Dies while it writes to a journal."""
    storage._Lock(journal).acquire()
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_is_killed_while_it_writes_holds_up_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Engine("out", "sweep").add(_trials(1))
    dying = _SPAWN.Process(target=_hold, args=(f"out/{JOURNAL}",))
    dying.start()
    dying.join()
    assert dying.exitcode == -signal.SIGKILL
    assert Engine("out", "sweep").claim() is not None


def test_a_damaged_journal_is_one_line(tmp_path):
    Engine(str(tmp_path), "sweep").add(_trials(1))
    (tmp_path / JOURNAL).write_bytes(b"no json\n")
    with pytest.raises(LostStorageError, match=f"{JOURNAL}: damaged"):
        Engine(str(tmp_path), "sweep")


def test_a_trial_whose_workers_all_die_fails_and_can_be_asked_for_again(tmp_path):
    engine = Engine(str(tmp_path), "sweep")
    engine.add(_trials(1))
    for _ in range(MOST_RETRIES + 1):
        _die(engine.claim())
    assert engine.claim() is None
    (record,) = engine.records()
    assert record.state == "failed"
    assert f"died {MOST_RETRIES + 1} times" in record.reason
    engine.retry_failed()
    engine.claim().complete(0.5)
    assert [each.state for each in Engine(str(tmp_path), "sweep").records()] == ["complete"]


def test_stopping_a_worker_is_not_its_death(tmp_path):
    engine = Engine(str(tmp_path), "sweep")
    engine.add(_trials(1))
    for _ in range(MOST_RETRIES + 3):
        engine.claim().put_back()
    assert [each.state for each in engine.records()] == ["waiting"]


@pytest.mark.parametrize(
    "end",
    [
        lambda claim: claim.complete(0.1),
        lambda claim: claim.fail("too large"),
        lambda claim: claim.report(1, 0.1),
    ],
)
def test_a_trial_that_others_have_taken_is_theirs(tmp_path, end):
    engine, other = (Engine(str(tmp_path), "sweep") for _ in range(2))
    engine.add(_trials(1))
    silent = engine.claim()
    _die(silent)
    claim = other.claim()
    with pytest.raises(TakenError):
        end(silent)
    silent.drop()
    claim.put_back()
    engine.claim().complete(0.9)
    assert [each.value for each in engine.records()] == [0.9]


@pytest.mark.parametrize("pruner", list(PRUNERS))
def test_only_trials_of_the_same_task_and_method_are_compared(tmp_path, pruner):
    engine = Engine(str(tmp_path), "sweep", pruner=pruner)
    hard, easy = Trial("CoLA", "adapters", {}, 0, {}), Trial("SST-2", "adapters", {}, 0, {})
    for trial, value in [(easy, 0.9)] * 12 + [(hard, 0.1)] * 2:
        number = len(engine.records())
        engine.add([dataclasses.replace(trial, settings={"adapter_size": number})])
        claim = engine.claim()
        assert not any(claim.report(epoch, value) for epoch in range(4))
        claim.complete(value)


@pytest.mark.parametrize("url", ["postgresql://me:secret@127.0.0.1:1/db", "nothing://me:secret@x"])
def test_passwords_of_databases_are_not_shown(tmp_path, url):
    with pytest.raises(UserError, match="me:") as error:
        Engine(str(tmp_path), "sweep", storage=url)
    assert "secret" not in str(error.value)
    assert "secret" not in about.collect({}, "program", [f"--storage={url}"])["command"]


def test_a_worker_does_only_what_it_is_asked_for(tmp_path):
    engine = Engine(str(tmp_path), "sweep")
    engine.add(_trials(3))
    claim = engine.claim(lambda trial: trial.settings["adapter_size"] == 2)
    assert claim.trial == _trials(3)[1]
    assert engine.claim(lambda trial: trial.settings["adapter_size"] == 2) is None
