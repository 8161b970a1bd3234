import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from adapter_bert_tf import (
    AdapterConfig,
    ClassificationHead,
    MultiLabelHead,
    RegressionHead,
    SpanHead,
    TaskModel,
    Tuning,
    UserError,
    create_optimizer,
    export,
    export_adapterhub,
    import_adapterhub,
    load_encoder,
    load_pack,
    load_task,
    read_pack,
    save_pack,
    tune,
)
from adapter_bert_tf.adapterhub.files import read_files
from adapter_bert_tf.encoder.activations import ACTIVATIONS
from adapter_bert_tf.encoder.variables import is_adapter
from adapter_bert_tf.pack.pack import read_tensors
from tests import tiny
from tests.adapterhub import hub

INPUTS = tiny.inputs()
MASK = INPUTS["input_mask"][:, :, None]
FILES = ["README.md", "adapter.safetensors", "adapter_config.json"]
HEAD_FILES = ["head_config.json", "model_head.safetensors"]


def _load(bert, pack) -> TaskModel:
    return load_pack(load_encoder(bert, read_pack(pack).adapter), pack)


# From AdapterHub to packs.

EXACT = {
    "double": hub.DOUBLE,
    "sequential": hub.SEQUENTIAL,
    "parallel": hub.PARALLEL,
    "sequential at both sites": {**hub.SEQUENTIAL, "mh_adapter": True, "non_linearity": "gelu_10"},
    "parallel at both sites": {**hub.PARALLEL, "mh_adapter": True, "non_linearity": "relu6"},
    "at the attention": {"output_adapter": False, "non_linearity": "tanh"},
    "some layers": {**hub.SEQUENTIAL, "leave_out": [1], "non_linearity": "gelu_new"},
    "no layer": {"leave_out": [0, 1, 2]},
    "sizes by layer": {"reduction_factor": {"0": 2, "1": 8, "default": 4}},
    "sizes by layer behind a LayerNorm": {
        **hub.SEQUENTIAL,
        "reduction_factor": {"0": 2, "1": 8, "2": 16},
        "ln_before": True,
        "non_linearity": "sigmoid",
    },
    "wider than BERT": {"reduction_factor": 0.5, "non_linearity": "linear"},
    "a fixed scaling": {"scaling": 2.5, "non_linearity": "leakyrelu"},
    "a learned scaling": {**hub.PARALLEL, "scaling": "learned", "non_linearity": "quick_gelu"},
    "a scaling by channel": {**hub.SEQUENTIAL, "scaling": "channel", "non_linearity": "mish"},
    "a LayerNorm": {"ln_before": True, "non_linearity": "laplace"},
    "a LayerNorm in parallel": {**hub.PARALLEL, "ln_before": True, "non_linearity": "relu2"},
    "Compacter": hub.PHM,
    "Compacter++": {**hub.SEQUENTIAL, **hub.PHM, "phm_dim": 2, "phm_rank": 3},
}
HEADS = [
    {},
    {"use_pooler": True, "layers": 1},
    {"layers": 3, "activation_function": "relu"},
    {"activation_function": None},
    {"bias": False},
    {"use_pooler": True, "activation_function": "gelu"},
]


@pytest.mark.parametrize("name", EXACT)
def test_a_pack_computes_what_the_files_mean(name, bert, tmp_path):
    whole = hub.config(**EXACT[name])
    head = hub.head_config(**HEADS[list(EXACT).index(name) % len(HEADS)])
    tensors, of_head = hub.tensors(whole, seed=3), hub.head_tensors(head)
    folder = hub.write(tmp_path / "adapter", whole, tensors, head, of_head)
    import_adapterhub(folder, bert=bert, output_dir=tmp_path / "pack")
    model = _load(bert, tmp_path / "pack")
    expected = hub.hidden_states(whole, tensors, INPUTS)
    found = model.encoder(INPUTS)["sequence_output"]
    np.testing.assert_allclose(found * MASK, expected * MASK, atol=1e-5)
    np.testing.assert_allclose(model(INPUTS), hub.logits(head, of_head, expected), atol=1e-5)
    assert model.tuning == Tuning("adapters", layer_norms=False)


