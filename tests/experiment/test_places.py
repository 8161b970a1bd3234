import pytest

from adapter_bert_tf import UserError
from adapter_bert_tf.experiment.places import Places
from adapter_bert_tf.experiment.table import SQUAD


@pytest.fixture
def data(tmp_path) -> str:
    for name in ("s", "glue/CoLA", "glue/SST-2", "glue/MNLI", "political", "squad"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("train-v1.1-prefix.json", "dev-v1.1.json"):
        (tmp_path / "squad" / name).touch()
    return str(tmp_path)


@pytest.mark.parametrize(
    ("task", "folder"),
    [
        *(("CoLA", "glue/CoLA"), ("SST-2", "glue/SST-2"), ("MNLI-mm", "glue/MNLI")),
        *(("political_bias", "political"), ("political_message", "political")),
    ],
)
def test_a_task_finds_its_folder(data, task, folder):
    assert Places("out", data).of_task(task)["data_dir"] == f"{data}/{folder}"
    assert Places("out", f"{data}/").of_task(task)["data_dir"] == f"{data}/{folder}"


def test_the_folder_of_a_task_is_taken_as_it_is(data):
    assert Places("out", f"{data}/glue/CoLA").of_task("CoLA")["data_dir"] == f"{data}/glue/CoLA"


@pytest.mark.parametrize("task", ["sms_spam", "STS-B", "MRPC"])
def test_a_task_does_not_take_another_folder(data, task):
    with pytest.raises(UserError, match=f"no folder for {task} in it"):
        Places("out", data).of_task(task)


def test_squad_is_found_by_its_files(data):
    found = Places("out", data).of_task(SQUAD)
    assert found["train_file"] == f"{data}/squad/train-v1.1-prefix.json"
    assert found["predict_file"] == f"{data}/squad/dev-v1.1.json"
    with pytest.raises(UserError, match="no train-v1.1"):
        Places("out", f"{data}/glue").of_task(SQUAD)
