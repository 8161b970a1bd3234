import dataclasses
import itertools

import pytest

from adapter_bert_tf.data.sources import find_task
from adapter_bert_tf.experiment.records import Record
from adapter_bert_tf.experiment.table import PAPER, PROFILES, SQUAD, Arm, Experiment
from adapter_bert_tf.experiment.trials import Trial, count_trials, to_trials

# What follows from the paper: experiment -> method -> trials of a task.
COUNTS = {
    # 3 rates, 2 numbers of epochs, 3 sizes, 5 seeds.
    "glue": {"full": 15, "adapters": 90},
    # 4 rates; 8 numbers of layers, or 6 sizes; and two more seeds for the best.
    "additional": {"full": 6, "top_k": 34, "adapters": 26, "no_bert": 10_000},
    # 10 sizes, 12 numbers of layers, 3 seeds.
    "tradeoff": {"full": 3, "top_k": 36, "layer_norm": 3, "adapters": 30},
    # 3 rates and 3 numbers of epochs, or 4 and 3; two more seeds for the best of each size.
    "squad": {"full": 11, "top_k": 5 * 11, "adapters": 4 * 14},
    "ablation": {"adapters": 1},
    "init_scale": {"adapters": 24},
    # 6 rates; 2 numbers of epochs, adapters also 3 sizes; two more seeds for the best of each rate.
    "learning_rate": {"full": 6 * 4, "adapters": 6 * 8},
    "size": {"adapters": 90},
    "variants": dict.fromkeys(
        (
            "houlsby",
            "layer_norm_inside",
            "two_layers",
            "relu",
            "tanh",
            "attention_only",
            "feed_forward_only",
            "parallel",
            "multiplicative",
            # Not the paper's: a later design.
            "pfeiffer",
        ),
        3,
    ),
}
TASKS = {
    "glue": 9,
    "additional": 17,
    "tradeoff": 9,
    "squad": 1,
    "ablation": 2,
    "init_scale": 2,
    "learning_rate": 2,
    "size": 8,
    "variants": 2,
}


@pytest.mark.parametrize("name", list(PAPER))
def test_the_papers_grids_have_the_papers_counts(name):
    experiment = PAPER[name]
    assert len(experiment.tasks) == TASKS[name]
    wanted = {
        (task, method): count
        for task, (method, count) in itertools.product(experiment.tasks, COUNTS[name].items())
    }
    assert count_trials(experiment) == wanted


@pytest.mark.parametrize(("profile", "name"), itertools.product(PROFILES, PAPER))
def test_every_trial_is_another_one_and_its_task_is_known(profile, name):
    experiment = PROFILES[profile][name]
    trials = to_trials(experiment)
    assert len({trial.digest for trial in trials}) == len(trials)
    for task in experiment.tasks:
        assert task == SQUAD or find_task(task).name == task


def test_epochs_are_those_of_task_and_method():
    trials = to_trials(PAPER["additional"])
    found = {(each.task, each.method): each.values["num_train_epochs"] for each in trials}
    assert found["airline", "full"] == found["airline", "top_k"] == 50.0
    assert found["airline", "adapters"] == 20.0


SEARCH = Experiment(
    "A search",
    ("CoLA",),
    "minilm",
    (Arm("adapters", {"adapter_size": (8, 64), "learning_rate": (1e-4, 1e-3)}), Arm("full")),
    seeds=(0, 1, 2),
    searched_with=1,
)


def _done(trials, values) -> list[Record]:
    return [
        Record(each.task, each.method, each.settings, each.seed, "complete", "matthews", value)
        for each, value in zip(trials, values, strict=True)
    ]


def test_other_seeds_follow_for_the_best_once_the_search_is_done():
    first = to_trials(SEARCH)
    assert len(first) == 5
    assert {trial.seed for trial in first} == {0}
    values = [0.1, 0.2, 0.4, 0.3, 0.5]
    # One of the adapters' trials is not done: nothing is known about their best.
    after = to_trials(SEARCH, _done(first[1:], values[1:]))[5:]
    assert {(trial.method, trial.seed) for trial in after} == {("full", 1), ("full", 2)}
    after = to_trials(SEARCH, _done(first, values))[5:]
    best = [trial for trial in after if trial.method == "adapters"]
    assert [trial.seed for trial in best] == [1, 2]
    assert all(trial.settings == first[2].settings for trial in best)
    # What follows does not change what is best.
    records = _done(first, values) + _done(best, [0.0, 0.0])
    assert to_trials(SEARCH, records)[5:] == after
    assert sum(count_trials(SEARCH).values()) == len(first) + len(after)


def test_the_best_can_be_looked_for_apart():
    apart = dataclasses.replace(SEARCH, apart=("adapter_size",), arms=SEARCH.arms[:1])
    first = to_trials(apart)
    after = to_trials(apart, _done(first, [0.1, 0.2, 0.4, 0.3]))[4:]
    found = [(each.settings["adapter_size"], each.settings["learning_rate"]) for each in after]
    assert found == [(8, 1e-3), (8, 1e-3), (64, 1e-4), (64, 1e-4)]


def test_a_trial_is_read_as_it_was_written():
    trial = Trial("CoLA", "adapters", {"adapter_size": 8}, 1, {"adapter_sites": ("attention",)})
    assert Trial.from_json(trial.to_json()) == trial
    assert Trial.from_json(trial.to_json()).digest == trial.digest


@pytest.mark.parametrize("profile", PROFILES)
def test_tasks_are_scored_as_the_paper_scores_them(profile):
    for name in ("glue", "tradeoff"):
        found = {
            each.task: each.values.get("metric") for each in to_trials(PROFILES[profile][name])
        }
        expected = {"CoLA": "matthews", "MRPC": "f1", "STS-B": "spearman", "SST-2": None}
        assert {task: found[task] for task in expected} == expected
    sizes = to_trials(PROFILES[profile]["size"])
    assert {each.values["metric"] for each in sizes} == {"accuracy"}
