"""Exports as TF Serving finds them."""

import json
import os
import pathlib
import shutil
import subprocess

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text as tf_text
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import prediction_log_pb2

from adapter_bert_tf.base.load import find_base
from adapter_bert_tf.encoder.adapter import AdapterConfig
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.serve.export import (
    add_packs,
    check_ops,
    export_packs,
    find_version,
    ops_of,
    read_export,
)
from adapter_bert_tf.tuning.methods import Tuning
from tests import tiny
from tests.serve.tasks import PAIRS, TEXTS, ask, expected, load, make_pack

LENGTH = 24
FOLDER = pathlib.Path(__file__).parent


@pytest.fixture(scope="module")
def packs(bert, tmp_path_factory) -> dict[str, str]:
    """Three tasks, of two designs, and a fourth that is larger in every way and of a third one."""
    folder = tmp_path_factory.mktemp("packs")
    designs = {
        "one": {"adapter": AdapterConfig(4)},
        "two": {"adapter": AdapterConfig(2, layers=(0, 1)), "classes": 3, "pair": True},
        "value": {
            "adapter": AdapterConfig(3, design="pfeiffer", activation="relu"),
            "classes": None,
            "pair": True,
        },
        "large": {"adapter": AdapterConfig(30, design="parallel"), "classes": 9},
    }
    return {
        name: make_pack(bert, folder / name, name, seed=i, max_seq_length=LENGTH, **design)
        for i, (name, design) in enumerate(designs.items())
    }


@pytest.fixture(scope="module")
def exported(bert, packs, tmp_path_factory) -> str:
    """A version with three tasks."""
    model = tmp_path_factory.mktemp("models") / "tiny"
    return export_packs(find_base(bert), [packs[name] for name in ("one", "two", "value")], model)


def _mixed(names: list[str], **more) -> dict:
    """A request with every text for every task, in a mixed order."""
    rows = [(name, i) for name in names for i in range(len(TEXTS))]
    np.random.default_rng(0).shuffle(rows)
    return {
        "task": [name for name, _ in rows],
        "text": [TEXTS[int(i)] for _, i in rows],
        "text_pair": [PAIRS[int(i)] for _, i in rows],
        **more,
    }


def test_what_is_loaded_answers_as_the_tasks_models(bert, packs, exported):
    request = _mixed(["one", "two", "value"])
    answers = ask(load(exported)["serving_default"], **request)
    wanted = {name: expected(bert, packs[name]) for name in ("one", "two", "value")}
    for row, (name, text) in enumerate(zip(request["task"], request["text"], strict=True)):
        value = wanted[name][TEXTS.index(text)]
        if name == "value":
            assert answers["value"][row] == pytest.approx(value, abs=1e-5)
        else:
            np.testing.assert_allclose(
                answers["probabilities"][row][: len(value)], value, atol=1e-5
            )


def test_adding_a_task_leaves_the_answers_of_three_as_they_were(packs, exported):
    request = _mixed(["one", "two", "value"])
    before = ask(load(exported)["serving_default"], **request)
    added = add_packs(exported, [packs["large"]])
    assert added == os.path.join(os.path.dirname(exported), "2")
    after = ask(load(added)["serving_default"], **request)
    assert after["probabilities"].shape[1] == 9
    _assert_same_bits(before, after)


@pytest.mark.slow
def test_adding_to_one_task_needs_neither_its_pack_nor_the_base(bert, packs, tmp_path):
    shutil.copytree(bert, tmp_path / "bert")
    shutil.copytree(packs["one"], tmp_path / "pack")
    first = export_packs(
        find_base(str(tmp_path / "bert")), [str(tmp_path / "pack")], tmp_path / "model"
    )
    before = ask(load(first)["serving_default"], text=TEXTS)
    shutil.rmtree(tmp_path / "bert")
    shutil.rmtree(tmp_path / "pack")
    second = add_packs(first, [packs["large"]])
    signature = load(second)["serving_default"]
    _assert_same_bits(before, ask(signature, text=TEXTS, task=["one"] * len(TEXTS)))
    large = ask(signature, text=TEXTS, task=["large"] * len(TEXTS))["probabilities"]
    np.testing.assert_allclose(large, expected(bert, packs["large"]), atol=1e-5)


