import pathlib
import random
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
from scipy.special import softmax

from adapter_bert_tf import (
    AdapterConfig,
    Answer,
    ClassificationHead,
    Prediction,
    RegressionHead,
    SpanHead,
    Task,
    TaskModel,
    Tuning,
    UserError,
    Value,
    load_encoder,
    load_task,
    read_pack,
    save_pack,
)
from tests import tiny

TEXTS = ["w1 w2 w3", "w4", "w5 w6 w7 w8 w9 w10 w11 w12 w13 w14 w15", "", "w3 w2 w1"]
PAIRS = ["w7 w8", "w9 w9 w9 w9 w9 w9 w9 w9 w9 w9 w9 w9", "w10", "w11 w12", ""]
LABELS = ("no", "perhaps", "yes")
SPAN = {"max_seq_length": 32, "doc_stride": 8, "max_query_length": 8}


def _pack(
    bert: str,
    folder: pathlib.Path,
    head=None,
    adapter: AdapterConfig | None = AdapterConfig(size=4),
    tuning: Tuning = Tuning(),
    **inputs,
) -> str:
    """Saves a pack in which everything that is tuned is random."""
    generator = np.random.default_rng(len(folder.name))
    model = TaskModel(load_encoder(bert, adapter), head or ClassificationHead(3), tuning)
    variables = model.variables_by_path()
    for path in sorted(tuning.trained(variables)):
        variables[path].assign_add(generator.normal(size=variables[path].shape, scale=0.3))
    labels = LABELS if isinstance(model.head, ClassificationHead) else ()
    inputs = {"max_seq_length": 16, "pair": False, **inputs}
    save_pack(model, folder, task=folder.name, labels=labels, inputs=inputs)
    return str(folder)


@pytest.fixture(scope="module")
def packs(bert, tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("packs")
    wide = AdapterConfig(size=6, parallel=True, layer_norm=True)
    return {
        "single": _pack(bert, folder / "single"),
        "paired": _pack(bert, folder / "paired", pair=True),
        "number": _pack(bert, folder / "number", RegressionHead(), wide),
        "upper": _pack(bert, folder / "upper", adapter=AdapterConfig(size=2, layers=[2])),
        "span": _pack(bert, folder / "span", SpanHead(), **SPAN),
        "full": _pack(bert, folder / "full", adapter=None, tuning=Tuning("full")),
        "headed": _pack(bert, folder / "headed", adapter=None, tuning=Tuning("head")),
    }


@pytest.fixture(scope="module")
def tasks(packs) -> dict[str, Task]:
    return {name: load_task(path) for name, path in packs.items()}


def _probabilities(task: Task, texts, pairs=None) -> np.ndarray:
    """Computes each text alone, with the model as Keras has it."""
    rows = [
        task.model(task.inputs([text], None if pairs is None else [pairs[i]])).numpy()[0]
        for i, text in enumerate(texts)
    ]
    return softmax(np.array(rows), axis=-1)


# Asking.


def test_a_pack_tells_all_that_a_task_is(tasks):
    task = tasks["single"]
    assert (task.name, task.labels, task.max_seq_length) == ("single", LABELS, 16)
    assert task.takes_pairs is False
    assert tasks["paired"].takes_pairs is True
    assert repr(task) == "Task('single', classification, 3 labels)"
    assert isinstance(tasks["number"].head, RegressionHead)


def test_inputs_are_what_the_model_takes(tasks):
    inputs = tasks["single"].inputs(["w0", "w1 w2 " * 20])
    assert {name: values.shape.as_list() for name, values in inputs.items()} == {
        "input_word_ids": [2, 16],
        "input_mask": [2, 16],
        "input_type_ids": [2, 16],
    }
    assert inputs["input_word_ids"].numpy()[0].tolist() == [2, 4, 3] + [0] * 13
    assert inputs["input_mask"].numpy().sum(axis=1).tolist() == [3, 16]
    pair = tasks["paired"].inputs(["w0"], ["w1 w2"])
    assert pair["input_type_ids"].numpy().tolist() == [[0, 0, 0, 1, 1, 1]]


def test_predicts_the_label_with_its_probabilities(tasks):
    predictions = tasks["single"].predict(TEXTS)
    expected = _probabilities(tasks["single"], TEXTS)
    assert all(isinstance(each, Prediction) for each in predictions)
    np.testing.assert_allclose([each.probabilities for each in predictions], expected, atol=1e-5)
    assert [each.label for each in predictions] == [LABELS[i] for i in expected.argmax(axis=1)]
    np.testing.assert_allclose([each.score for each in predictions], expected.max(1), atol=1e-5)


def test_predicts_on_pairs(tasks):
    predictions = tasks["paired"].predict(TEXTS, PAIRS)
    expected = _probabilities(tasks["paired"], TEXTS, PAIRS)
    np.testing.assert_allclose([each.probabilities for each in predictions], expected, atol=1e-5)
    # The second text is read.
    others = tasks["paired"].predict(TEXTS, PAIRS[::-1])
    assert not np.allclose([each.probabilities for each in others], expected, atol=1e-3)


def test_predicts_a_value(tasks):
    task = tasks["number"]
    predictions = task.predict(TEXTS)
    assert all(isinstance(each, Value) for each in predictions)
    expected = [float(task.model(task.inputs([text]))[0]) for text in TEXTS]
    np.testing.assert_allclose([each.value for each in predictions], expected, atol=1e-4)


def test_neither_order_nor_batches_nor_containers_matter(tasks):
    task = tasks["single"]
    texts = [" ".join(["w1", "w9", "w30"][: i % 4] + ["w5"] * (i % 9)) for i in range(40)]
    expected = np.array([each.probabilities for each in task.predict(texts)])
    order = np.random.default_rng(0).permutation(len(texts))
    for asked in (
        task.predict([texts[i] for i in order], batch_size=7),
        task.predict(np.array(texts)[order], batch_size=1),
        task.predict(pd.Series(np.array(texts)[order])),
        task.predict(tuple(texts[i] for i in order), batch_size=1000),
    ):
        found = np.array([each.probabilities for each in asked])
        np.testing.assert_allclose(found, expected[order], atol=1e-5)
    for name in ("array", "series"):
        pairs = np.array(PAIRS) if name == "array" else pd.Series(PAIRS)
        found = tasks["paired"].predict(TEXTS, pairs)
        assert [each.label for each in found] == [
            each.label for each in tasks["paired"].predict(TEXTS, PAIRS)
        ]


def test_long_lists_are_answered_in_order(tasks, capsys):
    texts = [TEXTS[i % len(TEXTS)] for i in range(4100)]
    found = tasks["single"].answers(texts, batch_size=1000)["probabilities"]
    few = tasks["single"].answers(TEXTS)["probabilities"]
    np.testing.assert_allclose(found, [few[i % len(TEXTS)] for i in range(4100)], atol=1e-5)
    assert "4100/4100" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["single", "number"])
