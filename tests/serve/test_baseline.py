"""A baseline's SavedModel, beside a task pack's."""

import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf

import adapter_bert_tf as ab
from adapter_bert_tf import UserError
from adapter_bert_tf.baseline.space import Design
from adapter_bert_tf.run.baseline import run_baseline
from adapter_bert_tf.run.settings import ClassifierSettings, make_settings
from adapter_bert_tf.serve.description import read_description
from adapter_bert_tf.serve.export import add_packs
from tests.baseline import made
from tests.serve.tasks import ask, load, make_pack

TEXTS = ["word1 Word2! word3", "", "Word20! word21", "Größe"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("served")


def _tune(folder, name: str, **choices) -> str:
    files = {"train_file": made.write_csv(folder / "train.csv", 64, 0), "cache_dir": str(folder)}
    settings = make_settings(ClassifierSettings, {**files, "output_dir": str(folder / name)})
    assert run_baseline(settings, Design(deep_rate=0.1, **choices))
    return str(folder / name / "pack")


@pytest.fixture(scope="module", params=["first", "second", "bert"])
def pack(request, folder, bert) -> str:
    if request.param == "bert":
        return _tune(folder, "bert", module=f"bert:{bert}", hidden_layers=1)
    write = {"first": made.write_first_format, "second": made.write_second_format}[request.param]
    module = write(folder / f"module_{request.param}")
    return _tune(folder, request.param, module=module, fine_tune=True, convolution=True)


def test_an_export_answers_as_the_task_does(pack, tmp_path):
    version = ab.export(pack, str(tmp_path / "model"), trust_module=True)
    served = ask(load(version)["serving_default"], text=TEXTS)
    task = ab.load_task(pack, trust_module=True)
    answers = task.answers(TEXTS)
    np.testing.assert_allclose(served["probabilities"], answers["probabilities"], rtol=1e-4)
    assert served["label"].tolist() == answers["label"].tolist()
    listed = load(version)["tasks"](request=tf.constant([""]))
    assert listed["labels"].numpy().tolist() == [[[b"no", b"yes"]]]
    _check_what_it_says(version, task)


def _check_what_it_says(version: str, task) -> None:
    folder, name = os.path.split(task.design.module)
    card = pathlib.Path(version, "README.md").read_text()
    assert folder.removeprefix("bert:") not in card
    named = f"{'bert:' if folder.startswith('bert:') else ''}{name} (fingerprint "
    assert f"on the text module {named}" in card
    assert f'export["{task.name}"].predict(["A text to start with."])' in card
    lines = dict(read_description(version).lines())
    assert lines["module"].startswith(named)
    assert "base" not in lines
    loaded = ab.load_export(version)[task.name].predict(TEXTS)
    assert [each.label for each in loaded] == [each.label for each in task.predict(TEXTS)]


def test_a_baseline_has_no_layers_to_drop(folder, tmp_path):
    mine = _tune(folder, "layers", module=made.write_second_format(tmp_path / "module"))
    with pytest.raises(UserError, match="--drop_layers: .* is a baseline"):
        ab.export(mine, str(tmp_path / "model"), drop_layers=1)
    assert not (tmp_path / "model").exists()


def test_the_signature_is_that_of_a_task_pack(folder, bert, tmp_path):
    module = made.write_second_format(tmp_path / "module")
    mine = _tune(folder, "same", module=module)
    ours = ab.export(mine, str(tmp_path / "ours"), trust_module=True)
    theirs = ab.export(
        make_pack(bert, tmp_path / "pack", "task", max_seq_length=24),
        str(tmp_path / "theirs"),
        bert,
    )
    specs = []
    for version in (ours, theirs):
        function = load(version)["serving_default"]
        inputs = function.structured_input_signature[1]
        outputs = {name: spec.dtype for name, spec in function.structured_outputs.items()}
        specs.append(({name: (s.shape.as_list(), s.dtype) for name, s in inputs.items()}, outputs))
    assert specs[0] == specs[1]
    with pytest.raises(UserError, match="other tasks can't be added"):
        add_packs(ours, [str(tmp_path / "pack")])


def test_a_baseline_is_exported_alone(folder, bert, tmp_path):
    other = make_pack(bert, tmp_path / "pack", "task", max_seq_length=24)
    mine = _tune(folder, "alone", module=made.write_second_format(tmp_path / "module"))
    with pytest.raises(UserError, match="export it alone"):
        ab.export([other, mine], str(tmp_path / "model"))
    assert not (tmp_path / "model").exists()


def test_operations_that_servers_lack_are_refused(folder, tmp_path, monkeypatch):
    mine = _tune(folder, "odd", module=made.write_second_format(tmp_path / "module"))
    monkeypatch.setattr("adapter_bert_tf.serve.export._NEWER_OPS", {"StringToHashBucketFast"})
    with pytest.raises(UserError, match="StringToHashBucketFast"):
        ab.export(mine, str(tmp_path / "model"), trust_module=True)
    assert not tf.io.gfile.exists(str(tmp_path / "model" / "1"))
