from collections.abc import Callable

import pytest
from absl import flags

from adapter_bert_tf import UserError
from adapter_bert_tf.experiment import given
from adapter_bert_tf.experiment.about import identify
from adapter_bert_tf.experiment.given import narrow
from adapter_bert_tf.experiment.places import Places
from adapter_bert_tf.experiment.table import PAPER, SMALL, SQUAD
from adapter_bert_tf.experiment.trials import searches, to_trials
from tests.own_flags import make_flags


def test_a_single_value_of_a_shared_setting_counts_for_all_trials_and_searches():
    experiment = narrow(SMALL["additional"], {"max_train_examples": (4000,)})
    trials = [*to_trials(experiment), *(trial for _, trial in searches(experiment))]
    assert {trial.values["max_train_examples"] for trial in trials} == {4000}
    assert not any("max_train_examples" in trial.settings for trial in trials)


def test_several_values_of_a_shared_setting_are_tried():
    experiment = narrow(SMALL["tradeoff"], {"max_train_examples": (100, 200)})
    assert {trial.settings["max_train_examples"] for trial in to_trials(experiment)} == {100, 200}
    assert len(to_trials(experiment)) == 2 * len(to_trials(SMALL["tradeoff"]))


def test_a_report_names_the_settings_that_all_trials_have():
    def told(**given) -> str:
        experiment = narrow(SMALL["tradeoff"], given)
        return identify("tradeoff", experiment, Places(""))["settings of all trials"]

    assert told() == "num_train_epochs=3.0 max_train_examples=1500 train_batch_size=8"
    assert told(max_train_examples=(100,)) == (
        "num_train_epochs=3.0 max_train_examples=100 train_batch_size=8"
    )
    assert told(max_train_examples=(100, 200)) == "num_train_epochs=3.0 train_batch_size=8"


def test_searches_take_as_many_examples_as_trials_also_in_the_papers_profile():
    experiment = narrow(PAPER["additional"], {"max_train_examples": (500,)})
    trials = [*to_trials(experiment), *(trial for _, trial in searches(experiment))]
    assert {trial.values["max_train_examples"] for trial in trials} == {500}


def test_what_makes_a_variant_is_not_narrowed():
    trials = to_trials(narrow(SMALL["variants"], {"adapter_size": (32,)}))
    sizes = {trial.method: trial.values["adapter_size"] for trial in trials}
    assert sizes.pop("pfeiffer") == 128
    assert set(sizes.values()) == {32}


def test_a_flag_that_no_method_has_is_told():
    with pytest.raises(UserError, match="--top_k=3: none of the methods has it"):
        narrow(SMALL["ablation"], {"top_k": (3,)})


@pytest.mark.parametrize("name", ["squad", "SQuAD", "SQuAD v1.1", "squad_v1"])
def test_squad_goes_by_its_names(name):
    assert narrow(SMALL["tradeoff"], {"task": (name,)}).tasks == (SQUAD,)


@pytest.mark.parametrize("name", ["s", "sq", "squad2"])
def test_other_names_are_not_squad(name):
    with pytest.raises(UserError, match=name):
        narrow(SMALL["tradeoff"], {"task": (name,)})


def test_a_sweep_of_files_has_one_dev_set_and_scores_their_test_set():
    seeds, files = {"seed": (3, 4)}, {"train_file": "a.csv"}
    drawn = given._sweep(seeds, files)
    assert drawn.fixed == {"split_seed": 3}
    assert not drawn.tests
    named = given._sweep(seeds, {**files, "dev_file": "b.csv", "test_file": "c.csv"})
    assert named.fixed == {}
    assert named.tests


@pytest.fixture
def program_flags(monkeypatch) -> Callable[[list[str]], object]:
    """A function that reads flags as the program does."""
    values = make_flags(monkeypatch)
    flags.DEFINE_string("output_dir", "out", "")
    flags.DEFINE_string("profile", "small", "")
    given.define_flags()
    return lambda arguments: values(["program", *arguments])


def test_the_flags_of_files_are_those_of_a_run(program_flags):
    given_flags = ["--label_separator=,", "--delimiter=\t", "--label_column=toxic,insult"]
    program_flags(["--train_file=a.csv", *given_flags])
    assert given.read_places().values == {
        "train_file": "a.csv",
        "label_separator": ",",
        "delimiter": "\t",
        "label_column": ("toxic", "insult"),
    }


def test_experiments_of_the_paper_on_files_have_one_dev_set_too(program_flags):
    program_flags(["--train_file=a.csv", "--seed=1,2"])
    trials = to_trials(given.read_experiment("tradeoff"))
    assert {trial.values["split_seed"] for trial in trials} == {1}
    assert {trial.seed for trial in trials} == {1, 2}


def test_searches_are_narrowed(program_flags):
    program_flags(["--trials=3", "--space=hidden_layers=0,1"])
    found = [search for search, _ in searches(given.read_experiment("additional"))]
    assert {search.trials for search in found} == {3}
    assert {search.space["hidden_layers"] for search in found} == {(0, 1)}
