"""From an experiment to its trials."""

import collections
import dataclasses
import functools
import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from adapter_bert_tf.experiment.records import COMPLETE, FAILED, PRUNED, Record
from adapter_bert_tf.experiment.select import choose
from adapter_bert_tf.experiment.table import METHODS, NO_BERT, Arm, Experiment, Search

_FINISHED = (COMPLETE, FAILED, PRUNED)


@dataclasses.dataclass(frozen=True)
class Trial:
    """A run that is to be done.

    Attributes:
      task: Name of the task.
      method: Name of the method.
      settings: The settings that the experiment varies, by flag.
      seed: The seed.
      fixed: All other flags, without those that say where files are.
    """

    task: str
    method: str
    settings: Mapping[str, Any]
    seed: int
    fixed: Mapping[str, Any]

    @property
    def values(self) -> dict[str, Any]:
        """All flags of the run."""
        return {**self.fixed, **self.settings, "seed": self.seed}

    @property
    def digest(self) -> str:
        """Identifies the trial: equal ones are the same work."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    def is_of(self, record: Record) -> bool:
        """Whether a record is this trial's."""
        return _key(self) == _key(record)

    def is_like(self, other: "Trial") -> bool:
        """Whether another trial is of the same task and method."""
        return (self.task, self.method) == (other.task, other.method)

    def to_json(self) -> str:
        """Returns it as text."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "Trial":
        """Reads what `to_json` returned."""
        values = json.loads(text)
        fixed = {name: _tuples(value) for name, value in values.pop("fixed").items()}
        return cls(**values, fixed=fixed)


def _tuples(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def to_trials(experiment: Experiment, records: Iterable[Record] = ()) -> list[Trial]:
    """Returns the trials that can be done, given what is finished.

    Where one seed searches, the other seeds follow once their part of the grid is done. The trials
    of searches are not among them: see `searches`.
    """
    searched = experiment.searched_with or len(experiment.seeds)
    found = []
    arms = [arm for arm in experiment.arms if arm.search is None]
    for task, arm in itertools.product(experiment.tasks, arms):
        for point, seed in itertools.product(_points(arm), experiment.seeds[:searched]):
            found.append(_trial(experiment, task, arm, point, seed))
    return found + list(_with_more_seeds(experiment, found, list(records)))


def searches(experiment: Experiment) -> list[tuple[Search, Trial]]:
    """Returns the searches of an experiment, each with a trial that has no settings yet."""
    return [
        (arm.search, _trial(experiment, task, arm, {}, experiment.seeds[0]))
        for task, arm in itertools.product(experiment.tasks, experiment.arms)
        if arm.search is not None
    ]


class Asked:
    """The trials that an experiment asks for; its folder may have more of them.

    Args:
      experiment: The experiment.
      records: What is finished.
    """

    def __init__(self, experiment: Experiment, records: Iterable[Record]):
        self.trials = to_trials(experiment, records)
        self._keys = {_key(each) for each in self.trials}
        self._searched = {(each.task, each.method) for _, each in searches(experiment)}

    def has(self, each: Trial | Record) -> bool:
        """Whether it is one of them."""
        return _key(each) in self._keys or (each.task, each.method) in self._searched


def count_trials(experiment: Experiment) -> dict[tuple[str, str], int]:
    """Returns how many trials each task and method has in all, by task and method."""
    rest = len(experiment.seeds) - (experiment.searched_with or len(experiment.seeds))
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    groups = set()
    for trial in to_trials(experiment):
        counts[trial.task, trial.method] += 1
        groups.add(_group(experiment, trial))
    for task, method, *_ in groups:
        counts[task, method] += rest
    for search, trial in searches(experiment):
        counts[trial.task, trial.method] += search.trials
    return dict(counts)


def _group(experiment: Experiment, each: "Trial | Record") -> tuple:
    """Returns what the best is looked for in apart."""
    return (each.task, each.method, *(each.settings.get(name) for name in experiment.apart))


def _points(arm: Arm) -> Iterator[dict[str, Any]]:
    for values in itertools.product(*arm.grid.values()):
        yield dict(zip(arm.grid, values, strict=True))


def _trial(
    experiment: Experiment, task: str, arm: Arm, point: Mapping[str, Any], seed: int
) -> Trial:
    epochs = experiment.epochs.get(task, {}).get(arm.method)
    fixed = {
        **METHODS.get(arm.method, {}),
        **experiment.fixed,
        **({"num_train_epochs": float(epochs)} if epochs else {}),
        **experiment.of_tasks.get(task, {}),
        **arm.fixed,
        **({"bert": experiment.bert} if arm.method != NO_BERT else {}),
    }
    fixed = {name: value for name, value in fixed.items() if name not in point}
    return Trial(task, arm.method, dict(point), seed, fixed)


def _with_more_seeds(
    experiment: Experiment, searching: Sequence[Trial], records: list[Record]
) -> Iterator[Trial]:
    """Yields the other seeds of what was found best, where the search is done."""
    searched = experiment.searched_with or len(experiment.seeds)
    seeds = experiment.seeds[:searched]
    rest = experiment.seeds[searched:]
    if not rest:
        return

    group = functools.partial(_group, experiment)
    done = {_key(each) for each in records if each.state in _FINISHED}
    open_groups = {group(each) for each in searching if _key(each) not in done}
    asked = {_key(each): each for each in searching}
    first = [each for each in records if each.seed in seeds and _key(each) in asked]
    for key, best in choose(first, group).items():
        if key not in open_groups:
            for seed in rest:
                yield dataclasses.replace(asked[_key(best.first)], seed=seed)


def _key(each: Trial | Record) -> tuple:
    return each.task, each.method, json.dumps(each.settings, sort_keys=True), each.seed
