"""Texts are computed once up to the layer at which tasks begin to differ."""

import numpy as np
import pytest
import tensorflow as tf

from adapter_bert_tf.base.load import find_base, load_encoder
from adapter_bert_tf.encoder.adapter import AdapterConfig
from adapter_bert_tf.encoder.variables import is_layer_norm, layer_of
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.pack.model import load_pack
from adapter_bert_tf.pack.pack import read_pack, read_tensors, write_pack
from adapter_bert_tf.serve.description import read_description
from adapter_bert_tf.serve.export import add_packs, export_packs, read_export
from adapter_bert_tf.serve.forks import Forks
from adapter_bert_tf.serve.model import ServedModel
from adapter_bert_tf.serve.requests import Requests
from adapter_bert_tf.serve.rows import Texts
from adapter_bert_tf.serve.service import read_service
from adapter_bert_tf.serve.signatures import TextAnswers, make_signatures
from adapter_bert_tf.task import Task
from adapter_bert_tf.tuning.methods import Tuning
from tests import tiny
from tests.serve.tasks import PAIRS, TEXTS, ask, expected, load, make_pack

# The layer from which each task is its own. "heads" differ only behind the last layer.
FROM = {"whole": 0, "upper": 1, "pair": 1, "top": 2, "heads": 3}


