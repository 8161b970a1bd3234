"""What signatures answer, beyond the classes of texts (test_model.py)."""

import json

import numpy as np
import pytest
import tensorflow as tf

from adapter_bert_tf.base.load import find_base, load_encoder
from adapter_bert_tf.encoder.adapter import AdapterConfig
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.heads.span import SpanHead
from adapter_bert_tf.pack.model import save_pack
from adapter_bert_tf.run.settings import SquadSettings
from adapter_bert_tf.run.squad import run_squad
from adapter_bert_tf.serve.card import make_examples, model_card
from adapter_bert_tf.serve.export import add_packs, export_packs
from adapter_bert_tf.serve.model import ServedModel
from adapter_bert_tf.serve.service import read_service
from adapter_bert_tf.serve.signatures import make_signatures
from adapter_bert_tf.task import load_task
from adapter_bert_tf.tuning.task_model import TaskModel
from tests import squad_lib
from tests.serve.tasks import TEXTS, ask, expected, load, make_pack

SIZES = {"max_seq_length": 32, "doc_stride": 8, "max_query_length": 8}


def _pack(bert: str, folder, name: str = "squad", seed: int = 0, **inputs) -> str:
    random = np.random.default_rng(seed)
    model = TaskModel(load_encoder(bert, AdapterConfig(size=4)), SpanHead())
    for path, variable in model.variables_by_path().items():
        if path in model.tuning.trained(model.variables_by_path()):
            variable.assign_add(random.normal(size=variable.shape, scale=0.3))
    save_pack(model, folder, task=name, inputs={**SIZES, **inputs})
    return str(folder)


def _ask(signature, questions: list[str], contexts: list[str], **more) -> dict[str, np.ndarray]:
    request = {"question": questions, "context": contexts, **more}
    tensors = {name: tf.constant(values, tf.string) for name, values in request.items()}
    return {name: values.numpy() for name, values in signature(**tensors).items()}


def _texts(articles) -> tuple[list[str], list[str]]:
    rows = [
        (question["question"], article["paragraphs"][0]["context"])
        for article in articles
        for question in article["paragraphs"][0]["qas"]
    ]
    return [question for question, _ in rows], [context for _, context in rows]


@pytest.mark.parametrize("negative", [pytest.param(False, marks=pytest.mark.slow), True])
def test_answers_and_scores_are_those_of_run_squad_and_of_the_task(negative, bert, tmp_path):
    decoding = {"with_negative": negative, "null_threshold": -2.0, "max_answer_length": 9}
    pack = _pack(bert, tmp_path / "pack", **decoding)
    words = [f"w{number}" for number in range(40)]
    articles = squad_lib.articles(0, words, paragraphs=12, negative=negative)
    path = tmp_path / "squad.json"
    path.write_text(json.dumps({"data": articles}))
    settings = SquadSettings(
        output_dir=f"{tmp_path}/run",
        predict_file=str(path),
        pack=pack,
        bert=bert,
        do_predict=True,
        version_2_with_negative=negative,
        null_score_diff_threshold=-2.0,
        max_answer_length=9,
        **SIZES,
    )
    assert run_squad(settings, tf.distribute.get_strategy())
    predicted, n_best = (
        json.loads((tmp_path / "run" / name).read_text())
        for name in ("predictions.json", "nbest_predictions.json")
    )

    signatures = load(export_packs(find_base(bert), [pack], str(tmp_path / "model")))
    questions, contexts = _texts(articles)
    found = _ask(signatures["serving_default"], questions, contexts)
    assert [answer.decode() for answer in found["answer"]] == list(predicted.values())
    assert negative == (b"" in found["answer"])
    task = load_task(pack, bert)
    for row, (name, candidates) in enumerate(n_best.items()):
        score, answer = found["score"][row], found["answer"][row].decode()
        # With a threshold of its own, a question of v2.0 may be answered with the second best.
        chosen = next(each for each in candidates if each["text"] == predicted[name])
        assert negative or chosen is candidates[0]
        assert score == pytest.approx(chosen["probability"], abs=1e-5)

        context = contexts[row]
        alone = task.answer(questions[row], context)
        assert alone.text == answer
        assert alone.score == pytest.approx(score, abs=1e-5)
        held = context.encode()[found["start"][row] : found["end"][row]].decode()
        assert held == context[alone.start : alone.end]
        assert held.translate(str.maketrans("", "", " \t\r\n\u202f")) == "".join(answer.split(" "))


