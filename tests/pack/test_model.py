import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from adapter_bert_tf import (
    AdapterBertEncoder,
    AdapterConfig,
    ClassificationHead,
    RegressionHead,
    TaskModel,
    Tuning,
    UserError,
    create_optimizer,
    load_encoder,
    load_pack,
    read_pack,
    save_pack,
)
from adapter_bert_tf.encoder.variables import variables_by_path
from adapter_bert_tf.pack.model import share_encoder
from adapter_bert_tf.pack.pack import DESCRIPTION, write_pack
from tests import tiny

ADAPTER = AdapterConfig(size=4, init_scale=0.1)
LABELS = {3: np.array([0, 1, 2, 1]), 1: np.array([0.0, 1.0, -1.0, 2.0])}


def _tune(model: TaskModel, labels) -> None:
    model.compile(optimizer=create_optimizer(0.05, 4, 0), loss=model.head.loss, run_eagerly=True)
    for _ in range(3):
        model.train_on_batch(tiny.inputs(), labels)


def _answers(model) -> np.ndarray:
    return model(tiny.inputs()).numpy()


def _tuned(bert, head=None, tuning=Tuning(), adapter=ADAPTER) -> TaskModel:
    model = TaskModel(load_encoder(bert, adapter), head or ClassificationHead(3), tuning)
    _tune(model, LABELS[3] if isinstance(model.head, ClassificationHead) else LABELS[1])
    return model


@pytest.fixture(scope="module")
def tuned(bert) -> TaskModel:
    return _tuned(bert)


@pytest.fixture
def pack(tuned, tmp_path) -> pathlib.Path:
    folder = tmp_path / "pack"
    save_pack(
        tuned,
        folder,
        task="CoLA",
        labels=["a", "b", "c"],
        metrics={"matthews": 0.5},
        inputs={"max_seq_length": 16, "pair": False},
    )
    return folder


_IN_A_NEW_PROCESS = """
import sys
import numpy as np
from adapter_bert_tf import load_encoder, load_pack, read_pack
from tests import tiny
bert, pack, output = sys.argv[1:]
model = load_pack(load_encoder(bert, read_pack(pack).adapter), pack)
np.save(output, model(tiny.inputs()))
"""


def test_a_new_process_gives_the_same_bits(bert, tuned, pack, tmp_path):
    output = tmp_path / "answers.npy"
    subprocess.run([sys.executable, "-c", _IN_A_NEW_PROCESS, bert, pack, output], check=True)
    np.testing.assert_array_equal(np.load(output), _answers(tuned))


def test_describes_the_task(pack):
    described = read_pack(pack)
    assert (described.task, described.labels) == ("CoLA", ["a", "b", "c"])
    assert described.metrics == {"matthews": 0.5}
    assert described.inputs == {"max_seq_length": 16, "pair": False}
    assert described.adapter == ADAPTER
    assert described.vocabulary["size"] == tiny.WORDS
    assert described.vocabulary["lower_case"] is True


def test_a_pack_from_before_inputs_were_kept_is_read(pack):
    path = pack / "pack.json"
    raw = json.loads(path.read_text())
    del raw["inputs"]
    path.write_text(json.dumps(raw))
    assert read_pack(pack).inputs == {}


def test_holds_exactly_what_was_tuned_by_readable_path(tuned, pack):
    tensors = safetensors.numpy.load_file(pack / read_pack(pack).weights)
    assert tensors.keys() == tuned.tuning.trained(tuned.variables_by_path())
    assert "transformer/layer_0/attention_adapter/down/kernel" in tensors


@pytest.mark.parametrize(
    "tuning",
    [
        Tuning("full"),
        Tuning("top_k", k=2),
        Tuning("layer_norm"),
        Tuning("head"),
        Tuning("adapters", layer_norms=False),
        Tuning("adapters", from_layer=2),
    ],
    ids=str,
)
def test_every_method_makes_a_pack(bert, tmp_path, tuning):
    model = _tuned(bert, tuning=tuning)
    save_pack(model, tmp_path)
    again = load_pack(load_encoder(bert, ADAPTER), tmp_path)
    np.testing.assert_array_equal(_answers(again), _answers(model))
    assert again.tuning == tuning
    assert len(again.trainable_variables) == len(model.trainable_variables)