def test_a_pack_of_an_older_version_is_added_to_an_export_of_it(tmp_path):
    """`before/` was written by commit 76e81d4, which gave adapters that are not there size 0.

    An export's graph is not read for adding to it, so an empty file stands for it. The answers are
    those of an export that the same commit made of all three packs.
    """
    version = tmp_path / "model" / "1"
    shutil.copytree(FOLDER / "before" / "export", version)
    (version / "saved_model.pb").touch()
    added = add_packs(str(version), [str(FOLDER / "before" / "pack")])
    old = json.loads((FOLDER / "before" / "answers.json").read_text())
    found = ask(load(added)["serving_default"], **old["request"])
    assert found.keys() == old["answers"].keys() | {"error"}
    assert not found["error"].any()
    for name, values in old["answers"].items():
        if name == "label":
            assert [label.decode() for label in found[name]] == values
        else:
            np.testing.assert_allclose(found[name], values, atol=1e-5)


def _assert_same_bits(before: dict, after: dict) -> None:
    for name, value in before.items():
        new = after[name][:, : value.shape[1]] if value.ndim > 1 else after[name]
        np.testing.assert_array_equal(new, value)
        if value.ndim > 1:
            assert not after[name][:, value.shape[1] :].any()


def test_variables_take_the_room_of_the_base_and_the_packs(bert, packs, exported):
    # Without the names of signatures and variables, which are kept there too.
    reader = tf.train.load_checkpoint(os.path.join(exported, "variables", "variables"))
    types = reader.get_variable_to_dtype_map()
    held = sum(
        types[name].size * int(np.prod(shape))
        for name, shape in reader.get_variable_to_shape_map().items()
        if types[name] != tf.string
    )
    base = sum(value.nbytes for value in tiny.google_tensors().values())
    brought = sum(
        os.path.getsize(path)
        for name in ("one", "two", "value")
        for path in pathlib.Path(packs[name]).glob("*.safetensors")
    )
    assert base < held < base + brought


def test_a_server_needs_no_xla(exported):
    model = saved_model_pb2.SavedModel()
    model.ParseFromString(pathlib.Path(exported, "saved_model.pb").read_bytes())
    functions = model.meta_graphs[0].graph_def.library.function
    assert functions
    assert not any(function.attr["_XlaMustCompile"].b for function in functions)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"format": 1}, "an export of format 1, not 3"),
        (
            {"values": {"paths": ["a"], "numbers": [[7]], "shapes": [[2]]}},
            "values: numbers: expected one of each of 1 shapes",
        ),
    ],
)
def test_a_damaged_description_is_told(packs, exported, tmp_path, change, told):
    version = tmp_path / "model" / "1"
    shutil.copytree(exported, version)
    description = version / "assets.extra" / "adapter_bert_tf.json"
    description.write_text(json.dumps(json.loads(description.read_text()) | change))
    with pytest.raises(UserError, match=told):
        add_packs(str(version), [packs["large"]])
    assert os.listdir(tmp_path / "model") == ["1"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda raw: raw["config"].update(num_layers=2), "does not fit num_layers; left over"),
        (lambda raw: raw["config"].update(vocab_size=60), "vocab_size 50 instead of 60"),
        (lambda raw: raw["config"].update(norm_epsilon=0.1), "tuned on another base"),
        (lambda raw: raw["base"].pop(), "does not fit the encoder; missing"),
        (lambda raw: raw["base"].insert(0, raw["base"].pop(1)), "tuned on another base|of another"),
        (lambda raw: raw.update(tokens=raw["tokens"][:10]), "tuned with another vocabulary"),
    ],
)
def test_a_description_of_another_base_is_told(exported, tmp_path, change, told):
    version = tmp_path / "model" / "1"
    shutil.copytree(exported, version)
    path = version / "assets.extra" / "adapter_bert_tf.json"
    raw = json.loads(path.read_text())
    change(raw)
    path.write_text(json.dumps(raw))
    with pytest.raises(UserError, match=told):
        read_export(str(version))


