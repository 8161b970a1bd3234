import json

import pytest

from adapter_bert_tf import AdapterConfig, Tuning, UserError
from adapter_bert_tf.run.folder import RunFolder
from adapter_bert_tf.run.settings import ClassifierSettings


def _identity(**changes) -> dict:
    return ClassifierSettings(output_dir="run", task="CoLA", **changes).identity()


@pytest.fixture
def folder(tmp_path) -> RunFolder:
    return RunFolder(str(tmp_path / "run"))


def test_a_new_folder_belongs_to_nobody(folder):
    folder.refuse_other(_identity())
    assert (folder.asked(), folder.history(), folder.results()) == ({}, [], {})


def test_the_same_settings_are_the_same_run(folder):
    identity = _identity(adapter=AdapterConfig(layers=(0, 1)))
    folder.claim(identity)
    folder.refuse_other(identity)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"seed": 1}, "belongs to a run with seed=0, not 1; give another folder"),
        ({"adapter": AdapterConfig(size=8)}, "belongs to a run with adapter.size=64, not 8"),
        ({"adapter": None}, "belongs to a run with adapter=.*, not None"),
        (
            {"adapter": None, "tuning": Tuning("full")},
            "belongs to a run with learning_rate=0.0003, not 5e-05|tuning.method=adapters",
        ),
        ({"learning_rate": 1.0}, "belongs to a run with learning_rate=0.0003, not 1.0"),
    ],
)
def test_another_value_is_another_run(folder, changes, told):
    folder.claim(_identity())
    with pytest.raises(UserError, match=told) as error:
        folder.refuse_other(_identity(**changes))
    assert "\n" not in str(error.value)


def test_settings_that_only_one_version_knows_lock_nobody_out(folder):
    older = _identity()
    # Settings that came later, and one that is gone; in the settings of the adapters too.
    del older["skip_unlabelled"], older["adapter"]["multiplicative"]
    older["temperature"], older["adapter"]["gate"] = 3, True
    folder.claim(older)
    folder.refuse_other(_identity())
    with pytest.raises(UserError, match="adapter.size=64, not 8"):
        folder.refuse_other(_identity(adapter=AdapterConfig(size=8)))


def test_results_are_written_as_json_and_as_the_original_does(folder):
    folder.write_results({"metrics": {"f1": 0.5, "accuracy": 0.25}, "steps": 3})
    assert folder.results() == {"metrics": {"f1": 0.5, "accuracy": 0.25}, "steps": 3}
    with open(folder.file("eval_results.txt")) as file:
        assert file.read() == "accuracy = 0.25\nf1 = 0.5\n"


def test_history_is_written_whole(folder):
    epochs = [{"train": {"loss": 0.1}, "dev": {"accuracy": 0.5}}]
    folder.write_history(epochs)
    assert folder.history() == epochs
    with open(folder.file("history.json")) as file:
        assert json.load(file) == {"epochs": epochs}


def test_other_workers_write_beside_but_resume_from_the_first_ones_checkpoints(tmp_path):
    first, second = RunFolder(str(tmp_path)), RunFolder(str(tmp_path), worker=1)
    second.write("a.txt", "x")
    assert not (tmp_path / "a.txt").exists()
    assert second.saved_checkpoints == first.checkpoints != second.checkpoints


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="Not a directory"):
        RunFolder(str(tmp_path / "file" / "run")).write("a.txt", "x")


def test_a_damaged_file_is_told(folder):
    folder.write("settings.json", "{")
    with pytest.raises(UserError, match="settings.json: not JSON"):
        folder.refuse_other(_identity())
