"""Ends trials early that do worse than others of the same task and method."""

from collections.abc import Iterable

import optuna
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial

from adapter_bert_tf import internals

PRUNERS: dict[str, type[optuna.pruners.BasePruner]] = {
    "median": optuna.pruners.MedianPruner,
    "hyperband": optuna.pruners.HyperbandPruner,
}


def is_worse(
    pruner: str, storage: BaseStorage, compared: Iterable[FrozenTrial], number: int
) -> bool:
    """Returns whether a pruner would end a trial.

    Optuna's pruners look at all trials of a study, so those that can be compared are put into one
    of their own.

    Args:
      pruner: Name of the pruner.
      storage: Where the trial is kept.
      compared: The trial itself and those that it is compared with, in the same order every time.
      number: The storage's number of the trial.
    """
    chooser = PRUNERS[pruner]()
    study = optuna.create_study(study_name="compared", direction="maximize", pruner=chooser)
    place = None
    for i, each in enumerate(compared):
        study.add_trial(each)
        place = i if internals.trial_id(each) == number else place
    if place is None:
        raise ValueError("the trial is not among those that it is compared with")
    trial = study.get_trials(deepcopy=False)[place]
    known = set(trial.system_attrs)
    is_ended = chooser.prune(study, trial)
    # Hyperband writes down which of its rounds a trial has passed.
    for name, value in study.get_trials(deepcopy=False)[place].system_attrs.items():
        if name not in known:
            storage.set_trial_system_attr(number, name, value)
    return is_ended
