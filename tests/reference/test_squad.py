"""SQuAD's features and answers against those of BERT's own run_squad.py."""

import json

import numpy as np
import pytest

from adapter_bert_tf.base.load import find_base
from adapter_bert_tf.squad.decoder import Decoding, find_answers
from adapter_bert_tf.squad.questions import read_squad, to_predict, to_train
from adapter_bert_tf.squad.records import span_features
from adapter_bert_tf.squad.windows import WindowSizes, to_windows
from adapter_bert_tf.text.inputs import IDS, MASK, SEGMENTS
from adapter_bert_tf.text.tokenizer import Tokenizer

# Our name -> the original's.
INPUTS = {IDS: "input_ids", MASK: "input_mask", SEGMENTS: "segment_ids"}


@pytest.fixture(scope="module", params=["squad", "squad_short"])
def folder(request, reference):
    return reference / request.param


@pytest.fixture(scope="module")
def golden(folder):
    return np.load(folder / "squad_golden.npz")


@pytest.fixture(scope="module")
def sizes(golden) -> WindowSizes:
    names = ("max_seq_length", "doc_stride", "max_query_length")
    return WindowSizes(*(int(golden[name]) for name in names))


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(find_base("minilm").vocabulary)


def _padded(ragged, sizes: WindowSizes) -> np.ndarray:
    return ragged.to_tensor(shape=[None, sizes.max_seq_length]).numpy()


def test_training_windows_are_the_originals(folder, golden, sizes, tokenizer):
    path = str(folder / "squad_train_sample.json")
    features = span_features(to_train(read_squad(path), path, False), tokenizer, sizes)
    for name, theirs in INPUTS.items():
        np.testing.assert_array_equal(_padded(features[name], sizes), golden[f"train_{theirs}"])
    for name in ("unique_ids", "start_positions", "end_positions"):
        np.testing.assert_array_equal(features[name].flat_values, golden[f"train_{name}"])


def test_answers_are_the_originals(folder, golden, sizes, tokenizer):
    questions = to_predict(read_squad(str(folder / "squad_sample.json")))
    spans = to_windows(questions, tokenizer, sizes)
    for name, theirs in INPUTS.items():
        found = _padded(spans.windows.inputs[name], sizes)
        np.testing.assert_array_equal(found, golden[f"predict_{theirs}"])
    np.testing.assert_array_equal(spans.windows.question, golden["predict_example_index"])
    np.testing.assert_array_equal(spans.windows.number, golden["predict_doc_span_index"])

    logits = np.stack([golden["start_logits"], golden["end_logits"]], axis=-1)
    found = dict(
        zip(questions.ids, find_answers(spans, logits, tokenizer, Decoding()), strict=True)
    )
    expected = json.loads((folder / "predictions.json").read_text())
    assert {name: prediction.text for name, prediction in found.items()} == expected
    for name, n_best in json.loads((folder / "nbest_predictions.json").read_text()).items():
        ours = [answer.to_json() for answer in found[name].n_best]
        assert [answer["text"] for answer in ours] == [answer["text"] for answer in n_best]
        for key in ("probability", "start_logit", "end_logit"):
            np.testing.assert_allclose(
                [answer[key] for answer in ours], [answer[key] for answer in n_best], atol=1e-6
            )
