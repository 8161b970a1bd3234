import numpy as np
import pytest

from adapter_bert_tf import MultiLabelHead, TaskModel, load_encoder, load_task, save_pack
from adapter_bert_tf.bulk.rows import Row
from adapter_bert_tf.bulk.scorer import Scorer, column_names
from adapter_bert_tf.pack.pack import read_pack
from adapter_bert_tf.serve.export import export
from tests.serve.tasks import make_pack

SHORT = {"max_seq_length": 24}
ROWS = [Row({}, "w1 w2", "w3"), Row({}, "", "w4 w5"), Row({}, "w6 " * 40, "")]


@pytest.fixture(scope="module")
def packs(bert, tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("packs")
    several = TaskModel(load_encoder(bert), MultiLabelHead(3))
    save_pack(several, folder / "labels", task="labels", labels=["a", "b", "c"], inputs=SHORT)
    return {
        "two": make_pack(bert, folder / "two", "two", classes=2, **SHORT),
        "five": make_pack(bert, folder / "five", "five", classes=5, pair=True, seed=1, **SHORT),
        "value": make_pack(bert, folder / "value", "value", classes=None, seed=2, **SHORT),
        "labels": str(folder / "labels"),
    }


@pytest.fixture(scope="module")
def version(bert, packs, tmp_path_factory) -> str:
    return export(list(packs.values()), str(tmp_path_factory.mktemp("models") / "bert"), bert=bert)


def _check(bert: str, version: str, name: str, folder: str) -> None:
    """Compares what the export says with what the pack says alone."""
    pack = read_pack(folder)
    found = Scorer(version, name, pack)(ROWS)
    task = load_task(folder, bert)
    pairs = [row.pair for row in ROWS] if pack.inputs.get("pair") else None
    wanted = task.head.table(task.answers([row.text for row in ROWS], pairs), task.labels)
    assert list(found) == list(wanted) == column_names(pack)
    for column, values in wanted.items():
        if isinstance(values[0], str):
            assert found[column] == values
        else:
            np.testing.assert_allclose(found[column], values, atol=1e-5)


def test_an_export_of_one_task_says_what_the_pack_says(bert, tmp_path):
    pack = make_pack(bert, tmp_path / "one", "one", classes=2, **SHORT)
    _check(bert, export([pack], str(tmp_path / "models"), bert=bert), "one", pack)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["two", "five", "value", "labels"])
def test_each_task_of_several_says_what_its_pack_says(bert, packs, version, name):
    _check(bert, version, name, packs[name])