def test_every_activation_is_among_them():
    names = {fields.get("non_linearity", "swish") for fields in EXACT.values()}
    assert names == set(hub.ACTIVATIONS)
    assert len(hub.ACTIVATIONS) == len(ACTIVATIONS)


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("fields", [hub.DOUBLE, hub.SEQUENTIAL, hub.PARALLEL], ids=str)
def test_files_come_back_bit_for_bit(fields, norm, bert, tmp_path):
    # Of names that mean the same, the export takes one.
    whole = hub.config(**{**fields, "non_linearity": "tanh"}, ln_before=norm, leave_out=[1])
    head = hub.head_config(label2id={"z": 0, "b": 1, "a": 2}, activation_function="relu")
    folder = hub.write(tmp_path / "adapter", whole, head=head)
    import_adapterhub(folder, bert=bert, output_dir=tmp_path / "pack")
    export_adapterhub(tmp_path / "pack", output_dir=tmp_path / "again")
    assert sorted(os.listdir(tmp_path / "again")) == sorted([*FILES, *HEAD_FILES])
    config, tensors, head_config, head_tensors = hub.read(tmp_path / "again")
    assert config["config"].items() <= whole["config"].items()
    assert head_config["config"] == head["config"]
    for found, given in ((config, whole), (head_config, head)):
        assert found.keys() == given.keys()
        same = found.keys() - {"config", "model_name"}
        assert {name: found[name] for name in same} == {name: given[name] for name in same}
    for found, given in (
        (tensors, hub.tensors(whole)),
        (head_tensors, hub.head_tensors(head)),
    ):
        assert found.keys() == given.keys()
        for name, tensor in given.items():
            np.testing.assert_array_equal(found[name], tensor, err_msg=name)


def test_a_base_of_another_size_is_told(bert, tmp_path):
    folder = hub.write(tmp_path / "wide", hub.config(), hub.tensors(hub.config(), width=24))
    with pytest.raises(UserError, match=rf"^{folder}: .* is \[24, 4\], the base wants \[16, 4\]$"):
        import_adapterhub(folder, bert=bert, output_dir=tmp_path / "pack")
    # For a BERT of four layers, and of two.
    less = {k: v for k, v in hub.tensors(hub.config()).items() if "layer.2." not in k}
    more = hub.tensors(hub.config())
    more |= {k.replace("layer.2.", "layer.3."): v for k, v in more.items() if "layer.2." in k}
    for tensors, told in (
        (less, "missing tensors: encoder.layer.2"),
        (more, "known of: .*layer.3"),
    ):
        folder = hub.write(tmp_path / "deep", hub.config(), tensors)
        with pytest.raises(UserError, match=f"^{folder}: .*{told}"):
            import_adapterhub(folder, bert=bert, output_dir=tmp_path / "pack")
    assert not (tmp_path / "pack").exists()


# Packs without a head.


@pytest.fixture
def headless(bert, tmp_path) -> pathlib.Path:
    head = hub.head_config()
    folder = hub.write(tmp_path / "adapter", hub.config(**hub.SEQUENTIAL), head=head)
    pack = tmp_path / "headless"
    import_adapterhub(folder, bert=bert, output_dir=pack, with_head=False)
    return pack


def test_a_pack_without_a_head_answers_nothing(headless, bert, tmp_path):
    described = read_pack(headless)
    assert (described.kind, described.labels) == ("none", [])
    assert all(map(is_adapter, described.variables))
    told = f"^{headless}: has no head; tune one on it with --pack={headless}$"
    with pytest.raises(UserError, match=told):
        load_task(headless, bert)
    with pytest.raises(UserError, match=told):
        export([headless], tmp_path / "model", bert=bert)
    assert not (tmp_path / "model").exists()
    # Its encoder can be used.
    model = _load(bert, headless)
    expected = hub.hidden_states(
        hub.config(**hub.SEQUENTIAL), hub.tensors(hub.config(**hub.SEQUENTIAL)), INPUTS
    )
    found = model.encoder(INPUTS)
    np.testing.assert_allclose(found["sequence_output"] * MASK, expected * MASK, atol=1e-5)
    np.testing.assert_allclose(model(INPUTS), found["pooled_output"], atol=1e-5)


