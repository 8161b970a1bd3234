from adapter_bert_tf.experiment.about import identify
from adapter_bert_tf.experiment.given import narrow
from adapter_bert_tf.experiment.places import Places
from adapter_bert_tf.experiment.table import SMALL
from adapter_bert_tf.experiment.trials import searches, to_trials


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
