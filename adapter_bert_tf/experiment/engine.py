"""Hands out trials to workers, on this machine or on many, and keeps what became of them.

Optuna keeps the trials: in a journal in the output folder, or in a database. A trial is claimed
in one atomic step, and its run folder says how far it is, so a trial whose worker died is resumed
by another one.
"""

import contextlib
import dataclasses
import fcntl
import os
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any

import optuna
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState

from adapter_bert_tf import internals
from adapter_bert_tf.baseline.space import Design
from adapter_bert_tf.experiment.pruning import is_worse
from adapter_bert_tf.experiment.records import (
    COMPLETE,
    FAILED,
    PRUNED,
    RUNNING,
    WAITING,
    Record,
)
from adapter_bert_tf.experiment.sampling import propose, to_distributions
from adapter_bert_tf.experiment.storage import (
    HEARTBEAT,
    JOURNAL,
    MOST_RETRIES,
    open_storage,
    told,
)
from adapter_bert_tf.experiment.table import Search
from adapter_bert_tf.experiment.trials import Trial

_LOCKS = "locks"
_STATES = {
    TrialState.COMPLETE: COMPLETE,
    TrialState.FAIL: FAILED,
    TrialState.PRUNED: PRUNED,
    TrialState.RUNNING: RUNNING,
    TrialState.WAITING: WAITING,
}
# Proposals of a search until all of its designs count as tried.
_PROPOSALS = 50
_TRIAL, _DIGEST, _REASON, _SUPERSEDED = "trial", "digest", "reason", "superseded"
# How often a trial was put back because its worker died; Optuna's own name of it in a database.
_DEATHS, _RETRIES = "deaths", "retry_history"
# In the name of a study's attribute, before the number of a trial that was let be done again.
_AGAIN = "done again: "
_DIED = f"its worker died {MOST_RETRIES + 1} times: it may need more memory than there is"