def test_no_texts_have_no_answers(tasks, name, capsys):
    assert tasks[name].predict([]) == []
    some, none = tasks[name].answers(TEXTS[:1]), tasks[name].answers([])
    assert none.keys() == some.keys()
    for key, values in some.items():
        assert none[key].shape == (0, *values.shape[1:])
    assert tasks["paired"].predict([], []) == []
    assert capsys.readouterr().out == ""


def test_answers_a_question_wherever_it_is_in_the_text(tasks):
    generator = random.Random(0)
    context = "\n ".join(f"w{generator.randrange(40)}" for _ in range(200))
    answer = tasks["span"].answer("w1 w2", context)
    assert isinstance(answer, Answer)
    assert answer.text
    assert " ".join(context[answer.start : answer.end].split()) == answer.text
    assert 0 < answer.score <= 1


@pytest.mark.parametrize(
    ("name", "ask", "told"),
    [
        ("single", lambda task: task.predict("w1"), "expected a list of texts, not a single one"),
        ("single", lambda task: task.predict(["w1", 3]), "text 1: expected a text, not 3"),
        ("single", lambda task: task.predict(["\ud800"]), "text 0: .* that UTF-8 can hold"),
        ("single", lambda task: task.predict(["w1"], batch_size=0), "batch_size: expected a whole"),
        ("span", lambda task: task.answer(1, 2), "question: expected a text, not 1"),
        ("single", lambda task: task.predict(["w1"], ["w2"]), "takes no second texts"),
        ("paired", lambda task: task.predict(["w1"]), "paired: a task on pairs, it needs"),
        ("paired", lambda task: task.predict(["w1"], "w2"), "expected a list of texts"),
        ("paired", lambda task: task.predict(["a", "b"], ["c"]), "2 texts, but 1 second texts"),
        (
            "paired",
            lambda task: task.predict(["a"], [None]),
            "second text 0: expected a text, not None",
        ),
        ("paired", lambda task: task.inputs(["a"]), "paired: a task on pairs, it needs"),
        ("single", lambda task: task.answer("w1", "w2"), "a task on texts, use predict"),
        ("span", lambda task: task.predict(["w1"]), "a task on questions, use answer"),
        ("span", lambda task: task.evaluate([("w1", "no")]), "a task on questions, use answer"),
        ("single", lambda task: task.evaluate([("w1", "maybe")]), "dev:1: unknown label 'maybe'"),
        ("single", lambda task: task.evaluate([]), "no examples"),
        ("single", lambda task: task.evaluate("no.csv"), "no.csv: No such file"),
        ("number", lambda task: task.evaluate([("w1", "high")]), "expected a number, not 'high'"),
        (
            "single",
            lambda task: task.evaluate(pd.DataFrame({"text": ["w1"]})),
            "no column of labels",
        ),
        (
            "single",
            lambda task: task.evaluate(pd.DataFrame({"body": ["w1"], "label": ["no"]})),
            "which column is the text",
        ),
    ],
)
def test_wrong_uses_are_told_in_one_line(tasks, name, ask, told):
    with pytest.raises(UserError, match=told) as error:
        ask(tasks[name])
    assert "\n" not in str(error.value)


