"""Chooses the next settings of a search, by what earlier ones reached."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, TrialState

from adapter_bert_tf.baseline.space import Range, Space, Values

Distributions = dict[str, BaseDistribution]

# As the paper writes its numbers. A range that is not much wider is tried without steps.
_STEP, _FEWEST = 0.01, 5
_LOOKED_AT = (TrialState.COMPLETE, TrialState.RUNNING)


def to_distributions(space: Space) -> Distributions:
    """Returns a space in Optuna's terms."""
    return {name: _to_distribution(values) for name, values in space.items()}


def _to_distribution(values: Values) -> BaseDistribution:
    if not isinstance(values, Range):
        return CategoricalDistribution(values)
    if isinstance(values.low, int) and isinstance(values.high, int):
        return IntDistribution(values.low, values.high)
    is_wide = values.high - values.low >= _FEWEST * _STEP
    return FloatDistribution(values.low, values.high, step=_STEP if is_wide else None)


def propose(
    trials: Iterable[FrozenTrial],
    distributions: Mapping[str, BaseDistribution],
    sampler: str,
    seed: Sequence[int],
) -> dict[str, Any]:
    """Returns the next settings. They depend on nothing but the arguments.

    Args:
      trials: The trials so far. Only those of the same space are looked at.
      distributions: The space.
      sampler: "tpe" or "random".
      seed: Numbers that tell this proposal from others.
    """
    number = int(np.random.SeedSequence(seed).generate_state(1)[0])
    with warnings.catch_warnings():
        # It calls its way to look at trials that still run experimental, at each start.
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        chooser: optuna.samplers.BaseSampler = (
            optuna.samplers.TPESampler(seed=number, constant_liar=True)
            if sampler == "tpe"
            else optuna.samplers.RandomSampler(seed=number)
        )
    study = optuna.create_study(sampler=chooser, direction="maximize")
    for each in trials:
        if each.state in _LOOKED_AT and each.distributions == dict(distributions):
            added = optuna.create_trial(
                state=each.state,
                value=each.value if each.state == TrialState.COMPLETE else None,
                params=each.params,
                distributions=each.distributions,
            )
            study.add_trial(added)
    return study.ask(dict(distributions)).params