def test_a_pack_without_a_head_keeps_that_of_a_model(headless, bert):
    encoder = load_encoder(bert, read_pack(headless).adapter)
    model = TaskModel(encoder, ClassificationHead(5))
    kernel = model.head.output_layer.kernel.numpy()
    assert load_pack(model, headless) is model
    assert model(INPUTS).shape == [4, 5]
    np.testing.assert_array_equal(model.head.output_layer.kernel, kernel)


@pytest.mark.slow
def test_a_pack_without_a_head_is_trained_under_another(headless, bert, tmp_path):
    encoder = load_encoder(bert, read_pack(headless).adapter)
    model = load_pack(TaskModel(encoder, ClassificationHead(3, 0.0)), headless)
    assert model.tuning == Tuning("adapters", layer_norms=False)
    before = {path: each.numpy() for path, each in model.variables_by_path().items()}
    labels = np.array([0, 1, 2, 1])
    loss = np.mean(model.head.loss(labels, model(INPUTS)))
    model.compile(create_optimizer(0.02, 40, 0), model.head.loss, run_eagerly=True)
    for _ in range(30):
        model.train_on_batch(INPUTS, labels)
    assert np.mean(model.head.loss(labels, model(INPUTS))) < loss / 2
    for path, variable in model.variables_by_path().items():
        is_trained = is_adapter(path) or path.startswith("head/")
        assert (variable.numpy() != before[path]).any() == is_trained, path
    save_pack(model, tmp_path / "pack", task="tuned", labels=["x", "y", "z"])
    np.testing.assert_array_equal(_load(bert, tmp_path / "pack")(INPUTS), model(INPUTS))
    # It can go back to AdapterHub, now with a head.
    export_adapterhub(tmp_path / "pack", output_dir=tmp_path / "hub")
    config, tensors, head_config, _ = hub.read(tmp_path / "hub")
    assert (config["name"], head_config["config"]["num_labels"]) == ("tuned", 3)
    assert tensors.keys() == hub.tensors(hub.config("tuned", **hub.SEQUENTIAL)).keys()


@pytest.mark.slow
def test_a_pack_without_a_head_gets_one_by_tuning(headless, bert, tmp_path, monkeypatch):
    compiled = TaskModel.compile
    monkeypatch.setattr(  # Quicker than tracing, for a few steps.
        TaskModel, "compile", lambda self, **kwargs: compiled(self, run_eagerly=True, **kwargs)
    )
    rows = [(f"w{i % 7} w{20 + 20 * (i % 2)}", "no" if i % 2 else "yes") for i in range(40)]
    settings = {"bert": bert, "pack": str(headless), "cache_dir": tmp_path / "cache"}
    settings |= {"max_seq_length": 8, "train_batch_size": 20, "num_train_epochs": 1}
    task = tune(rows, rows, output_dir=tmp_path / "run", learning_rate=0.01, **settings)
    assert task.labels == ("no", "yes")
    assert task.model.encoder.adapter == read_pack(headless).adapter
    assert task.model.tuning == Tuning("adapters", layer_norms=False)
    # It went on from the pack's adapters, and changed all of them.
    pack = tmp_path / "run" / "pack"
    start, end = (read_tensors(each, read_pack(each)) for each in (headless, pack))
    for path, values in start.items():
        assert 0 < np.abs(end.pop(path) - values).max() < 0.1, path
    assert end.keys() == {"head/output/kernel", "head/output/bias"}
    assert load_task(pack, bert).predict(["w1"]) == task.predict(["w1"])
    # Without training there is nothing that could answer.
    with pytest.raises(UserError, match="has no head; tune one on it"):
        tune(None, rows, output_dir=tmp_path / "other", do_eval=True, **settings)


# From packs to AdapterHub.


