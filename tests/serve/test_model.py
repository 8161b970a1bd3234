"""Tasks that are served answer as their own models do."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from adapter_bert_tf.adapterhub.exchange import import_adapterhub
from adapter_bert_tf.base.load import find_base, load_encoder
from adapter_bert_tf.encoder.adapter import AdapterConfig
from adapter_bert_tf.encoder.variables import is_adapter
from adapter_bert_tf.heads.classification import ClassificationHead
from adapter_bert_tf.serve.export import export_packs
from adapter_bert_tf.task import Task, load_task
from adapter_bert_tf.tuning.methods import Tuning
from adapter_bert_tf.tuning.task_model import TaskModel
from tests.adapterhub import hub
from tests.serve.tasks import PAIRS, TEXTS, ask, expected, load, make_pack, serve

# The tiny BERT takes 32 tokens.
LENGTH = 24


# A value for each field of the design that is not the default.
VALUES = {
    "size": 5,
    "activation": "sigmoid",
    "init_scale": 0.5,
    "sites": ("attention",),
    "layers": (1,),
    "parallel": True,
    "layer_norm": True,
    "hidden_layers": 3,
    "multiplicative": True,
    "design": "pfeiffer",
    "scaling": 2.5,
    "epsilon": 0.5,
}
# What a field needs beside it to matter.
NEEDS = {"epsilon": {"layer_norm": True}}


@pytest.mark.parametrize(
    "field",
    [
        pytest.param(field.name, marks=[] if field.name == "parallel" else [pytest.mark.slow])
        for field in dataclasses.fields(AdapterConfig)
    ],
)
def test_every_field_of_the_design_is_trained_packed_and_served(field, bert, tmp_path):
    assert field in VALUES, f"AdapterConfig has a new field: give {field} a value here"
    given = {"size": 4, "init_scale": 0.1, **NEEDS.get(field, {})}
    adapter = AdapterConfig(**{**given, field: VALUES[field]})
    assert getattr(adapter, field) != getattr(AdapterConfig(), field)
    model = TaskModel(load_encoder(bert, adapter), ClassificationHead(3))
    before = {path: variable.numpy() for path, variable in model.variables_by_path().items()}
    task = Task(model, name="a", labels="xyz", inputs={"max_seq_length": LENGTH})
    inputs = task.inputs(TEXTS)
    model.compile(tf_keras.optimizers.Adam(0.05), model.head.loss, run_eagerly=True)
    model.fit(inputs, np.arange(len(TEXTS)) % 3, batch_size=2, epochs=2, verbose=0)
    trained = model.tuning.trained(before)
    assert any(is_adapter(path) for path in trained)
    for path, variable in model.variables_by_path().items():
        assert (path in trained) == (variable.numpy() != before[path]).any(), path

    task.save(tmp_path / "pack")
    wanted = tf.nn.softmax(model(inputs)).numpy()
    reloaded = load_task(tmp_path / "pack", bert)
    assert reloaded.model.encoder.adapter == adapter
    answers = reloaded.answers(TEXTS)["probabilities"]
    np.testing.assert_allclose(answers, wanted, atol=1e-5)
    version = export_packs(find_base(bert), [str(tmp_path / "pack")], str(tmp_path / "model"))
    served = ask(load(version)["serving_default"], text=TEXTS)["probabilities"]
    np.testing.assert_allclose(served, wanted, atol=1e-5)

    # The answers are those of this value: with the default, the same variables give others.
    default = TaskModel(load_encoder(bert, AdapterConfig(**given)), ClassificationHead(3))
    others, values = default.variables_by_path(), model.variables_by_path()
    if {path: each.shape for path, each in others.items()} == {
        path: each.shape for path, each in values.items()
    }:
        for path, variable in others.items():
            variable.assign(values[path])
        is_start = field == "init_scale"
        assert (np.abs(tf.nn.softmax(default(inputs)) - wanted).max() < 1e-4) == is_start


@pytest.mark.parametrize("layers", [None, (1,)])
def test_parallel_designs_with_every_option_are_served(layers, bert, tmp_path):
    design = {"layer_norm": True, "hidden_layers": 2, "multiplicative": True, "layers": layers}
    adapter = AdapterConfig(size=5, parallel=True, **design)
    pack = make_pack(bert, tmp_path / "pack", "a", adapter, max_seq_length=LENGTH)
    answers = ask(serve(bert, [pack])["serving_default"], text=TEXTS)
    np.testing.assert_allclose(answers["probabilities"], expected(bert, pack), atol=1e-5)


@pytest.mark.parametrize(
    "tuning", [Tuning("full"), Tuning("top_k", k=2), Tuning("layer_norm"), Tuning("head")], ids=str
)
def test_every_tuning_method_is_served(bert, tmp_path, tuning):
    pack = make_pack(
        bert, tmp_path / "pack", "a", adapter=None, tuning=tuning, max_seq_length=LENGTH
    )
    answers = ask(serve(bert, [pack])["serving_default"], text=TEXTS)
    np.testing.assert_allclose(answers["probabilities"], expected(bert, pack), atol=1e-5)


@pytest.mark.parametrize(
    "design",
    [
        {},
        pytest.param({"activation": "sigmoid"}, marks=pytest.mark.slow),
        pytest.param({"multiplicative": True}, marks=pytest.mark.slow),
    ],
)
def test_tasks_of_different_sizes_layers_and_sites_are_served_together(bert, tmp_path, design):
    packs = [
        make_pack(bert, tmp_path / "a", "a", AdapterConfig(3, **design), max_seq_length=8),
        make_pack(
            bert,
            tmp_path / "b",
            "b",
            AdapterConfig(7, layers=(0, 2), sites=("feed_forward",), **design),
            classes=4,
            seed=1,
            max_seq_length=LENGTH,
            pair=True,
        ),
        make_pack(
            bert,
            tmp_path / "c",
            "c",
            adapter=None,
            classes=None,
            tuning=Tuning("head"),
            seed=2,
            max_seq_length=12,
            pair=True,
        ),
        make_pack(
            bert,
            tmp_path / "d",
            "d",
            AdapterConfig(2, layers=(1,), **design),
            classes=3,
            tuning=Tuning(layer_norms=False),
            seed=3,
            max_seq_length=LENGTH,
        ),
    ]
    rows = [(task, i) for task in range(4) for i in range(len(TEXTS))]
    np.random.default_rng(0).shuffle(rows)
    answers = ask(
        serve(bert, packs)["serving_default"],
        task=["abcd"[task] for task, _ in rows],
        text=[TEXTS[i] for _, i in rows],
        text_pair=[PAIRS[i] for _, i in rows],
    )
    wanted = [expected(bert, pack) for pack in packs]
    for row, (task, i) in enumerate(rows):
        if task == 2:
            assert answers["value"][row] == pytest.approx(wanted[2][i], abs=1e-5)
            assert not answers["probabilities"][row].any()
            assert answers["label"][row] == b""
            continue
        classes = wanted[task].shape[1]
        own, others = np.split(answers["probabilities"][row], [classes])
        np.testing.assert_allclose(own, wanted[task][i], atol=1e-5)
        assert not others.any()
        assert answers["value"][row] == 0
        assert answers["label"][row].decode() == f"{'abcd'[task]}-{own.argmax()}"
        assert answers["score"][row] == own.max()


@pytest.mark.slow
def test_tasks_of_different_designs_and_heads_are_served_together(bert, tmp_path):
    folder = hub.write(
        tmp_path / "hub",
        hub.config("relu", **hub.SEQUENTIAL, ln_before=True, leave_out=[1]),
        head=hub.head_config("relu", activation_function="relu"),
    )
    packs = {
        "houlsby": AdapterConfig(3),
        "pfeiffer": AdapterConfig(5, design="pfeiffer", activation="tanh"),
        "both": AdapterConfig(4, design="pfeiffer", sites=("attention", "feed_forward")),
        "parallel": AdapterConfig(7, design="parallel", activation="relu"),
    }
    for number, (name, adapter) in enumerate(packs.items()):
        make_pack(bert, tmp_path / name, name, adapter, seed=number, max_seq_length=LENGTH)
    import_adapterhub(folder, bert=bert, output_dir=tmp_path / "relu", max_seq_length=LENGTH)
    make_pack(
        bert,
        tmp_path / "value",
        "value",
        adapter=None,
        classes=None,
        max_seq_length=LENGTH,
        tuning=Tuning("head"),
    )
    names = [*packs, "relu", "value"]
    folders = [str(tmp_path / name) for name in names]
    signature = serve(bert, folders)["serving_default"]
    wanted = {name: expected(bert, each) for name, each in zip(names, folders, strict=True)}
    rows = [(name, i) for name in names for i in range(len(TEXTS))]
    np.random.default_rng(0).shuffle(rows)
    rows = [(str(name), int(i)) for name, i in rows]
    request = {"task": [name for name, _ in rows], "text": [TEXTS[i] for _, i in rows]}
    answers = ask(signature, **request)
    for row, (name, i) in enumerate(rows):
        if name == "value":
            assert answers["value"][row] == pytest.approx(wanted[name][i], abs=1e-5)
            continue
        classes = wanted[name].shape[1]
        found = answers["probabilities"][row, :classes]
        np.testing.assert_allclose(found, wanted[name][i], atol=1e-5, err_msg=name)
    # A row of each design alone.
    for name in packs | {"relu": None}:
        alone = ask(signature, task=[name], text=TEXTS[2:3])["probabilities"][0]
        classes = wanted[name].shape[1]
        np.testing.assert_allclose(alone[:classes], wanted[name][2], atol=1e-5, err_msg=name)


@pytest.mark.parametrize("parallel", [False, True])
def test_sites_that_no_task_has_in_a_layer_add_nothing(bert, tmp_path, parallel):
    designs = [
        {"layers": (0,), "sites": ("attention",)},
        {"layers": (1,), "sites": ("feed_forward",)},
    ]
    packs = [
        make_pack(
            bert,
            tmp_path / name,
            name,
            AdapterConfig(3, parallel=parallel, **design),
            seed=i,
            max_seq_length=LENGTH,
        )
        for i, (name, design) in enumerate(zip("ab", designs, strict=True))
    ]
    signature = serve(bert, packs)["serving_default"]
    for name, pack in zip("ab", packs, strict=True):
        answers = ask(signature, text=TEXTS, task=[name] * len(TEXTS))
        np.testing.assert_allclose(answers["probabilities"], expected(bert, pack), atol=1e-5)


def test_a_row_is_answered_the_same_alone_and_in_any_batch(bert, tmp_path):
    packs = [
        make_pack(bert, tmp_path / name, name, seed=i, max_seq_length=LENGTH)
        for i, name in enumerate("abc")
    ]
    signature = serve(bert, packs)["serving_default"]
    random = np.random.default_rng(0)
    texts = [
        " ".join(f"w{word}" for word in random.integers(40, size=length))
        for length in random.integers(0, 40, size=50)
    ]
    tasks = random.choice(list("abc"), size=50).tolist()
    whole = ask(signature, text=texts, task=tasks)["probabilities"]
    for i in range(0, 50, 5):
        alone = ask(signature, text=texts[i : i + 1], task=tasks[i : i + 1])["probabilities"]
        np.testing.assert_allclose(alone[0], whole[i], atol=1e-6)


def test_tokens_are_answered_as_their_text(bert, tmp_path):
    pack = make_pack(bert, tmp_path / "a", "a", max_seq_length=LENGTH)
    signatures = serve(bert, [pack])
    by_text = ask(signatures["serving_default"], text=["w1 w2", "w3 w4 w5 w6"])
    ids = [[2, 5, 6, 3, 0, 0], [2, 7, 8, 9, 10, 3]]
    mask = [[1, 1, 1, 1, 0, 0], [1] * 6]
    by_tokens = ask(
        signatures["tokens"], input_word_ids=ids, input_mask=mask, input_type_ids=np.zeros_like(ids)
    )
    for name, value in by_text.items():
        np.testing.assert_array_equal(by_tokens[name], value)


def test_a_service_of_values_alone_answers_values(bert, tmp_path):
    pack = make_pack(bert, tmp_path / "a", "a", classes=None, max_seq_length=LENGTH)
    signatures = serve(bert, [pack])
    answers = ask(signatures["serving_default"], text=TEXTS)
    assert list(answers) == ["value", "error"]
    np.testing.assert_allclose(answers["value"], expected(bert, pack), atol=1e-5)
    listed = signatures["tasks"](request=tf.constant([""]))
    assert listed["labels"].dtype == tf.string
    assert listed["task"].numpy().tolist() == [[b"a"]]