def test_tasks_are_listed_with_their_labels(exported):
    answers = load(exported)["tasks"](request=tf.constant(["", ""]))
    assert answers["task"].numpy().tolist() == [[b"one", b"two", b"value"]] * 2
    assert answers["labels"].numpy()[1].tolist() == [
        [b"one-0", b"one-1", b""],
        [b"two-0", b"two-1", b"two-2"],
        [b"", b"", b""],
    ]


def test_every_signature_has_a_warm_up_request_that_is_answered(exported):
    signatures = load(exported)
    path = os.path.join(exported, "assets.extra", "tf_serving_warmup_requests")
    seen = set()
    for record in tf.data.TFRecordDataset(path):
        request = prediction_log_pb2.PredictionLog.FromString(record.numpy()).predict_log.request
        assert request.model_spec.name == "tiny"
        inputs = {name: tf.make_ndarray(value) for name, value in request.inputs.items()}
        signatures[request.model_spec.signature_name](
            **{name: tf.constant(value) for name, value in inputs.items()}
        )
        seen.add(request.model_spec.signature_name)
    assert seen == set(signatures)


def test_the_model_card_has_tasks_and_requests_that_are_answered(exported):
    card = pathlib.Path(exported, "README.md").read_text()
    for told in ("| one | text | 24 | one-0, one-1 | f1 0.5000 |", "| value | two texts |"):
        assert told in card
    signatures = load(exported)
    requests = [line.split("'")[1] for line in card.splitlines() if "curl -d" in line]
    assert len(requests) == len(signatures)
    for request in map(json.loads, requests):
        signature = signatures[request.get("signature_name", "serving_default")]
        specs = signature.structured_input_signature[1]
        signature(
            **{
                name: tf.constant(value, specs[name].dtype)
                for name, value in request["inputs"].items()
            }
        )


def test_versions_are_counted(tmp_path):
    model = tmp_path / "model"
    assert find_version(str(model)) == str(model / "1")
    (model / "9").mkdir(parents=True)
    (model / "10").mkdir()
    (model / ".11.beside").mkdir()
    assert find_version(str(model)) == str(model / "11")
    assert find_version(str(model / "12")) == str(model / "12")
    with pytest.raises(UserError, match="10: this version exists"):
        find_version(str(model / "10"))


def _refused(bert: str, folders: list[str], model: pathlib.Path, told: str) -> None:
    with pytest.raises(UserError, match=told) as error:
        export_packs(find_base(bert), folders, str(model))
    assert "\n" not in str(error.value)
    assert not model.exists() or not os.listdir(model)


def test_packs_that_do_not_go_together_are_refused(bert, packs, tmp_path):
    model = tmp_path / "model"
    _refused(bert, [packs["one"], packs["one"]], model, "several tasks are called one")
    full = make_pack(
        bert, tmp_path / "f", "f", adapter=None, tuning=Tuning("full"), max_seq_length=LENGTH
    )
    _refused(bert, [packs["one"], full], model, r"f: its tuning \(full\) changes the base")
    long = make_pack(bert, tmp_path / "l", "l")
    _refused(bert, [long], model, "l: max_seq_length is 128, the base takes 32")


def test_a_base_without_a_vocabulary_is_refused(tmp_path):
    bert = tiny.write_google_bert(tmp_path / "bert", vocabulary=False)
    pack = make_pack(bert, tmp_path / "pack", "a", max_seq_length=LENGTH)
    _refused(bert, [pack], tmp_path / "model", "no vocab.txt")