def _pack(
    bert, folder, adapter, head=None, tuning=Tuning(layer_norms=False), scale=0.3, **more
) -> TaskModel:
    """Saves a pack in which everything that is tuned is random."""
    model = TaskModel(load_encoder(bert, adapter), head or ClassificationHead(3), tuning)
    random = np.random.default_rng(0)
    trained = tuning.trained(model.variables_by_path())
    for path, variable in model.variables_by_path().items():
        if path in trained:
            variable.assign_add(random.normal(size=variable.shape, scale=scale))
    save_pack(model, folder, **{"task": "mine", **more})
    return model


PACKS = {
    "houlsby": (AdapterConfig(4), None),
    "pfeiffer": (AdapterConfig(5, design="pfeiffer", activation="relu"), RegressionHead()),
    "parallel": (
        AdapterConfig(7, design="parallel", activation="gelu_erf"),
        MultiLabelHead(4, pooler=False, hidden_layers=1, activation="relu"),
    ),
    "the original's parallel": (AdapterConfig(3, parallel=True), SpanHead()),
    "some layers and sites": (
        AdapterConfig(33, layers=(0, 2), sites=("attention",), design="pfeiffer", scaling=0.5),
        ClassificationHead(2, pooler=False),
    ),
    "a LayerNorm": (
        AdapterConfig(4, layer_norm=True, epsilon=1e-5, activation="swish"),
        ClassificationHead(3, hidden_layers=2, activation="gelu"),
    ),
}


@pytest.mark.parametrize("name", PACKS)
def test_packs_come_back_bit_for_bit(name, bert, tmp_path):
    adapter, head = PACKS[name]
    model = _pack(bert, tmp_path / "pack", adapter, head)
    export_adapterhub(tmp_path / "pack", output_dir=tmp_path / "hub")
    assert sorted(os.listdir(tmp_path / "hub")) == sorted([*FILES, *HEAD_FILES])
    import_adapterhub(tmp_path / "hub", bert=bert, output_dir=tmp_path / "again")
    again = _load(bert, tmp_path / "again")
    assert again.encoder.adapter.differences(adapter, tiny.LAYERS) == []
    assert (again.head.kind, again.head.settings()) == (model.head.kind, model.head.settings())
    np.testing.assert_array_equal(again(INPUTS), model(INPUTS))
    before, after = (
        {path: variable.numpy() for path, variable in each.variables_by_path().items()}
        for each in (model, again)
    )
    assert after.keys() == before.keys()
    for path, value in before.items():
        np.testing.assert_array_equal(after[path], value, err_msg=path)


def test_what_is_exported_is_what_the_library_writes(bert, tmp_path):
    _pack(bert, tmp_path / "pack", AdapterConfig(4, design="pfeiffer"), labels=["z", "b", "a"])
    export_adapterhub(tmp_path / "pack", output_dir=tmp_path / "hub", name="other")
    config, tensors, head_config, head_tensors = hub.read(tmp_path / "hub")
    assert config["config"].keys() <= hub.FIELDS.keys()
    assert config.keys() == hub.config().keys()
    assert config["name"] == head_config["name"] == "other"
    assert config["hidden_size"] == tiny.WIDTH
    assert config["model_name"] == read_pack(tmp_path / "pack").base["origin"]
    assert head_config["config"] == {
        "activation_function": "tanh",
        "bias": True,
        "dropout_prob": None,
        "head_type": "classification",
        "label2id": {"z": 0, "b": 1, "a": 2},
        "layers": 1,
        "num_labels": 3,
        "use_pooler": True,
    }
    whole = hub.config("other", **hub.SEQUENTIAL)
    assert tensors.keys() == hub.tensors(whole).keys()
    assert {name: each.shape for name, each in head_tensors.items()} == {
        "heads.other.1.weight": (3, 16),
        "heads.other.1.bias": (3,),
    }
    # PyTorch's reader wants to know that it is its own format.
    for file in ("adapter", "model_head"):
        assert b'{"format":"pt"}' in (tmp_path / "hub" / f"{file}.safetensors").read_bytes()
    text = (tmp_path / "hub" / "adapter_config.json").read_text()
    assert text == json.dumps(config, indent=2, sort_keys=True)