# Scoring.


def test_evaluates_examples_of_any_form(tasks, tmp_path):
    task = tasks["single"]
    texts = [f"w{i} w{i * 7 % 40}" for i in range(30)]
    labels = [LABELS[i % 3] for i in range(30)]
    (tmp_path / "dev.csv").write_text(
        "\n".join(["text,label", *(",".join(row) for row in zip(texts, labels, strict=True))])
    )
    predicted = [each.label for each in task.predict(texts)]
    accuracy = np.mean([a == b for a, b in zip(labels, predicted, strict=True)])
    assert 0 < accuracy < 1
    for examples in (
        tmp_path / "dev.csv",
        list(zip(texts, labels, strict=True)),
        pd.DataFrame({"text": texts, "label": labels}),
        tf.data.Dataset.from_tensor_slices({"text": texts, "label": labels}),
    ):
        found = task.evaluate(examples, batch_size=7)
        assert found.keys() == {"accuracy", "macro_f1"}
        assert found["accuracy"] == pytest.approx(accuracy)
    frame = pd.DataFrame({"body": texts, "verdict": labels, "text_pair": "w1"})
    for column in ("verdict", ["verdict"]):
        again = task.evaluate(frame, text_column="body", label_column=column)
        assert again["accuracy"] == pytest.approx(accuracy)


def test_evaluates_pairs_and_values(tasks):
    rows = [(text, pair, "yes") for text, pair in zip(TEXTS, PAIRS, strict=True)]
    found = tasks["paired"].evaluate(rows)
    predicted = [each.label for each in tasks["paired"].predict(TEXTS, PAIRS)]
    assert found["accuracy"] == pytest.approx(predicted.count("yes") / len(rows))
    texts = TEXTS[:4]
    values = [each.value for each in tasks["number"].predict(texts)]
    found = tasks["number"].evaluate([(t, -2 * v) for t, v in zip(texts, values, strict=True)])
    assert found == pytest.approx({"pearson": -1.0, "spearman": -1.0}, abs=1e-4)


def test_evaluates_the_metrics_that_the_pack_has(tasks):
    task = tasks["single"]
    rows = [(text, "yes") for text in TEXTS]
    chosen = Task(
        task.model,
        labels=LABELS,
        inputs=task.settings,
        metrics={"matthews": 0.5, "dev_matched_accuracy": 0.1},
    )
    assert chosen.metric_names == ("matthews",)
    assert chosen.evaluate(rows).keys() == {"matthews"}


# Saving and loading.


def test_a_saved_task_is_the_same_after_loading(tasks, tmp_path):
    task = tasks["paired"]
    task.save(tmp_path / "copy", {"accuracy": 0.25})
    again = load_task(tmp_path / "copy")
    assert (again.name, again.labels, again.settings) == (task.name, task.labels, task.settings)
    assert again.metrics == {"accuracy": 0.25}
    assert again.predict(TEXTS, PAIRS) == task.predict(TEXTS, PAIRS)


def test_a_pack_without_names_and_inputs_takes_texts_and_pairs(bert, tmp_path):
    base = tiny.write_google_bert(tmp_path / "bert")
    model = TaskModel(load_encoder(base, AdapterConfig(size=4)), ClassificationHead(2))
    save_pack(model, tmp_path / "pack", inputs={"max_seq_length": 16})
    task = load_task(tmp_path / "pack")
    assert task.labels == ("0", "1")
    assert task.takes_pairs is None
    alone, paired = task.predict(["w1"]), task.predict(["w1"], ["w2"])
    assert alone[0].label in ("0", "1")
    assert alone[0].probabilities != paired[0].probabilities