def test_hostile_texts_are_answered_and_rows_are_alone(bert, tmp_path):
    pack = _pack(bert, tmp_path / "pack")
    answer = load(export_packs(find_base(bert), [pack], str(tmp_path / "model")))["answer"]
    contexts = ["w1 w2 w3 w4", "", " ", "w5 " * 2000, "w6\0w7", "x" * 100_000, "é中 w8", "w9\n w1"]
    questions = ["w1", "w2", "", "w3 " * 100, "\0", "w4", "w5", "w6"]
    together = _ask(answer, questions, contexts)
    assert together["answer"][1] == together["answer"][2] == b""
    assert together["error"].tolist()[:4] == [b"", b"context: is empty", b"context: is empty", b""]
    for row, (question, context) in enumerate(zip(questions, contexts, strict=True)):
        alone = _ask(answer, [question], [context])
        assert alone["answer"][0] == together["answer"][row]
        np.testing.assert_allclose(alone["score"][0], together["score"][row], atol=1e-6)
    assert all(values.shape == (0,) for values in _ask(answer, [], []).values())
    invalid = answer(question=tf.constant(["w1"]), context=tf.constant([b"w1 \xff\xfe w2"]))
    assert invalid["answer"].shape == (1,)


@pytest.mark.slow
def test_questions_and_classes_in_one_export(bert, tmp_path):
    packs = [
        make_pack(bert, tmp_path / "a", "a", max_seq_length=24),
        _pack(bert, tmp_path / "squad"),
        _pack(bert, tmp_path / "other", "other", seed=1, with_negative=True),
    ]
    signatures = load(export_packs(find_base(bert), packs, str(tmp_path / "model")))
    alone = load(export_packs(find_base(bert), packs[1:2], str(tmp_path / "alone")))
    questions, contexts = ["w1", "w2"] * 2, ["w3 w4 w5 w6", "w7 w8"] * 2
    names = ["squad", "squad", "other", "other"]
    found = _ask(signatures["answer"], questions, contexts, task=names)
    squad = _ask(alone["answer"], questions[:2], contexts[:2])
    assert found["answer"][:2].tolist() == squad["answer"].tolist()
    np.testing.assert_allclose(found["score"][:2], squad["score"], atol=1e-5)
    mixed = _ask(signatures["answer"], questions, contexts, task=["a", "squad", "other", "b"])
    assert mixed["error"].tolist() == [
        b"a: ask the signature serving_default",
        b"",
        b"",
        b"unknown task 'b'; known are other, squad",
    ]
    for name in ("answer", "score", "start", "end"):
        assert not mixed[name][[0, 3]].any()
    assert mixed["answer"][1:3].tolist() == found["answer"][1:3].tolist()
    np.testing.assert_allclose(mixed["score"][1:3], found["score"][1:3], atol=1e-6)
    texts = ask(signatures["serving_default"], text=TEXTS[:2], task=["squad", "a"])
    assert texts["error"].tolist() == [b"squad: ask the signature answer", b""]
    answers = ask(signatures["serving_default"], text=TEXTS, task=["a"] * len(TEXTS))
    np.testing.assert_allclose(answers["probabilities"], expected(bert, packs[0]), atol=1e-5)


@pytest.mark.slow
def test_questions_are_added_to_an_export_and_answered_with_the_same_bits(bert, tmp_path):
    packs = [
        _pack(bert, tmp_path / "squad"),
        make_pack(bert, tmp_path / "a", "a", max_seq_length=24),
    ]
    first = export_packs(find_base(bert), packs[:1], str(tmp_path / "model"))
    second = add_packs(first, packs[1:])
    questions, contexts = ["w1", "w2"], ["w3 w4 w5 w6", "w7 w8"]
    before = _ask(load(first)["answer"], questions, contexts)
    after = _ask(load(second)["answer"], questions, contexts, task=["squad"] * 2)
    for name, values in before.items():
        assert values.tolist() == after[name].tolist()


def test_a_card_says_only_what_is_true_of_its_signatures(bert, tmp_path):
    service = read_service(find_base(bert), [_pack(bert, tmp_path / "squad")])
    signatures = make_signatures(service, ServedModel(service))
    card = model_card(service, "a model", "1", signatures, make_examples(service), set())
    assert "`start` and `end` are the bytes" in card
    for name in ("`all`", "`some`", "`probabilities`", "`text_pair`"):
        assert name not in card
    assert "http://localhost:8501/v1/models/a%20model:predict" in card


def test_packs_that_cut_contexts_in_another_way_are_told(bert, tmp_path):
    packs = [_pack(bert, tmp_path / "a", "a"), _pack(bert, tmp_path / "b", "b", doc_stride=9)]
    with pytest.raises(UserError, match="b: has doc_stride=9, a 8"):
        export_packs(find_base(bert), packs, str(tmp_path / "model"))