def test_a_pack_without_a_head_is_exported_without_one(headless, tmp_path):
    export_adapterhub(headless, output_dir=tmp_path / "hub")
    assert sorted(os.listdir(tmp_path / "hub")) == FILES


@pytest.mark.parametrize(
    ("adapter", "tuning", "told"),
    [
        (
            AdapterConfig(4),
            Tuning(),
            "has trained LayerNorms, which AdapterHub's adapters can't hold; tune one with "
            "--tuning=adapters --layer_norms=false",
        ),
        (None, Tuning("head"), r"has no adapters \(head\), so there are none to export"),
        (None, Tuning("full"), r"has no adapters \(full\), so there are none to export"),
        (AdapterConfig(4, multiplicative=True), Tuning(layer_norms=False), "multiplicative=True: "),
        (AdapterConfig(4, hidden_layers=2), Tuning(layer_norms=False), "hidden_layers=2: "),
        (AdapterConfig(4, layer_norm=True), Tuning(layer_norms=False), "layer_norm=True: "),
    ],
    ids=str,
)
def test_packs_that_adapterhub_can_not_hold_are_refused(bert, tmp_path, adapter, tuning, told):
    _pack(bert, tmp_path / "pack", adapter, tuning=tuning)
    with pytest.raises(UserError, match=f"^{tmp_path}/pack: .*{told}"):
        export_adapterhub(tmp_path / "pack", output_dir=tmp_path / "hub")
    assert os.listdir(tmp_path) == ["pack"]


def test_a_pack_that_changes_the_base_is_refused(bert, tmp_path):
    model = _pack(bert, tmp_path / "pack", AdapterConfig(4))
    model.variables_by_path()["pooler_transform/bias"].assign_add(tf.ones([16]))
    save_pack(model, tmp_path / "pack")
    with pytest.raises(UserError, match="pack: changes the base: pooler_transform/bias$"):
        export_adapterhub(tmp_path / "pack", output_dir=tmp_path / "hub")


@pytest.fixture(scope="module")
def exportable(bert, tmp_path_factory) -> pathlib.Path:
    pack = tmp_path_factory.mktemp("exportable") / "pack"
    _pack(bert, pack, AdapterConfig(4), task=None)
    return pack


@pytest.mark.parametrize(
    "name",
    [
        *("a.b", ".", "..", "_a", "__init__", "keys", "train", "to", "forward", "T_destination"),
        *("register_buffer", "register_forward_hook", "smart_apply", "a\nb", "\x1b"),
    ],
    ids=ascii,
)
def test_names_that_pytorch_refuses_are_told(exportable, tmp_path, name):
    with pytest.raises(UserError) as error:
        export_adapterhub(exportable, output_dir=tmp_path / "hub", name=name)
    assert str(error.value).startswith(f"--name={name!r}: PyTorch does not take this name")
    assert str(error.value).isprintable()
    assert not (tmp_path / "hub").exists()


@pytest.mark.parametrize(
    ("task", "name"),
    [
        (None, "pack"),
        ("sst-2", "sst-2"),
        ("nli/rte@ukp", "nli_rte@ukp"),
        ("../../evil", "______evil"),
        ("v1.2", "v1_2"),
        ("train", "task_train"),
        ("_a", "task__a"),
        ("größe", "größe"),
    ],
)
def test_a_task_gives_its_name(bert, tmp_path, task, name):
    path = tmp_path / "pack"
    _pack(bert, path, AdapterConfig(1, layers=(0,), sites=("attention",)), task=task)
    export_adapterhub(path, output_dir=tmp_path / "hub")
    config, tensors, head_config, _ = hub.read(tmp_path / "hub")
    name = f"task_{name}" if name.startswith("_") else name
    assert config["name"] == head_config["name"] == name
    assert all(f".adapters.{name}." in each for each in tensors)


