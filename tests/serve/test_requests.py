"""Whatever is asked, there is an answer or a clear error, and no other row is harmed."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from adapter_bert_tf import load_task
from adapter_bert_tf.base.load import find_base
from adapter_bert_tf.serve.export import export_packs
from adapter_bert_tf.serve.requests import Requests
from adapter_bert_tf.serve.service import read_service
from adapter_bert_tf.text.inputs import encode
from tests.serve.tasks import PAIRS, TEXTS, ask, load, make_pack, serve

GOOD = {"task": ["single", "pair"], "text": ["w1 w2", "w3"], "text_pair": ["", "w4"]}


@pytest.fixture(scope="module")
def packs(bert, tmp_path_factory) -> list[str]:
    folder = tmp_path_factory.mktemp("packs")
    return [
        make_pack(bert, folder / "single", "single", max_seq_length=24),
        make_pack(bert, folder / "pair", "pair", seed=1, max_seq_length=32, pair=True),
    ]


@pytest.fixture(scope="module")
def signatures(bert, packs) -> dict:
    return serve(bert, packs)


@pytest.fixture
def text(signatures):
    """The signature for texts; a good request is answered the same before and after the test."""
    signature = signatures["serving_default"]
    before = ask(signature, **GOOD)
    yield signature
    for name, value in ask(signature, **GOOD).items():
        np.testing.assert_array_equal(value, before[name])


@pytest.mark.parametrize(
    "hostile",
    [
        "",
        "w1 " * 350_000,
        "w" * 1_000_000,
        b"\xff\xfe\xc3( w1 \xed\xa0\x80",
        "\0w1\0\0",
        "\U0001f600" * 1000,
    ],
    ids=["empty", "1 MB", "a long word", "invalid UTF-8", "NUL", "emoji"],
)
def test_any_text_is_answered(text, hostile):
    answers = ask(
        text,
        task=["single", "pair", "pair"],
        text=[hostile, hostile, "w1"],
        text_pair=["", "w1", hostile or "w2"],
    )
    np.testing.assert_allclose(answers["probabilities"].sum(axis=1), 1, atol=1e-5)


def test_no_rows_are_answered_with_none(text):
    answers = ask(text, task=[], text=[], text_pair=[])
    assert {name: len(value) for name, value in answers.items()} == {
        "label": 0,
        "score": 0,
        "probabilities": 0,
        "error": 0,
    }


def test_a_single_task_answers_no_rows_with_none(bert, packs, tmp_path):
    """On CPUs with AVX-512, oneDNN aborts the process at some products of size 0."""
    signatures = load(export_packs(find_base(bert), packs[:1], str(tmp_path / "model")))
    tokens = dict.fromkeys(("input_word_ids", "input_mask", "input_type_ids"), np.zeros([0, 3]))
    for answers in (
        ask(signatures["serving_default"], text=[]),
        ask(signatures["tokens"], **tokens),
    ):
        assert answers["probabilities"].shape == (0, 2)
        assert answers["label"].shape == answers["score"].shape == (0,)
    assert ask(signatures["all"], text=[])["probabilities"].shape == (0, 1, 2)
    assert signatures["tasks"](request=tf.zeros([0], tf.string))["task"].shape == (0, 1)


def test_a_thousand_rows_of_very_different_lengths_are_answered_as_alone(text):
    random = np.random.default_rng(0)
    texts = ["w1 " * length for length in random.geometric(0.01, size=1000)]
    tasks = random.choice(["single", "pair"], size=1000).tolist()
    pairs = ["w5 w6"] * 1000
    answers = ask(text, task=tasks, text=texts, text_pair=pairs)["probabilities"]
    for i in range(0, 1000, 100):
        alone = ask(text, task=[tasks[i]], text=[texts[i]], text_pair=[pairs[i]])
        np.testing.assert_allclose(answers[i], alone["probabilities"][0], atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"text_pair": ["w1"]}, "different numbers of rows"),
        ({"text": ["w1", "w2", "w3"]}, "different numbers of rows"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(text, changes, told):
    with pytest.raises(tf.errors.InvalidArgumentError, match=told):
        ask(text, **{**GOOD, **changes})


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ({"task": "pear"}, "unknown task 'pear'; known are pair, single"),
        ({"task": ""}, "unknown task ''; known are pair, single"),
        ({"task": b"\xff\xfe"}, "unknown task '\ufffd\ufffd'; known are pair, single"),
        ({"task": "é" * 100}, f"unknown task '{'é' * 60}'; known are pair, single"),
    ],
)
def test_a_row_that_makes_no_sense_has_an_error_and_its_neighbours_their_answers(text, bad, told):
    good = {name: values * 2 for name, values in GOOD.items()}
    rows = {name: values.copy() for name, values in good.items()}
    for name, value in bad.items():
        rows[name][1] = value
    wanted, found = ask(text, **good), ask(text, **rows)
    assert [error.decode() for error in found["error"]] == ["", told, "", ""]
    assert not found["probabilities"][1].any()
    assert (found["label"][1], found["score"][1]) == (b"", 0)
    others = [0, 2, 3]
    assert found["label"][others].tolist() == wanted["label"][others].tolist()
    for name in ("score", "probabilities"):
        np.testing.assert_allclose(found[name][others], wanted[name][others], atol=1e-6)


def test_rows_that_all_make_no_sense_are_answered_with_errors(text):
    found = ask(text, task=["x", "y"], text=["w1", "w2"], text_pair=["", ""])
    assert all(error.startswith(b"unknown task") for error in found["error"])
    assert not found["score"].any()


def test_a_row_without_a_pair_is_encoded_without_one(bert, packs, text):
    alone = ask(serve(bert, packs[:1])["serving_default"], text=["w1 w2"])
    mixed = ask(text, task=["pair", "single"], text=["w3", "w1 w2"], text_pair=["w4", "w5 w6"])
    np.testing.assert_allclose(mixed["probabilities"][1], alone["probabilities"][0], atol=1e-6)


def _ask_some(signatures, tasks: str) -> dict[str, np.ndarray]:
    request = {"tasks": [tasks], "text": ["w1"], "text_pair": ["w2"]}
    found = signatures["some"](**{name: tf.constant(value) for name, value in request.items()})
    return {name: value.numpy()[0] for name, value in found.items()}


def test_of_many_wrong_names_some_are_told_and_once(signatures):
    found = _ask_some(signatures, ",".join(["pair", *(f"x{i}" for i in range(9999))]))
    assert found["task"].tolist() == [b"", b"pair", b""]
    assert found["label"][1].startswith(b"pair-")
    told = "; ".join(f"unknown task 'x{i}'; known are pair, single" for i in range(3))
    errors = [error.decode() for error in found["error"]]
    assert errors == ["", "", f"{told}; and 9996 more names"]


def test_names_that_are_all_wrong_ask_nothing(signatures):
    found = _ask_some(signatures, "x, y")
    assert found["task"].tolist() == found["label"].tolist() == [b""] * 3
    assert not found["probabilities"].any()
    assert found["error"].tolist()[:2] == [b"", b""]
    assert found["error"][2].startswith(b"unknown task 'x'; known are pair, single; unknown task")


def test_a_text_is_tokenised_once_for_tasks_that_want_the_same(bert, packs, monkeypatch):
    service, rows = read_service(find_base(bert), packs), []
    tasks = [
        dataclasses.replace(task, name=f"{task.name}{i}")
        for i in range(3)
        for task in service.tasks
    ]

    def counted(tokenizer, texts, *arguments):
        rows.append(len(texts))
        return encode(tokenizer, texts, *arguments)

    monkeypatch.setattr("adapter_bert_tf.serve.requests.encode", counted)
    requests = Requests(dataclasses.replace(service, tasks=tuple(tasks)), range(6))
    texts = {"text": tf.constant(TEXTS), "text_pair": tf.constant(PAIRS)}
    asked, *_ = requests.read_texts_for_all(texts)
    assert rows == [2 * len(TEXTS)]
    assert asked.tasks.numpy().tolist() == list(range(6)) * len(TEXTS)
    each = {name: tf.repeat(values, 6) for name, values in texts.items()}
    names = [task.name for task in tasks]
    alone = requests.read_texts({**each, "task": tf.constant(names * len(TEXTS))})
    for ours, theirs in zip(asked.texts, alone.texts, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(asked.row_texts, alone.row_texts)


def _ask_tokens(signatures, ids: list, mask: list, segments: list | None = None) -> dict:
    return ask(
        signatures["tokens"],
        task=["single", "pair"],
        input_word_ids=np.reshape(ids, [2, -1]),
        input_mask=np.reshape(mask, [2, -1]),
        input_type_ids=np.reshape(segments or np.zeros_like(ids), [2, -1]),
    )


@pytest.mark.parametrize(
    ("ids", "mask", "segments", "told"),
    [
        ([2, 3, 0], [0, 0, 0], [0, 0, 0], "input_mask: a row of zeros"),
        ([2] * 33, [1] * 33, [0] * 33, "input_word_ids: more than 32 tokens"),
        ([2, 99, 3], [1, 1, 1], [0, 0, 0], "input_word_ids: expected 0 to 49"),
        ([2, -1, 3], [1, 1, 1], [0, 0, 0], "input_word_ids: expected 0 to 49"),
        ([2, 5, 3], [1, 1, 1], [0, 2, 0], "input_type_ids: expected 0 to 1"),
    ],
)
def test_tokens_that_make_no_sense_have_an_error(signatures, ids, mask, segments, told):
    good = [2, 5, 3, *[0] * (len(ids) - 3)], [1, 1, 1, *[0] * (len(ids) - 3)]
    wanted = _ask_tokens(signatures, [good[0]] * 2, [good[1]] * 2)
    assert wanted["error"].tolist() == [b"", b""]
    found = _ask_tokens(signatures, [good[0], ids], [good[1], mask], [[0] * len(ids), segments])
    assert [error.decode() for error in found["error"]] == ["", told]
    np.testing.assert_allclose(found["probabilities"][0], wanted["probabilities"][0], atol=1e-6)
    assert not found["probabilities"][1].any()


def test_tokens_of_no_columns_or_different_ones(signatures):
    found = _ask_tokens(signatures, [[], []], [[], []])
    assert found["error"].tolist() == [b"input_mask: a row of zeros"] * 2
    with pytest.raises(tf.errors.InvalidArgumentError, match="different shapes"):
        _ask_tokens(signatures, [[2, 3]] * 2, [[1, 1]] * 2, [[0]] * 2)


def test_ids_that_are_not_marked_do_not_matter(signatures):
    wanted = _ask_tokens(signatures, [[2, 5, 3, 0]] * 2, [[1, 1, 1, 0]] * 2)
    found = _ask_tokens(signatures, [[2, 5, 3, 999]] * 2, [[1, 1, 1, 0]] * 2)
    for name, values in wanted.items():
        np.testing.assert_array_equal(found[name], values)


def test_an_empty_second_text_is_none_as_in_training(bert, tmp_path):
    pack = make_pack(bert, tmp_path / "pair", "pair", max_seq_length=12, pair=True)
    texts, pairs = ["w1 w2", "w3 " * 20, "w4"], ["", "", "w5"]
    answers = ask(serve(bert, [pack])["serving_default"], text=texts, text_pair=pairs)
    expected = [found.probabilities for found in load_task(pack).predict(texts, pairs)]
    np.testing.assert_allclose(answers["probabilities"], expected, atol=1e-6)
    told = b"text_pair: is empty, but pair is about two texts"
    assert answers["error"].tolist() == [told, told, b""]