def test_packs_are_switched_on_one_encoder_in_any_order(bert, tmp_path):
    models = {
        "classes": _tuned(bert, ClassificationHead(3)),
        "number": _tuned(bert, RegressionHead()),
        "full": _tuned(bert, ClassificationHead(3), Tuning("full")),
        "head": _tuned(bert, ClassificationHead(3), Tuning("head")),
        "without_norms": _tuned(bert, ClassificationHead(3), Tuning(layer_norms=False)),
    }
    answers = {name: _answers(model) for name, model in models.items()}
    for name, model in models.items():
        save_pack(model, tmp_path / name)
    model = load_pack(load_encoder(bert, ADAPTER), tmp_path / "classes")
    for name in ("full", "head", "number", "without_norms", "classes", "full", "classes"):
        assert load_pack(model, tmp_path / name) is model
        np.testing.assert_array_equal(_answers(model), answers[name], err_msg=name)


def test_tuning_b_after_a_leaves_a_as_it_was(bert, tuned, pack, tmp_path):
    model = load_pack(load_encoder(bert, ADAPTER), pack)
    model.set_head(RegressionHead())
    model.set_tuning(Tuning())
    _tune(model, LABELS[1])
    save_pack(model, tmp_path / "b")
    of_b = _answers(model)
    np.testing.assert_array_equal(_answers(load_pack(model, pack)), _answers(tuned))
    np.testing.assert_array_equal(_answers(load_pack(model, tmp_path / "b")), of_b)


@pytest.mark.parametrize("first", [Tuning(), Tuning("full")], ids=str)
def test_what_earlier_tuning_left_is_in_the_pack(bert, tmp_path, first):
    model = _tuned(bert, tuning=first)
    model.set_tuning(Tuning(layer_norms=False))
    _tune(model, LABELS[3])
    save_pack(model, tmp_path)
    again = load_pack(load_encoder(bert, ADAPTER), tmp_path)
    np.testing.assert_array_equal(_answers(again), _answers(model))


def test_labels_fit_the_head(tuned, tmp_path):
    with pytest.raises(ValueError, match="2 labels for 3 classes"):
        save_pack(tuned, tmp_path, labels=["a", "b"])


def test_another_head_is_loaded_under_the_models_strategy(bert, pack, tuned, two_devices):
    with two_devices.scope():
        model = TaskModel(load_encoder(bert, ADAPTER), RegressionHead())
    np.testing.assert_array_equal(_answers(load_pack(model, pack)), _answers(tuned))


def test_predict_follows_the_switch(bert, pack, tmp_path):
    save_pack(_tuned(bert, RegressionHead()), tmp_path / "number")
    model = load_pack(load_encoder(bert, ADAPTER), pack)
    assert model.predict(tiny.inputs(), verbose=0).shape == (4, 3)
    load_pack(model, tmp_path / "number")
    assert model.predict(tiny.inputs(), verbose=0).shape == (4,)


def test_saving_again_replaces_the_pack(bert, pack):
    other = _tuned(bert, ClassificationHead(3), Tuning("head"))
    save_pack(other, pack)
    assert sorted(os.listdir(pack)) == [DESCRIPTION, read_pack(pack).weights]
    np.testing.assert_array_equal(
        _answers(load_pack(load_encoder(bert, ADAPTER), pack)), _answers(other)
    )


@pytest.fixture(scope="module")
def other(bert) -> TaskModel:
    """Another head, another tuning, other values than what is loaded onto it."""
    return _tuned(bert, RegressionHead(), Tuning("full"))


@contextlib.contextmanager
def _unchanged(model: TaskModel):
    def state():
        return (
            model.head,
            model.tuning,
            [id(variable) for variable in model.trainable_variables],
            {path: v.numpy().tobytes() for path, v in model.variables_by_path().items()},
        )

    before = state()
    yield
    assert state() == before


def _edit(pack, **changes):
    path = pack / DESCRIPTION
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def _edit_tensors(pack, edit):
    """Changes the tensors as someone would who also mends the digest."""
    path = pack / read_pack(pack).weights
    tensors = safetensors.numpy.load_file(path)
    edit(tensors)
    safetensors.numpy.save_file(tensors, path)
    _edit(pack, sha256=hashlib.sha256(path.read_bytes()).hexdigest())


def _head(**settings):
    return {"kind": "classification", "settings": settings}


def _truncate(pack):
    path = pack / read_pack(pack).weights
    os.truncate(path, path.stat().st_size - 10)