@pytest.fixture(scope="module")
def packs(bert, tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("packs")
    found = {}
    for seed, (name, layer) in enumerate(FROM.items()):
        adapter = AdapterConfig(3, layers=range(layer, tiny.LAYERS)) if name != "heads" else None
        tuning = Tuning(from_layer=layer) if adapter else Tuning("head")
        found[name] = make_pack(
            bert,
            folder / name,
            name,
            adapter,
            classes=None if name == "top" else 2 + seed,
            tuning=tuning,
            seed=seed,
            max_seq_length=24,
            pair=name == "pair",
        )
    return found


@pytest.fixture(scope="module")
def service(bert, packs):
    return read_service(find_base(bert), list(packs.values()))


@pytest.fixture(scope="module")
def model(service) -> ServedModel:
    return ServedModel(service)


@pytest.fixture(scope="module")
def signatures(service, model) -> dict:
    return make_signatures(service, model)


def test_tasks_part_where_their_first_layer_is(service):
    # Point 0 is the LayerNorm of the embeddings.
    assert service.first_points() == [0, 2, 2, 3, 4]


def test_a_task_stands_for_others_until_they_part():
    assert Forks([0, 3, 3, 2]).stand_ins == {0: [0, 1, 1, 1], 2: [0, 1, 1, 3], 3: [0, 1, 2, 3]}
    assert Forks([2]).stand_ins == {0: [0]}
    assert Forks([0, 0]).stand_ins == Forks([0, 4]).stand_ins == {0: [0, 1]}


def test_values_decide_and_not_what_was_trained(bert, packs, tmp_path):
    """LayerNorms like the base's, and adapters that add nothing, don't count."""
    base = read_service(find_base(bert), [packs["heads"]]).values
    described = read_pack(packs["whole"])
    tensors = read_tensors(packs["whole"], described)
    for path in tensors:
        if path in base and ("layer_0" in path or "embeddings" in path):
            tensors[path] = base[path]
        if "layer_0" in path and "/up/" in path:
            tensors[path] = np.zeros_like(tensors[path])
    write_pack(tmp_path / "pack", described, tensors)
    assert read_service(find_base(bert), [str(tmp_path / "pack")]).first_points() == [2]


@pytest.mark.slow
def test_dropped_layers_are_those_of_the_base(bert, packs, tmp_path):
    """In the export, in what is added to it, and in what is read from it."""
    version = export_packs(find_base(bert), [packs["whole"], packs["top"]], tmp_path / "m", 2)
    assert [task.pack.adapter.layers for task in read_export(version)[1]] == [(2,), (2,)]
    added = add_packs(version, [packs["upper"]], 1)
    assert [task.pack.adapter.layers for task in read_export(added)[1]] == [(2,), (2,), (1, 2)]

    model = load_pack(load_encoder(bert, read_pack(packs["whole"]).adapter), packs["whole"])
    variables = model.variables_by_path()
    for path, value in model.encoder.base.read():
        if is_layer_norm(path) and (layer_of(path) or 0) < 2:
            variables[path].assign(value)
    for path in variables:
        if "/up/" in path and (layer_of(path) or 0) < 2:
            variables[path].assign(tf.zeros_like(variables[path]))
    inputs = Task(model, name="whole", labels="ab", inputs={"max_seq_length": 24}).inputs(TEXTS)
    found = ask(load(added)["serving_default"], text=TEXTS, task=["whole"] * len(TEXTS))
    wanted = tf.nn.softmax(model(inputs))
    np.testing.assert_allclose(found["probabilities"][:, :2], wanted, atol=1e-5)
    upper = ask(load(added)["serving_default"], text=TEXTS, task=["upper"] * len(TEXTS))
    np.testing.assert_allclose(upper["probabilities"], expected(bert, packs["upper"]), atol=1e-5)


def test_what_is_dropped_is_told(bert, packs, tmp_path):
    """Metrics in packs are of the task with all its layers."""
    folders = [packs["whole"], packs["top"]]
    version = export_packs(find_base(bert), folders, tmp_path / "m", 1)
    # "top" has nothing in layer 0.
    assert [task.dropped_layers for task in read_export(version)[1]] == [1, 0]
    told = "without its adapters in the lowest layer; metrics are of all layers"
    lines = list(read_description(version).lines())
    assert [text.endswith(told) for name, text in lines if name == "task"] == [True, False]
    assert ("warning", "not tuned with --adapter_drop for so many layers: whole") in lines
    rows = (tmp_path / "m" / "1" / "README.md").read_text().splitlines()
    (row,) = (row for row in rows if told in row)
    assert row.startswith("| whole |")


def test_layers_that_can_not_be_dropped_are_told(bert, packs, tmp_path):
    with pytest.raises(UserError, match="--drop_layers=4: expected 0 to 3"):
        read_service(find_base(bert), [packs["top"]], drop_layers=4)
    full = make_pack(bert, tmp_path / "full", "full", None, tuning=Tuning("full"))
    with pytest.raises(UserError, match="--drop_layers=1: full changes the base itself"):
        read_service(find_base(bert), [full], drop_layers=1)


def _check(answers: dict, bert: str, packs: dict[str, str], rows: list[tuple[str, int]]) -> None:
    wanted = {name: expected(bert, pack) for name, pack in packs.items()}
    for row, (name, text) in enumerate(rows):
        value = wanted[name][text]
        assert answers["error"][row] == b""
        if name == "top":
            assert answers["value"][row] == pytest.approx(value, abs=1e-5)
        else:
            found = answers["probabilities"][row]
            np.testing.assert_allclose(found[: len(value)], value, atol=1e-5)
            assert not found[len(value) :].any()
            assert answers["label"][row].decode() == f"{name}-{value.argmax()}"


def test_rows_on_the_same_texts_are_answered_as_by_the_tasks_alone(bert, packs, signatures):
    rows = [(name, i) for name in packs for i in range(len(TEXTS))] * 2
    np.random.default_rng(0).shuffle(rows)
    rows = [(str(name), int(i)) for name, i in rows]
    request = {
        "task": [name for name, _ in rows],
        "text": [TEXTS[i] for _, i in rows],
        "text_pair": [PAIRS[i] for _, i in rows],
    }
    _check(ask(signatures["serving_default"], **request), bert, packs, rows)


def test_all_answers_for_every_text_and_task(bert, packs, signatures):
    answers = ask(signatures["all"], text=TEXTS, text_pair=PAIRS)
    assert answers["task"].tolist() == [[name.encode() for name in packs]] * len(TEXTS)
    rows = [(name, i) for i in range(len(TEXTS)) for name in packs]
    flat = {name: values.reshape(-1, *values.shape[2:]) for name, values in answers.items()}
    _check(flat, bert, packs, rows)


def _ask_some(signatures, tasks: list[str], texts: list[str]) -> dict[str, np.ndarray]:
    strings = {"tasks": tasks, "text": texts, "text_pair": ["w1"] * len(texts)}
    found = signatures["some"](**{n: tf.constant(v) for n, v in strings.items()})
    return {name: values.numpy() for name, values in found.items()}


def test_some_answers_for_the_tasks_that_a_row_names(packs, signatures):
    everything = ask(signatures["all"], text=TEXTS[:3], text_pair=["w1"] * 3)
    found = _ask_some(signatures, ["top, whole", "", "heads,wohle"], TEXTS[:3])
    last = {name: values[:, -1] for name, values in found.items()}
    found = {name: values[:, :-1] for name, values in found.items()}
    names = np.array([name.encode() for name in packs], object)
    asked = np.stack([np.isin(names, [b"top", b"whole"]), names != b"", names == b"heads"])
    assert found["task"].tolist() == np.where(asked, names, b"").tolist()
    assert found["label"][asked].tolist() == everything["label"][asked].tolist()
    for name in ("score", "probabilities", "value"):
        np.testing.assert_allclose(found[name][asked], everything[name][asked], atol=1e-6)
    for name in ("label", "score", "probabilities", "value"):
        assert not found[name][~asked].any()
        assert not last[name].any()
    assert not found["error"].any()
    told = b"unknown task 'wohle'; known are heads, pair, top, upper, whole"
    assert last["error"].tolist() == [b"", b"", told]


@pytest.mark.parametrize(
    ("most", "sizes"), [(64, [20]), (12, [10, 10]), (5, [5] * 4), (3, [3] * 6 + [2])]
)
def test_all_tasks_on_texts_are_computed_a_few_rows_at_a_time(
    service, model, monkeypatch, most, sizes
):
    """Five tasks on four texts, those of a text together if there is room."""
    requests, answers = Requests(service, range(len(FROM))), TextAnswers(service, model)
    texts = {"text": tf.constant(TEXTS), "text_pair": tf.constant(PAIRS)}
    asked, names, _ = requests.read_texts_for_all(texts)
    wanted, computed, of_rows = answers(asked), [], model.of_rows

    def count(lineup, *arguments, **more):
        computed.append(len(lineup.row_of))
        return of_rows(lineup, *arguments, **more)

    monkeypatch.setattr(model, "of_rows", count)
    monkeypatch.setattr("adapter_bert_tf.serve.signatures.MOST_ROWS", most)
    found = answers.in_parts(asked, names.shape[1])
    assert computed == sizes
    for name, values in wanted.items():
        if values.dtype == tf.string:
            assert found[name].numpy().tolist() == values.numpy().tolist()
        else:
            np.testing.assert_allclose(found[name], values, atol=1e-6)


def _tokens_by_layer(model: ServedModel, tasks: list[int], texts: list[int]) -> list[int]:
    """How many tokens each layer computes, for two texts of 5 and 3 tokens."""
    token = tf.zeros([8], tf.int32)
    computed: list[int] = []
    blocks = model.encoder.transformer_layers
    calls = [block.call for block in blocks]
    try:
        for block, call in zip(blocks, calls, strict=True):

            def count(inputs, output_range=None, call=call):
                outputs = call(inputs, output_range)
                computed.append(outputs.shape[1])
                return outputs

            block.call = count
        lengths = tf.constant([5, 3])
        model.encoder.encode(
            Texts(token, token, tf.range(8), lengths), tf.constant(tasks), tf.constant(texts)
        )
    finally:
        for block, call in zip(blocks, calls, strict=True):
            block.call = call
    return computed


def test_a_layer_computes_a_text_once_for_all_tasks_that_leave_it_alone(model):
    # "upper" and "pair" part in layer 1, "top" in layer 2, "heads" behind it.
    assert _tokens_by_layer(model, [1, 2, 3, 4], [0, 0, 0, 0]) == [5, 15, 20]
    assert _tokens_by_layer(model, [3, 4], [0, 0]) == [5, 5, 10]
    assert _tokens_by_layer(model, [0, 4], [0, 0]) == [10, 10, 10]
    assert _tokens_by_layer(model, [1, 1, 2, 2], [0, 1, 0, 1]) == [8, 16, 16]
