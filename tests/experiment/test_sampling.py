import optuna
from optuna.trial import TrialState

from adapter_bert_tf.baseline.space import SPACE, Design, Range
from adapter_bert_tf.experiment.sampling import propose, to_distributions

SMALL = {"hidden_layers": (0, 1, 2, 3, 5), "filters": Range(50, 200)}


def _done(values: dict, value: float, space=SMALL) -> optuna.trial.FrozenTrial:
    return optuna.create_trial(
        state=TrialState.COMPLETE,
        value=value,
        params=values,
        distributions=to_distributions(space),
    )


def test_every_proposal_is_a_design():
    distributions = to_distributions(SPACE)
    found = [propose([], distributions, "random", [0, number]) for number in range(50)]
    for values in found:
        Design(**values)
    for name, choices in SPACE.items():
        tried = {values[name] for values in found}
        assert len(tried) > 1
        assert all(value in choices for value in tried)


def test_a_narrow_range_is_tried_everywhere():
    space = {"embedding_dropout": Range(0.001, 0.004)}
    found = {
        propose([], to_distributions(space), "random", [0, i])["embedding_dropout"]
        for i in range(9)
    }
    assert len(found) == 9
    assert all(0.001 <= value <= 0.004 for value in found)


def test_proposals_depend_on_nothing_but_their_arguments():
    distributions = to_distributions(SMALL)
    done = [_done({"hidden_layers": 1, "filters": 60 + i}, i / 20) for i in range(12)]
    for sampler in ("tpe", "random"):
        first, again, other = (
            propose(done, distributions, sampler, seed) for seed in ([3, 1], [3, 1], [3, 2])
        )
        assert first == again
        assert first != other


def test_tpe_looks_where_it_was_good_and_random_does_not():
    distributions = to_distributions(SMALL)
    layers = SMALL["hidden_layers"]
    done = [
        _done({"hidden_layers": layers[i % 5], "filters": 50 + i}, float(i % 5 == 2))
        for i in range(40)
    ]
    counts = {}
    for sampler in ("tpe", "random"):
        found = [propose(done, distributions, sampler, [0, number]) for number in range(30)]
        counts[sampler] = sum(values["hidden_layers"] == layers[2] for values in found)
    assert counts["tpe"] > 15 > counts["random"]


def test_trials_of_another_space_are_left_out():
    other = {"hidden_layers": (0, 1), "filters": Range(50, 200)}
    done = [_done({"hidden_layers": 0, "filters": 60}, 1.0)]
    values = propose(done, to_distributions(other), "tpe", [0])
    assert values == propose([], to_distributions(other), "tpe", [0])