class Engine:
    """The trials of an experiment, shared by all of its workers.

    Args:
      folder: The output folder; trials of this machine are locked there.
      name: Name under which the storage keeps them.
      storage: URL of a database; by default a journal in the folder.
      pruner: Name of the pruner, if trials that do badly are to be ended early.
    """

    def __init__(
        self, folder: str, name: str, storage: str | None = None, pruner: str | None = None
    ):
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._folder = folder
        self._is_journal = storage is None
        os.makedirs(os.path.join(folder, _LOCKS), exist_ok=True)
        self._storage = open_storage(storage, os.path.join(folder, JOURNAL))
        with told(storage):
            self._study = optuna.create_study(
                storage=self._storage,
                study_name=name,
                direction="maximize",
                load_if_exists=True,
            )
        self._name, self._pruner = storage, pruner

    def add(self, trials: Iterable[Trial]) -> None:
        """Adds trials that are not there yet."""
        with told(self._name), self._locked("add"):
            known = {each.user_attrs[_DIGEST] for each in self._all()}
            for trial in trials:
                if trial.digest not in known:
                    self._add(trial)

    def search(self, search: Search, example: Trial) -> None:
        """Adds the next trial of a search, unless one waits already or all are there.

        Args:
          search: The search.
          example: A trial of it, without its settings.
        """
        with told(self._name), self._locked("add"):
            self._revive()
            trials = [(each, Trial.from_json(each.user_attrs[_TRIAL])) for each in self._all()]
            mine = [(each, trial) for each, trial in trials if trial.is_like(example)]
            known = {trial.digest for _, trial in mine}
            is_waiting = any(each.state == TrialState.WAITING for each, _ in mine)
            if is_waiting or len(known) >= search.trials:
                return
            frozen = [each for each, _ in mine]
            distributions = to_distributions(search.space)
            for attempt in range(_PROPOSALS):
                seed = [example.seed, len(known), attempt]
                values = propose(frozen, distributions, search.sampler, seed)
                trial = dataclasses.replace(example, settings=vars(Design(**values)))
                if trial.digest not in known:
                    self._add(trial, values, distributions)
                    return
            # The space has so few designs that all of them were tried.

    def _add(
        self,
        trial: Trial,
        values: dict[str, Any] | None = None,
        distributions: dict[str, optuna.distributions.BaseDistribution] | None = None,
        deaths: int = 0,
    ) -> None:
        attributes = {
            _DEATHS: deaths,
            _TRIAL: trial.to_json(),
            _DIGEST: trial.digest,
            # For people: what a dashboard shows.
            **{"task": trial.task, "method": trial.method, **trial.settings, "seed": trial.seed},
        }
        added = optuna.create_trial(
            state=TrialState.WAITING,
            user_attrs=attributes,
            params=values,
            distributions=distributions,
        )
        self._study.add_trial(added)

    def claim(
        self,
        is_asked: Callable[[Trial], bool] = lambda trial: True,
        last: Trial | None = None,
    ) -> "Claim | None":
        """Takes a trial that waits, or one whose worker died; None if there is none at the time.

        Args:
          is_asked: Whether a trial is one of those that this worker does.
          last: What the worker did before. A trial of the same task and method comes first, as it
            can use what was made for the last one.
        """
        with told(self._name):
            self._revive()
            waiting = [
                (frozen, Trial.from_json(frozen.user_attrs[_TRIAL]))
                for frozen in self._all()
                if frozen.state == TrialState.WAITING
            ]
            if last is not None:
                waiting.sort(key=lambda each: not each[1].is_like(last))
            for frozen, trial in waiting:
                claim = self._take(frozen) if is_asked(trial) else None
                if claim is not None:
                    return claim
        return None

    def _take(self, frozen: FrozenTrial) -> "Claim | None":
        lock = self._lock(frozen.user_attrs[_DIGEST])
        if lock is None:
            return None
        # The lock comes first: whoever sees a running trial without one knows that it is dead.
        # In a database that is the sign of life: a trial without any would never count as dead.
        try:
            if isinstance(self._storage, RDBStorage):
                self._storage.record_heartbeat(internals.trial_id(frozen))
            taken = self._storage.set_trial_state_values(
                internals.trial_id(frozen), TrialState.RUNNING
            )
        except optuna.exceptions.UpdateFinishedTrialError:
            taken = False
        if not taken or self._is_copy(frozen):
            if taken:
                self._supersede(frozen)
            lock.close()
            return None
        return Claim(self, frozen, lock)

    def _is_copy(self, frozen: FrozenTrial) -> bool:
        """Whether two workers have added the same trial: the one with the lower number counts."""
        return any(
            each.number < frozen.number and each.user_attrs[_DIGEST] == frozen.user_attrs[_DIGEST]
            for each in self._all()
        )

    def _supersede(self, frozen: FrozenTrial) -> None:
        self._storage.set_trial_user_attr(internals.trial_id(frozen), _SUPERSEDED, True)
        self._storage.set_trial_state_values(internals.trial_id(frozen), TrialState.FAIL)

    def _revive(self) -> None:
        """Puts trials back whose workers died."""
        if not self._is_journal:
            with warnings.catch_warnings():
                # It calls this experimental, in each worker.
                warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
                optuna.storages.fail_stale_trials(self._study)
            return
        for frozen in self._all():
            if frozen.state == TrialState.RUNNING:
                lock = self._lock(frozen.user_attrs[_DIGEST])
                if lock is not None:
                    self._count_death(frozen)
                    lock.close()

    def _count_death(self, frozen: FrozenTrial) -> None:
        """Puts a trial back whose worker died, unless that happens again and again."""
        deaths = frozen.user_attrs.get(_DEATHS, 0) + 1
        if deaths <= MOST_RETRIES:
            self._put_back(frozen, deaths)
            return
        with contextlib.suppress(optuna.exceptions.UpdateFinishedTrialError):
            number = internals.trial_id(frozen)
            self._storage.set_trial_user_attr(number, _REASON, _DIED)
            self._storage.set_trial_state_values(number, TrialState.FAIL)

    def _put_back(self, frozen: FrozenTrial, deaths: int = 0) -> None:
        """Adds the trial again, as Optuna lets none go from running to waiting."""
        with contextlib.suppress(optuna.exceptions.UpdateFinishedTrialError):
            self._supersede(frozen)
            trial = Trial.from_json(frozen.user_attrs[_TRIAL])
            self._add(trial, frozen.params, frozen.distributions, deaths)

    def _all(self) -> list[FrozenTrial]:
        """Returns all trials, without those that others have taken the place of."""
        again = {name for name in self._study.user_attrs if name.startswith(_AGAIN)}
        return [
            each
            for each in self._study.get_trials(deepcopy=False)
            if not each.user_attrs.get(_SUPERSEDED)
            and not self._was_retried(each)
            and f"{_AGAIN}{each.number}" not in again
        ]

    def _was_retried(self, frozen: FrozenTrial) -> bool:
        """Whether the database has put a trial back: what failed without a reason has died."""
        is_dead = frozen.state == TrialState.FAIL and _REASON not in frozen.user_attrs
        retries = len(frozen.system_attrs.get(_RETRIES, ()))
        return is_dead and not self._is_journal and retries < MOST_RETRIES

    def _like(self, trial: Trial) -> list[FrozenTrial]:
        """Returns the trials of the same task and method: others are no measure for one."""
        found = []
        for each in self._study.get_trials(deepcopy=False):
            if Trial.from_json(each.user_attrs[_TRIAL]).is_like(trial):
                found.append(each)
        return found

    def retry_failed(self) -> None:
        """Lets trials that failed be done again."""
        with told(self._name), self._locked("add"):
            for frozen in self._all():
                if frozen.state == TrialState.FAIL:
                    self._study.set_user_attr(f"{_AGAIN}{frozen.number}", True)
                    trial = Trial.from_json(frozen.user_attrs[_TRIAL])
                    self._add(trial, frozen.params, frozen.distributions)

    def records(self) -> list[Record]:
        """Returns what has become of each trial, each of them once."""
        with told(self._name):
            noted = self._study.user_attrs
            found: dict[str, Record] = {}
            for frozen in self._all():
                digest = frozen.user_attrs[_DIGEST]
                found.setdefault(digest, _to_record(frozen, noted.get(digest)))
        return list(found.values())

    def note_test(self, record: Record, value: float) -> None:
        """Adds the score on the test set to the record of a trial that is complete."""
        # Optuna lets a trial that is finished not be changed, but the study.
        with told(self._name):
            for frozen in self._all():
                trial = Trial.from_json(frozen.user_attrs[_TRIAL])
                if trial.is_of(record):
                    self._study.set_user_attr(trial.digest, value)

    @contextlib.contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        with open(os.path.join(self._folder, _LOCKS, name), "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _lock(self, digest: str) -> IO | None:
        """Locks a trial on this machine; the lock is gone when the process is."""
        file = open(os.path.join(self._folder, _LOCKS, digest), "w")  # noqa: SIM115
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        return file


class Claim:
    """A trial that this worker does. Ends with `complete`, `fail`, `prune` or `put_back`.

    All of them, and `report`, raise `TakenError` if others have taken the trial; then it ends
    with `drop`.
    """

    def __init__(self, engine: Engine, frozen: FrozenTrial, lock: IO):
        self._engine, self._frozen, self._lock = engine, frozen, lock
        self.trial = Trial.from_json(frozen.user_attrs[_TRIAL])
        self._over = threading.Event()
        if isinstance(engine._storage, RDBStorage):
            live = threading.Thread(target=self._live, args=(engine._storage,), daemon=True)
            live.start()

    def _live(self, database: RDBStorage) -> None:
        """Tells the database that this worker lives."""
        while not self._over.is_set():
            with contextlib.suppress(Exception):  # If the database is lost, the trial's end tells.
                database.record_heartbeat(internals.trial_id(self._frozen))
            self._over.wait(HEARTBEAT)

    def report(self, epoch: int, value: float) -> bool:
        """Keeps the value of an epoch; returns whether the pruner would end the trial."""
        engine, number = self._engine, internals.trial_id(self._frozen)
        with told(engine._name):
            engine._storage.set_trial_intermediate_value(number, epoch, value)
            if engine._pruner is None:
                return False
            return is_worse(engine._pruner, engine._storage, engine._like(self.trial), number)

    def complete(self, value: float, **more: Any) -> None:
        """Keeps the result."""
        self._end(TrialState.COMPLETE, value, more)

    def fail(self, reason: str) -> None:
        """Keeps the reason why there is no result."""
        self._end(TrialState.FAIL, None, {_REASON: reason})

    def prune(self) -> None:
        """Ends a trial that does badly."""
        self._end(TrialState.PRUNED, None, {_REASON: "ended early: worse than others"})

    def drop(self) -> None:
        """Leaves the trial as it is."""
        self._over.set()
        self._lock.close()

    def put_back(self) -> None:
        """Leaves the trial to another worker."""
        self._over.set()
        with contextlib.closing(self._lock), told(self._engine._name):
            self._engine._put_back(self._frozen)

    def _end(self, state: TrialState, value: float | None, more: dict[str, Any]) -> None:
        self._over.set()
        storage, number = self._engine._storage, internals.trial_id(self._frozen)
        with contextlib.closing(self._lock), told(self._engine._name):
            for name, each in more.items():
                storage.set_trial_user_attr(number, name, each)
            storage.set_trial_state_values(number, state, None if value is None else [value])


_RESULTS = ("metric", "trained", "total", "steps", "seconds", "reason", "folder")


def _to_record(frozen: FrozenTrial, test: float | None) -> Record:
    trial = Trial.from_json(frozen.user_attrs[_TRIAL])
    results = {name: frozen.user_attrs[name] for name in _RESULTS if name in frozen.user_attrs}
    if frozen.state == TrialState.FAIL:
        results.setdefault(_REASON, _DIED)
    return Record(
        task=trial.task,
        method=trial.method,
        settings=trial.settings,
        seed=trial.seed,
        state=_STATES[frozen.state],
        value=frozen.value if frozen.state == TrialState.COMPLETE else None,
        test=test,
        **results,
    )