def test_nothing_is_overwritten(exportable, bert, tmp_path):
    (tmp_path / "hub").mkdir()
    (tmp_path / "hub" / "mine").touch()
    with pytest.raises(UserError, match="exists already, and is not overwritten"):
        export_adapterhub(exportable, output_dir=tmp_path / "hub")
    export_adapterhub(exportable, output_dir=tmp_path / "other")
    with pytest.raises(UserError, match="exists already, and is not overwritten"):
        import_adapterhub(tmp_path / "other", bert=bert, output_dir=tmp_path / "hub")
    assert os.listdir(tmp_path / "hub") == ["mine"]


def test_a_base_that_is_not_where_it_was_is_named(bert, tmp_path):
    moved = tiny.write_google_bert(tmp_path / "bert")
    _pack(moved, tmp_path / "pack", AdapterConfig(4))
    os.rename(moved, tmp_path / "moved")
    with pytest.raises(UserError, match="no such folder, checkpoint or preset"):
        export_adapterhub(tmp_path / "pack", output_dir=tmp_path / "hub")
    export_adapterhub(tmp_path / "pack", output_dir=tmp_path / "hub", bert=bert)
    assert (tmp_path / "hub" / "README.md").exists()


# Against PyTorch's library. `python -m pytest -s` shows the figures.

HERE = pathlib.Path(__file__).parent
_FIND_PEER = """
import sys
sys.path.insert(0, sys.argv[1])
import environments
print(environments.peer_python())
"""
_NO_INDEX = re.compile(
    "No matching distribution|Could not find a version|Connection|Network|Name or service|Proxy"
)