def test_a_base_that_is_elsewhere_is_named(packs, bert, tmp_path):
    model = TaskModel(
        load_encoder(tiny.write_google_bert(tmp_path / "moved"), None),
        RegressionHead(),
        Tuning("head"),
    )
    save_pack(model, tmp_path / "pack", inputs={"max_seq_length": 16})
    (tmp_path / "moved").rename(tmp_path / "gone")
    with pytest.raises(UserError, match="moved.*; name the BERT that the pack was tuned on"):
        load_task(tmp_path / "pack")
    assert load_task(tmp_path / "pack", bert).predict(["w1"])
    with pytest.raises(UserError, match="^nowhere: no such folder"):
        load_task(tmp_path / "pack", "nowhere")


def test_rows_longer_than_the_base_takes_are_told(tasks):
    with pytest.raises(UserError, match="--max_seq_length=64: the base takes 32 at most"):
        Task(tasks["single"].model, inputs={"max_seq_length": 64})


# Sharing a base.


def test_tasks_share_a_base_and_answer_as_if_they_were_alone(packs, tasks):
    first = load_task(packs["single"])
    owned = first.model.variables_by_path()
    others = {
        name: load_task(packs[name], base=first) for name in ("paired", "number", "upper", "full")
    }
    for name, task in others.items():
        brought = set(read_pack(packs[name]).variables)
        for path, variable in task.model.variables_by_path().items():
            if not path.startswith("head/") and "adapter" not in path:
                assert (variable is owned[path]) == (path not in brought), path
        pairs = PAIRS if task.takes_pairs else None
        assert task.predict(TEXTS, pairs) == tasks[name].predict(TEXTS, pairs)
    # All but adapters, LayerNorms and heads is in memory once.
    words = {
        id(task.model.variables_by_path()["word_embeddings/embeddings"])
        for task in (first, others["paired"], others["number"], others["upper"])
    }
    assert len(words) == 1
    # Loading them has not changed the first one.
    assert first.predict(TEXTS) == tasks["single"].predict(TEXTS)
    # What shares a base can be shared in turn.
    again = load_task(packs["upper"], base=others["number"])
    assert again.predict(TEXTS) == tasks["upper"].predict(TEXTS)


_MEMORY = """
import ctypes, gc, sys
import adapter_bert_tf as ab

def used():
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    line = next(line for line in open("/proc/self/status") if line.startswith("RssAnon"))
    return int(line.split()[1]) * 1024

kind, tiny, *packs = sys.argv[1:]
warm = ab.load_task(tiny).predict(["w1"])  # What libraries load once does not count.
before = used()
if kind == "base":
    base = ab.load_encoder("minilm", None)
    base.base.tokenizer
else:
    tasks = [ab.load_task(packs[0])]
    tasks += [ab.load_task(pack, base=tasks[0]) for pack in packs[1:]]
print(used() - before)
"""


@pytest.mark.slow
def test_ten_tasks_on_one_base_take_the_memory_of_the_base_and_ten_packs(packs, tmp_path):
    model = TaskModel(load_encoder("minilm", AdapterConfig(size=64)), ClassificationHead(2))
    for i in range(10):
        save_pack(model, tmp_path / f"{i}", inputs={"max_seq_length": 64})
    folders = [str(tmp_path / f"{i}") for i in range(10)]

    def memory(kind: str) -> int:
        command = [sys.executable, "-c", _MEMORY, kind, str(packs["single"]), *folders]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return int(done.stdout.splitlines()[-1])

    size = sum(path.stat().st_size for path in tmp_path.rglob("*.safetensors"))
    assert memory("tasks") <= 1.1 * (memory("base") + size)


@pytest.mark.parametrize(("base", "pack"), [("full", "single"), ("single", "headed")])
def test_a_base_that_was_tuned_itself_is_not_shared(packs, tasks, base, pack):
    with pytest.raises(UserError, match="can't share a base that was tuned itself") as error:
        load_task(packs[pack], base=tasks[base])
    assert "\n" not in str(error.value)
    assert packs[pack] in str(error.value)


def test_a_task_on_another_base_does_not_share(packs, tmp_path):
    bert = tiny.write_google_bert(tmp_path / "bert", seed=5)
    other = load_task(_pack(bert, tmp_path / "other"))
    with pytest.raises(UserError, match="tuned on another base"):
        load_task(packs["single"], base=other)