def _flip(pack):
    path = pack / read_pack(pack).weights
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (_truncate, "cut short or changed"),
        (_flip, "cut short or changed"),
        (
            lambda p: _edit_tensors(p, lambda t: t.pop("head/output/bias")),
            "missing tensors: head/output/bias",
        ),
        (
            lambda p: _edit_tensors(p, lambda t: t.update(more=np.zeros(3, np.float32))),
            "additional tensors: more",
        ),
        (
            lambda p: _edit_tensors(
                p, lambda t: t.update({"head/output/bias": np.zeros(4, np.float32)})
            ),
            r"head/output/bias is float32 \[4\], expected float32 \[3\]",
        ),
        (
            lambda p: _edit_tensors(p, lambda t: t.update({"head/output/bias": np.zeros(3)})),
            "float64",
        ),
        (lambda p: (p / read_pack(p).weights).unlink(), "No such file"),
        (lambda p: (p / DESCRIPTION).unlink(), "No such file"),
        (lambda p: (p / DESCRIPTION).write_text("{"), "not JSON"),
        (lambda p: _edit(p, format=2), "format 1"),
        (lambda p: _edit(p, extra=1), "extra: no such field is known"),
        (lambda p: _edit(p, head={"kind": "poet", "settings": {}}), "poet"),
        (lambda p: _edit(p, head=_head(classes=10**13)), "classes: expected a whole number"),
        (
            lambda p: _edit(p, head=_head(classes=3, dropout="x")),
            "dropout: expected a number",
        ),
        (lambda p: _edit(p, head=_head(classes=4)), "3 labels, but 4 classes"),
        (lambda p: _edit(p, head=_head(classes=4), labels=[]), r"head/output/\w+ is float32"),
        (lambda p: _edit(p, labels=["a", "b", "a"]), "labels: 'a' is there twice"),
        (lambda p: _edit(p, inputs={"doc_stride": -5}), "inputs.doc_stride: expected"),
        (
            lambda p: _edit_tensors(p, lambda t: t["head/output/bias"].fill(np.nan)),
            "not finite: head/output/bias",
        ),
        (lambda p: _edit(p, base=None), "base: expected an object"),
        (lambda p: _edit(p, weights=3), "weights: expected a text"),
        (lambda p: _edit(p, weights="a\0b"), "same folder"),
        (lambda p: _edit(p, variables=[]), "additional tensors"),
        (lambda p: _edit(p, tuning={"method": "full"}), "missing tensors"),
        (lambda p: _edit(p, tuning={"method": "magic"}), "magic"),
        (lambda p: _edit(p, tuning={"method": "top_k", "k": 9}), "k is beyond"),
        (lambda p: _edit(p, weights="../other.safetensors"), "same folder"),
        (lambda p: _edit(p, vocabulary={"size": 3}), "expected a field 'sha256'"),
    ],
)
def test_a_spoilt_pack_is_told_in_one_line_and_changes_nothing(other, pack, spoil, told):
    spoil(pack)
    with _unchanged(other), pytest.raises(UserError, match=told) as error:
        load_pack(other, pack)
    assert "\n" not in str(error.value)
    assert str(pack) in str(error.value)


def test_another_base_is_told(tuned, pack, tmp_path):
    other = _tuned(tiny.write_google_bert(tmp_path / "other", seed=9))
    with _unchanged(other), pytest.raises(UserError, match="tuned on another base"):
        load_pack(other, pack)


def test_a_base_that_differs_in_computation_only_is_another(pack, tmp_path):
    other = tiny.write_google_bert(tmp_path / "other", hidden_act="relu")
    with pytest.raises(UserError, match="tuned on another base"):
        load_pack(load_encoder(other, ADAPTER), pack)


@pytest.mark.parametrize(
    ("adapter", "told"),
    [
        (None, "with adapters, the encoder has none"),
        (AdapterConfig(size=8), "adapter size 4, the encoder has 8"),
        (AdapterConfig(size=4, layers=[0, 1]), "adapter layers"),
        (AdapterConfig(size=4, parallel=True), "adapter parallel"),
    ],
)
def test_other_adapters_are_told(bert, pack, adapter, told):
    with pytest.raises(UserError, match=told):
        load_pack(load_encoder(bert, adapter), pack)


def test_the_start_and_a_full_list_of_layers_make_no_other_adapters(bert, pack, tuned):
    adapter = AdapterConfig(size=4, init_scale=0.5, layers=range(tiny.LAYERS))
    model = load_pack(load_encoder(bert, adapter), pack)
    np.testing.assert_array_equal(_answers(model), _answers(tuned))


def test_a_base_that_changed_on_disk_is_not_mixed_in(tmp_path):
    folder = tiny.write_google_bert(tmp_path / "bert")
    head = _tuned(folder, tuning=Tuning("head"))
    save_pack(head, tmp_path / "head")
    model = _tuned(folder, tuning=Tuning("full"))
    shutil.rmtree(folder)
    tiny.write_google_bert(folder, seed=3)
    before = _answers(model)
    with pytest.raises(UserError, match="has changed since it was loaded"):
        load_pack(model, tmp_path / "head")
    np.testing.assert_array_equal(_answers(model), before)