@pytest.fixture(scope="module")
def peer() -> str:
    """A Python with torch and adapters: that of PEER_PYTHON, or of `.venv-peer`, which is built."""
    command = [sys.executable, "-c", _FIND_PEER, str(HERE.parents[1] / "benchmarks")]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode and _NO_INDEX.search(done.stderr):
        pytest.skip(f"pip reaches no index: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[-1]


@pytest.fixture(scope="module")
def written(peer, tmp_path_factory) -> pathlib.Path:
    """What the library wrote."""
    folder = tmp_path_factory.mktemp("written")
    subprocess.run([peer, HERE / "peer_write.py", folder], check=True, capture_output=True)
    return folder


class _Case:
    """An adapter that the library wrote, and what it computed with it."""

    def __init__(self, folder: pathlib.Path):
        self.name = folder.name
        self.described = json.loads((folder / "case.json").read_text())
        self.base = str(folder.parents[1] / "bases" / self.described["base"])
        self.adapter = folder / "adapter"
        if self.name.startswith("zip_"):
            self.adapter = folder / "adapter.zip"
        if self.name == "hub_cache":
            self.adapter = next(folder.glob("models--*"))
        self.expected = dict(np.load(folder / "expected.npz"))


def _cases(written) -> list[_Case]:
    return [_Case(folder) for folder in sorted((written / "cases").iterdir())]


def _compute(model: TaskModel, arrays) -> dict[str, np.ndarray]:
    """Our outputs, by the library's names."""
    names = {"input_ids": "word_ids", "attention_mask": "mask", "token_type_ids": "type_ids"}
    inputs = {f"input_{ours}": arrays[theirs].astype(np.int32) for theirs, ours in names.items()}
    found = {"hidden": model.encoder(inputs)["sequence_output"].numpy()}
    if model.head.kind == "none":
        return found
    outputs = model(inputs).numpy()
    if model.head.kind == "span":
        return {**found, "start_logits": outputs[..., 0], "end_logits": outputs[..., 1]}
    return {**found, "logits": outputs.reshape(len(outputs), -1)}


def _differences(ours, theirs, mask) -> tuple[float, float]:
    """The largest difference in hidden states and in logits, where there are tokens."""
    found = {"hidden": 0.0, "logits": 0.0}
    assert ours.keys() == theirs.keys() & {"hidden", "logits", "start_logits", "end_logits"}
    for name, values in ours.items():
        kept = 1.0 if name == "logits" else mask if name != "hidden" else mask[:, :, None]
        with np.errstate(over="ignore", invalid="ignore"):
            difference = np.abs(np.where(kept, values - theirs[name], 0.0)).max()
        key = "hidden" if name == "hidden" else "logits"
        found[key] = max(found[key], float(difference))
    return found["hidden"], found["logits"]


def _read(peer, cases, folder) -> list[tuple[dict, list | None]]:
    """What the library computes with exported folders, and the labels that it finds."""
    arguments = []
    for number, (base, exported, arrays) in enumerate(cases):
        inputs, outputs = folder / f"inputs-{number}.npz", folder / f"outputs-{number}.npz"
        np.savez(inputs, **arrays)
        arguments += [base, exported, inputs, outputs]
    command = [peer, HERE / "peer_read.py", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    labels = [json.loads(line) for line in done.stdout.splitlines()]
    return [(dict(np.load(each)), own) for each, own in zip(arguments[3::4], labels, strict=True)]


def _is_same_tensors(case: _Case, exported: pathlib.Path) -> bool:
    """Compares tensors bit for bit where nothing was folded or padded; says whether it did."""
    files = read_files(str(case.adapter), with_head=True)
    again = read_files(str(exported), with_head=True)
    fields = case.described["config"]
    if isinstance(fields, dict) and (
        fields.get("phm_layer")
        or isinstance(fields["reduction_factor"], dict)
        or isinstance(fields.get("scaling"), str)
    ):
        return False

    def named_now(name: str) -> str:
        name = re.sub("(attention|layer)_text_(task|lang)_adapters", "adapters", name)
        return f"bert.{name.removeprefix('bert.')}"

    pairs = [({named_now(name): each for name, each in files.tensors.items()}, again.tensors)]
    head = files.head_config and files.head_config["config"]
    if head and head.get("activation_function") and head.get("bias", True):
        pairs.append((files.head_tensors, again.head_tensors))
    elif files.head_config and not head:
        stem = f"heads.{case.described['name']}.1"
        old = {re.sub(r"^\w+", stem, name): each for name, each in files.head_tensors.items()}
        pairs.append((old, again.head_tensors))
    for before, after in pairs:
        assert after.keys() == before.keys(), case.name
        for name, tensor in before.items():
            np.testing.assert_array_equal(after[name], tensor, err_msg=f"{case.name}: {name}")
    return True


@pytest.mark.slow
def test_what_the_library_writes_is_imported_and_comes_back(peer, written, tmp_path):
    exact, refused, worst, back = [], {}, {}, []
    for case in _cases(written):
        pack = tmp_path / "packs" / case.name
        if not case.described["exact"]:
            told = rf"^{re.escape(str(case.adapter))}: {case.described['field']}="
            with pytest.raises(UserError, match=told) as error:
                import_adapterhub(case.adapter, bert=case.base, output_dir=pack)
            refused[case.name] = str(error.value).removeprefix(f"{case.adapter}: ")
            continue
        import_adapterhub(case.adapter, bert=case.base, output_dir=pack)
        described = read_pack(pack)
        model = load_pack(load_encoder(case.base, described.adapter), pack)
        ours = _compute(model, case.expected)
        worst[case.name] = _differences(ours, case.expected, case.expected["attention_mask"])
        assert max(worst[case.name]) < 1e-5, case.name
        if described.kind in ("classification", "multi_label") and case.described["labels"]:
            assert described.labels == case.described["labels"]
        exported = tmp_path / "hub" / case.name
        export_adapterhub(pack, output_dir=exported, name=case.described["name"])
        exact.append((case, exported, ours, described))
        if _is_same_tensors(case, exported):
            back.append(case.name)
    runs = [(case.base, exported, case.expected) for case, exported, _, _ in exact]
    worst_back = {}
    for (theirs, labels), (case, _, ours, described) in zip(
        _read(peer, runs, tmp_path), exact, strict=True
    ):
        mask = case.expected["attention_mask"]
        worst_back[case.name] = _differences(ours, theirs, mask)
        assert max(worst_back[case.name]) < 1e-5, case.name
        if described.labels:
            assert labels == described.labels
    print(f"\n{len(exact)} exact; worst hidden, logits: {_worst(worst)}; exported: ", end="")
    print(f"{_worst(worst_back)}; bit for bit: {len(back)}; {len(refused)} refused:")
    for name, told in refused.items():
        print(f"  {name}: {told}")
    assert len(exact) >= 120
    assert len(refused) >= 24
    assert len(back) >= 90


def _worst(differences: dict[str, tuple[float, float]]) -> tuple[str, ...]:
    return tuple(f"{max(each):.1e}" for each in zip(*differences.values(), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("activation_gelu", {"non_linearity": "gelu_new"}),
        ("activation_gelu_new", {"non_linearity": "gelu"}),
        ("activation_gelu_10", {"non_linearity": "gelu"}),
        ("activation_leaky_relu", {"non_linearity": "relu"}),
        ("residual_after_ln", {"residual_before_ln": True}),
        ("no_original_ln_after", {"original_ln_after": True, "residual_before_ln": True}),
        ("no_original_ln_after_double", {"original_ln_after": True}),
    ],
)
def test_other_arithmetic_would_be_noticed(written, tmp_path, name, changes):
    """A field that is read as another one differs by far more than what is allowed above."""
    case = _Case(written / "cases" / name)
    files = read_files(str(case.adapter), with_head=False)
    whole = {**files.config, "config": {**files.config["config"], **changes}}
    folder = hub.write(tmp_path / "adapter", whole, files.tensors)
    import_adapterhub(folder, bert=case.base, output_dir=tmp_path / "pack")
    ours = _compute(_load(case.base, tmp_path / "pack"), case.expected)
    theirs = {"hidden": case.expected["hidden"]}
    assert _differences(ours, theirs, case.expected["attention_mask"])[0] > 1e-4


def _our_packs() -> dict[str, tuple[AdapterConfig, object, str]]:
    """Packs of every design, activation and head, and a base for each."""
    designs = ("houlsby", "pfeiffer", "parallel")
    heads = [
        lambda: ClassificationHead(3),
        lambda: ClassificationHead(4, pooler=False, hidden_layers=1, activation="leaky_relu"),
        lambda: MultiLabelHead(3, hidden_layers=2, activation="gelu"),
        RegressionHead,
        SpanHead,
    ]
    packs = {}
    for number, activation in enumerate(ACTIVATIONS):
        packs[f"{activation}"] = (
            AdapterConfig(number + 1, design=designs[number % 3], activation=activation),
            heads[number % len(heads)](),
            ("tiny", "odd", "wide")[number % 3],
        )
    sites = ("attention", "feed_forward")
    for design in designs:
        packs[f"{design} at both sites, in some layers"] = (
            AdapterConfig(5, design=design, sites=sites, layers=(0, 2, 4), scaling=0.7),
            ClassificationHead(2, pooler=False),
            "odd",
        )
        packs[f"{design} with a LayerNorm"] = (
            AdapterConfig(6, design=design, layer_norm=True, epsilon=1e-5),
            ClassificationHead(2, hidden_layers=1, activation="relu"),
            "odd",
        )
    packs["the original's parallel"] = (AdapterConfig(4, parallel=True), SpanHead(), "odd")
    return packs


@pytest.mark.slow
def test_the_library_computes_what_our_packs_do(peer, written, tmp_path):
    arrays = _Case(written / "cases" / "seq_bn").expected
    given, runs = [], []
    for name, (adapter, head, base) in _our_packs().items():
        bert = str(written / "bases" / base)
        labels = [f"label {i}" for i in range(head.settings().get("classes", 0))][::-1]
        folder = tmp_path / "packs" / name
        model = _pack(bert, folder, adapter, head, scale=0.15, task=name, labels=labels)
        exported = tmp_path / "hub" / name
        export_adapterhub(folder, output_dir=exported)
        given.append((name, _compute(model, arrays), labels))
        runs.append((bert, exported, arrays))
    worst = {}
    for (name, ours, labels), (theirs, found) in zip(
        given, _read(peer, runs, tmp_path), strict=True
    ):
        worst[name] = _differences(ours, theirs, arrays["attention_mask"])
        assert max(worst[name]) < 1e-5, name
        if labels:
            assert found == labels
    print(f"\n{len(worst)} of our packs; worst hidden, logits: {_worst(worst)}")
