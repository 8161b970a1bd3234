import json
import os

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


def test_other_workers_read_what_the_first_one_wrote(tmp_path):
    first, second = RunFolder(str(tmp_path)), RunFolder(str(tmp_path), worker=1)
    first.write_results({"metrics": {"accuracy": 1.0}})
    second.write_results({"metrics": {"accuracy": 0.0}})
    assert second.results() == first.results() == {"metrics": {"accuracy": 1.0}}


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="Not a directory"):
        RunFolder(str(tmp_path / "file" / "run")).write("a.txt", "x")


def test_a_damaged_file_is_told(folder):
    folder.write("settings.json", "{")
    with pytest.raises(UserError, match="settings.json: not JSON"):
        folder.refuse_other(_identity())


def test_a_run_belongs_to_one_process_at_a_time(tmp_path):
    path = str(tmp_path / "run")
    with RunFolder(path) as folder:
        folder.claim({"seed": 0})
        with (
            pytest.raises(UserError, match=f"--output_dir={path}: another process is at work"),
            RunFolder(path),
        ):
            pass
        # Who only looks may do so, and so may the other workers of the run.
        assert RunFolder(path).asked() == {"seed": 0}
        with RunFolder(path, worker=1) as other:
            assert other.asked() == {"seed": 0}
    with RunFolder(path):
        pass


def test_of_two_that_start_together_the_second_is_refused(tmp_path):
    path = str(tmp_path / "run")
    with RunFolder(path) as first, RunFolder(path) as second:
        first.claim({})
        with pytest.raises(UserError, match="another process is at work"):
            second.claim({})


def test_a_run_that_has_not_begun_leaves_no_folder(tmp_path):
    with RunFolder(str(tmp_path / "run")):
        pass
    assert not (tmp_path / "run").exists()


def test_leftovers_are_removed_at_the_start(folder):
    folder.claim({})
    os.makedirs(folder.pack)
    for name in (".history.json.abcd1234.part", "pack/.pack.json.abcd1234.part"):
        with open(folder.file(name), "w") as file:
            file.write("half")
    with folder:
        assert os.listdir(folder.pack) == []
        assert sorted(os.listdir(folder.path)) == ["pack", "settings.json"]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("history.json", "{", "not JSON"),
        ("history.json", '{"epochs": 3}', "epochs: expected a list"),
        ("history.json", '{"epochs": [{"train": {}}]}', r"epochs\[0\]: expected a field 'dev'"),
        ("history.json", '{"epochs": [{"train": {}, "dev": {"f1": "x"}}]}', ".*f1: expected a num"),
        ("history.json", '{"epochs": [{"train": {"f1": 1%s}, "dev": {}}]}' % ("0" * 400), ".*f1"),
        ("eval_results.json", "[]", "expected a JSON object"),
        ("eval_results.json", '{"steps": 3}', "expected a field 'metrics'"),
        ("eval_results.json", '{"metrics": {}, "steps": "3"}', "steps: expected a whole number"),
        ("eval_results.json", '{"metrics": {}, "steps": true}', "steps: expected a whole number"),
        ("eval_results.json", '{"metrics": {}, "epochs": null}', "epochs: expected a list"),
        ("eval_results.json", '{"metrics": {}, "seconds": "x"}', "seconds: expected a number"),
        ("eval_results.json", '{"metrics": {}, "seconds": 1%s}' % ("0" * 400), "seconds: expected"),
        ("eval_results.json", '{"metrics": {}, "task": ["a"]}', "task: expected a text"),
        ("eval_results.json", '{"metrics": {}, "settings": []}', "settings: expected an object"),
        ("settings.json", '{"digests": []}', "digests: expected an object"),
    ],
)
def test_damaged_files_are_told_in_a_line(folder, name, content, told):
    folder.write(name, content)
    with pytest.raises(UserError, match=f"{name}: {told}") as error:
        folder.history(), folder.results(), folder.asked()
    assert "\n" not in str(error.value)


def test_a_metric_may_be_no_number(folder):
    """A correlation of equal values is NaN."""
    folder.write_history([{"train": {}, "dev": {"pearson": float("nan")}}])
    folder.write_results({"metrics": {"pearson": float("nan"), "mse": 1}})
    assert list(folder.history()[0]["dev"]) == ["pearson"]
    assert folder.results()["metrics"]["mse"] == 1