def test_a_pack_of_another_base_is_not_added(exported, tmp_path):
    bert = tiny.write_google_bert(tmp_path / "bert", seed=1)
    pack = make_pack(bert, tmp_path / "pack", "a", max_seq_length=LENGTH)
    versions = os.listdir(os.path.dirname(exported))
    with pytest.raises(UserError, match="was tuned on another base"):
        add_packs(exported, [pack])
    with pytest.raises(UserError, match="adapter_bert_tf.json"):
        add_packs(str(tmp_path / "bert"), [pack])
    assert os.listdir(os.path.dirname(exported)) == versions


def _save(folder, function) -> set[str]:
    module = tf.Module()
    spec = tf.TensorSpec([None], tf.string)
    module.called = tf.function(function, [spec])
    tf.saved_model.save(module, str(folder), module.called.get_concrete_function())
    return ops_of(str(folder))


def test_an_operation_in_a_branch_of_a_loop_is_found(tmp_path):
    def hidden(texts):
        def body(i, texts):
            return i + 1, tf.cond(i > 0, lambda: tf_text.case_fold_utf8(texts), lambda: texts)

        return tf.while_loop(lambda i, _: i < 2, body, (0, texts))[1]

    ops = _save(tmp_path, hidden)
    with pytest.raises(UserError, match="CaseFoldUTF8"):
        check_ops(ops)


def test_a_core_operation_newer_than_2_12_is_found(tmp_path):
    def newer(texts):
        lengths, parts = tf.strings.length(texts), tf.range(tf.size(texts))
        return tf.raw_ops.SegmentMaxV2(data=lengths, segment_ids=parts, num_segments=tf.size(texts))

    ops = _save(tmp_path, newer)
    with pytest.raises(UserError, match="SegmentMaxV2"):
        check_ops(ops)


def test_core_operations_and_our_tokenizers_pass(tmp_path):
    ops = _save(tmp_path, lambda texts: tf_text.normalize_utf8(tf.strings.lower(texts), "NFD"))
    assert "NormalizeUTF8" in ops
    check_ops(ops)


def _compile(folder: pathlib.Path) -> list[str]:
    """Builds load_model.cc with what the wheels ship; returns the command and its libraries."""
    program, libraries = folder / "load_model", tf.sysconfig.get_lib()
    subprocess.run(
        [
            "g++",
            "-w",
            *tf.sysconfig.get_compile_flags(),
            FOLDER / "load_model.cc",
            f"-L{libraries}",
            f"-Wl,-rpath,{libraries}",
            # The program needs what registers itself in it, though it names none of it.
            "-Wl,--no-as-needed",
            "-l:libtensorflow_cc.so.2",
            "-l:libtensorflow_framework.so.2",
            "-o",
            program,
        ],
        check=True,
    )
    ops = pathlib.Path(tf_text.__file__).parent / "python" / "ops"
    names = ("_fast_wordpiece_tokenizer.so", "_normalize_ops.so")
    return [str(program), *(str(ops / name) for name in names)]


@pytest.mark.slow
def test_a_program_without_python_gets_the_same_answers(exported, tmp_path):
    program, *libraries = _compile(tmp_path)

    def run(rows: list[tuple[str, ...]]) -> list[str]:
        lines = "".join("\t".join(row) + "\n" for row in rows)
        command = [program, exported, *libraries]
        done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    request = _mixed(["one", "two", "value"])
    answers = ask(load(exported)["serving_default"], **request)
    rows = list(zip(*request.values(), strict=True))
    for row, line in enumerate(run(rows)):
        label, error, *probabilities = line.split("\t")
        assert not error
        assert label == answers["label"][row].decode()
        np.testing.assert_allclose(
            np.array(probabilities, np.float32), answers["probabilities"][row], atol=1e-6
        )
    refused, answered = run([("three", "w1", ""), ("one", "w1", "")])
    assert refused.startswith("\tunknown task 'three'; known are one, two, value\t0\t")
    assert answered.startswith("one-")