def test_an_encoder_without_a_base_is_told(tmp_path):
    encoder = AdapterBertEncoder(vocab_size=10, hidden_size=16, num_layers=1, num_attention_heads=2)
    with pytest.raises(ValueError, match="load_encoder"):
        save_pack(TaskModel(encoder, ClassificationHead(2), Tuning("head")), tmp_path)


def test_size_for_bert_base(pack, tmp_path):
    # A graph of its own only describes the variables.
    with tf.Graph().as_default():
        encoder = AdapterBertEncoder(vocab_size=30522, type_vocab_size=2, adapter=AdapterConfig())
        variables = TaskModel(encoder, ClassificationHead(2)).variables_by_path()
    tuned = {
        path: np.zeros(variables[path].shape, np.float32) for path in Tuning().trained(variables)
    }
    write_pack(tmp_path / "base", read_pack(pack), tuned)
    assert sum(path.stat().st_size for path in (tmp_path / "base").iterdir()) < 9.8e6


def _sharing(encoder, pack) -> TaskModel:
    return load_pack(share_encoder(encoder, read_pack(pack), str(pack)), pack)


def test_an_encoder_shares_all_that_its_pack_does_not_bring(bert, tuned, pack, tmp_path):
    owner = load_encoder(bert, None)
    model = _sharing(owner, pack)
    np.testing.assert_array_equal(_answers(model), _answers(tuned))
    owned, variables = variables_by_path(owner), model.variables_by_path()
    brought = set(read_pack(pack).variables)
    assert brought & owned.keys()
    for path, variable in variables.items():
        assert (variable is owned.get(path)) == (path not in brought), path


@pytest.mark.parametrize("norms", [True, False])
def test_encoders_of_different_designs_share_a_base(bert, tmp_path, norms):
    """Adapters that read the LayerNorm behind them read that of their own task."""
    designs = {
        "pfeiffer": AdapterConfig(4, design="pfeiffer", init_scale=0.3),
        "other": AdapterConfig(3, design="pfeiffer", sites=("attention",), init_scale=0.3),
        "houlsby": ADAPTER,
    }
    expected = {}
    for name, adapter in designs.items():
        model = _tuned(bert, tuning=Tuning(layer_norms=norms), adapter=adapter)
        save_pack(model, tmp_path / name)
        expected[name] = _answers(model)
    for first in ("pfeiffer", "houlsby"):
        owner = load_pack(load_encoder(bert, designs[first]), tmp_path / first)
        sharers = {}
        if norms:
            # It was tuned itself, and what it changed can't be shared by those that don't.
            owner = TaskModel(load_encoder(bert, designs[first]), ClassificationHead(3))
        for name in designs:
            sharers[name] = _sharing(owner.encoder, tmp_path / name)
        # Loaded after one another, and again from one that shares itself.
        sharers["again"] = _sharing(sharers["pfeiffer"].encoder, tmp_path / "pfeiffer")
        for name in ("houlsby", "pfeiffer", "again", "other", "pfeiffer"):
            wanted = expected["pfeiffer" if name == "again" else name]
            np.testing.assert_array_equal(_answers(sharers[name]), wanted, err_msg=name)
        if not norms:
            np.testing.assert_array_equal(_answers(owner), expected[first])
    # Each goes on with its own training.
    before = _answers(sharers["other"])
    _tune(sharers["pfeiffer"], LABELS[3])
    assert np.abs(_answers(sharers["pfeiffer"]) - expected["pfeiffer"]).max() > 1e-3
    np.testing.assert_array_equal(_answers(sharers["other"]), before)


@pytest.mark.parametrize("who", ["owner", "sharer"])
def test_what_is_shared_is_neither_tuned_nor_replaced(bert, pack, tmp_path, who):
    save_pack(_tuned(bert, tuning=Tuning("full")), tmp_path / "full")
    owner = TaskModel(load_encoder(bert, ADAPTER), ClassificationHead(3))
    sharer = _sharing(owner.encoder, pack)
    model = {"owner": owner, "sharer": sharer}[who]
    with _unchanged(owner), _unchanged(sharer):
        with pytest.raises(ValueError, match="would train .* which other tasks share"):
            model.set_tuning(Tuning("full"))
        with pytest.raises(UserError, match="full: would change what other tasks share"):
            load_pack(model, tmp_path / "full")
    # What each has for itself can still be trained.
    before = _answers(owner if who == "sharer" else sharer)
    model.set_tuning(Tuning())
    _tune(model, LABELS[3])
    np.testing.assert_array_equal(_answers(owner if who == "sharer" else sharer), before)


def test_packs_of_another_base_do_not_share(pack, tmp_path):
    other = load_encoder(tiny.write_google_bert(tmp_path / "other", seed=9), None)
    with pytest.raises(UserError, match="tuned on another base"):
        _sharing(other, pack)
