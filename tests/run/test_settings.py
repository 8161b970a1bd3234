import dataclasses
import json
import pathlib

import pytest

from adapter_bert_tf import AdapterConfig, Tuning, UserError
from adapter_bert_tf.run.settings import ClassifierSettings, SquadSettings, make_settings


def _make(**values) -> ClassifierSettings:
    return make_settings(ClassifierSettings, {"output_dir": "run", "task": "CoLA", **values})


def test_values_go_to_the_class_that_has_them():
    settings = _make(
        adapter_size=8, layer_norms=False, deterministic=True, seed=3, output_dir=pathlib.Path("a")
    )
    assert settings.adapter == AdapterConfig(size=8)
    assert settings.tuning == Tuning(layer_norms=False)
    assert settings.devices.deterministic
    assert (settings.seed, settings.output_dir) == (3, "a")
    assert _make(tuning="full").adapter is None
    with pytest.raises(UserError, match="unknown settings: adapter_width, learn_rate"):
        _make(adapter_width=3, learn_rate=1)


def test_the_learning_rate_follows_the_method():
    assert _make().rate == 3e-4
    assert _make(tuning="full").rate == 5e-5
    assert _make(tuning="full", learning_rate=1e-3).rate == 1e-3


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"task": None}, "expected either --task, or files of your own"),
        ({"train_file": "a.csv"}, "expected either --task, or files of your own"),
        ({"train_batch_size": 0}, "--train_batch_size=0: expected a whole number from 1"),
        ({"learning_rate": float("nan")}, "--learning_rate=nan: expected a number above 0"),
        ({"num_train_epochs": float("inf")}, "--num_train_epochs=inf: expected"),
        ({"early_stopping": 0}, "--early_stopping=0: expected a whole number from 1"),
        ({"seed": -1}, "--seed=-1: expected a whole number from 0 to 2,147,483,647"),
        ({"max_seq_length": 3}, "--max_seq_length=3: expected a whole number from 4"),
        ({"warmup_proportion": 1.0}, "--warmup_proportion=1.0: expected a number from 0 below 1"),
        ({"tuning": "lora"}, "--tuning=lora: expected one of adapters, full"),
        ({"kind": "poem"}, "--kind=poem: expected one of .*classification"),
        ({"kind": "regression", "regression": False}, "--kind=regression: --regression says"),
        ({"name": "mine"}, "--name=mine: is for files of your own, not for --task"),
        ({"task": None, "train_file": "a.csv", "data_dir": "a"}, "--data_dir=a: is for --task"),
        ({"early_stopping": 2, "do_eval": False}, "--early_stopping=2: needs --do_eval"),
        ({"metric": "f1", "do_eval": False, "do_train": True}, "--metric=f1: needs --do_eval"),
        ({"adapter_size": 8, "tuning": "full"}, "--adapter_size: --tuning=full has no adapters"),
    ],
)
def test_wrong_values_are_told(changes, told):
    with pytest.raises(UserError, match=told):
        _make(**changes)


def test_below_its_adapters_a_task_leaves_the_base_alone():
    assert _make(adapter_layers=(2, 1)).tuning.from_layer == 1
    assert _make(adapter_layers=(2, 1), from_layer=0).tuning.from_layer == 0
    assert _make().tuning.from_layer == 0


def test_regression_is_a_kind():
    assert _make(regression=True).kind == "regression"
    assert _make(regression=False).kind == "classification"
    assert _make(kind="regression", regression=True).kind == "regression"
    assert _make().kind is None


def _values(kind) -> dict:
    """A value for each option that is not its default."""
    found = {}
    for field in dataclasses.fields(kind):
        if "help" in field.metadata and field.default is not None:
            change = {bool: not field.default, str: f"{field.default}x"}
            found[field.name] = change.get(type(field.default)) or field.default + 1
    found["warmup_proportion"] = 0.5
    return found


@pytest.mark.parametrize("kind", [ClassifierSettings, SquadSettings])
def test_a_run_is_another_if_anything_that_changes_what_is_trained_differs(kind):
    required = {"output_dir": "run"} | ({"task": "CoLA"} if kind is ClassifierSettings else {})
    before = kind(**required)
    assert json.loads(json.dumps(before.identity())) == before.identity()
    marked = {field.name: field.metadata.get("result") for field in dataclasses.fields(kind)}
    for name, value in _values(kind).items():
        other = kind(**{**required, name: value})
        assert (other.identity() != before.identity()) == (not marked[name]), name
    for more in (
        {"adapter": AdapterConfig(size=8)},
        {"tuning": Tuning("adapters", from_layer=1)},
        {"learning_rate": 1.0},
    ):
        assert kind(**required, **more).identity() != before.identity()
    # A rate that is given, and the same one by default.
    assert kind(**required, learning_rate=3e-4).identity() == before.identity()
