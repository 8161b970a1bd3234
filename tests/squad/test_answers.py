import json

import numpy as np
import pytest

from adapter_bert_tf.squad.answers import Decoding, find_answers
from adapter_bert_tf.squad.questions import Questions, read_squad, to_predict
from adapter_bert_tf.squad.windows import WindowSizes, to_windows
from adapter_bert_tf.text.tokenizer import Tokenizer, read_vocabulary
from tests import squad_lib

PIECES = ["un", "##able", "a", "##b", "banana", "b", "the", "re", "##sume", "e", "(", ")", "-", "'"]


@pytest.fixture(scope="module")
def vocab_file(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "s", "##s", "中", "ss", "##ss", "…", *PIECES]
    path.write_text("\n".join(tokens) + "\n")
    return str(path)


@pytest.fixture(scope="module")
def tokenizer(vocab_file) -> Tokenizer:
    return Tokenizer(read_vocabulary(vocab_file, lower_case=True))


def _logits(seed: int, windows: int, length: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    # Few values, so that there are ties.
    return random.integers(-4, 5, size=[windows, length, 2]).astype(np.float32)


@pytest.mark.parametrize("seed", range(12))
def test_windows_and_answers_are_model_gardens(seed, tokenizer, vocab_file, tmp_path):
    negative = seed % 2 == 1
    sizes = WindowSizes(max_seq_length=24 + seed, doc_stride=3 + seed % 7, max_query_length=6)
    words = ["unable", "ab", "banana", "resume", "the", "Résumé", "bab"]
    path = tmp_path / "squad.json"
    path.write_text(json.dumps({"data": squad_lib.articles(seed, words, negative=negative)}))
    examples, features = squad_lib.features(str(path), vocab_file, sizes, False, negative)
    spans = to_windows(to_predict(read_squad(str(path))), tokenizer, sizes)
    ids = spans.windows.inputs["input_word_ids"].to_tensor(shape=[None, sizes.max_seq_length])
    np.testing.assert_array_equal(ids, [feature.input_ids for feature in features])

    logits = _logits(seed, len(features), sizes.max_seq_length)
    texts, n_best, odds = squad_lib.answers(examples, features, logits, 5, 8, negative)
    found = find_answers(spans, logits, tokenizer, Decoding(5, 8, negative))
    assert [prediction.text for prediction in found] == list(texts.values())
    for prediction, expected in zip(found, n_best.values(), strict=True):
        ours = [(answer.text, pytest.approx(answer.probability)) for answer in prediction.n_best]
        assert ours == [(answer["text"], answer["probability"]) for answer in expected]
    if negative:
        assert [prediction.null_odds for prediction in found] == pytest.approx(list(odds.values()))


def _spans(context: str, tokenizer: Tokenizer):
    questions = Questions(["q"], ["the"], [context], [0])
    return to_windows(questions, tokenizer, WindowSizes(64, 16, 8))


@pytest.mark.parametrize("seed", range(8))
def test_an_answer_stands_where_it_says(seed, tokenizer):
    context = squad_lib.articles(seed, ["unable", "ab", "Résumé"])[0]["paragraphs"][0]["context"]
    spans = _spans(context, tokenizer)
    logits = _logits(seed, spans.windows.question.shape[0], 64)
    for answer in find_answers(spans, logits, tokenizer, Decoding())[0].n_best:
        start, end = answer.place(context)
        # Words are joined with single spaces, whatever stands between them.
        assert answer.text.replace(" ", "") == "".join(context[start:end].split(" ")).translate(
            str.maketrans("", "", "\t\r\n\u202f")
        )


def test_a_question_without_a_context_has_no_answer(tokenizer):
    logits = np.zeros([0, 1, 2], np.float32)
    spans = _spans("", tokenizer)
    assert find_answers(spans, logits, tokenizer, Decoding())[0].text == "empty"
    assert find_answers(spans, logits, tokenizer, Decoding(with_negative=True))[0].text == ""


def test_no_answer_follows_the_threshold(tokenizer):
    spans = _spans("unable banana", tokenizer)
    logits = np.full([1, 8, 2], -9.0, np.float32)
    logits[0, 0] = 1.0
    logits[0, 3, 0] = logits[0, 4, 1] = 0.0
    below, above = (
        find_answers(spans, logits, tokenizer, Decoding(20, 30, True, threshold))[0]
        for threshold in (1.9, 2.1)
    )
    assert below.null_odds == above.null_odds == pytest.approx(2.0)
    assert (below.text, above.text) == ("", "unable")
    assert below.best == "unable"
