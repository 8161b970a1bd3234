import dataclasses
import json
import re

import numpy as np
import pytest
import tensorflow as tf

from adapter_bert_tf.squad import decoder
from adapter_bert_tf.squad.decoder import Answered, Decoded, Decoding, decode, find_answers
from adapter_bert_tf.squad.questions import Questions, read_squad, to_predict
from adapter_bert_tf.squad.windows import SpanWindows, WindowSizes, to_windows
from adapter_bert_tf.text.tokenizer import Tokenizer, read_vocabulary
from tests import squad_lib

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
PIECES = ["s", "##s", "中", "ss", "##ss", "…", "un", "##able", "a", "##b", "banana", "b", "the"]
PIECES += ["re", "##sume", "e", "(", ")", "-", ",", "'", "##n", "##an"]
WORDS = ["unable", "ab", "banana", "resume", "the", "Résumé", "bab", "unknown"]
# Parts of these occur earlier in the same word, which is where the original finds them.
REPEATING = ["ab-a", "ab-ab", "(b)b-ab", "ss-s", "中b中b", "a-an", "é-e-é", "--a--ab", "b", "ab"]
SIZES = WindowSizes(max_seq_length=28, doc_stride=7, max_query_length=6)


@pytest.fixture(scope="module")
def vocab_file(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    path.write_text("\n".join(SPECIAL + PIECES) + "\n")
    return str(path)


@pytest.fixture(scope="module")
def tokenizer(vocab_file) -> Tokenizer:
    return Tokenizer(read_vocabulary(vocab_file, lower_case=True))


def _logits(seed: int, windows: int, length: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    # Few values, so that there are ties.
    return random.integers(-4, 5, size=[windows, length, 2]).astype(np.float32)


def _check_against_model_garden(
    seed, words, sizes, n_best_size, longest, tokenizer, vocab_file, folder
):
    negative = seed % 2 == 1
    path = folder / "squad.json"
    path.write_text(json.dumps({"data": squad_lib.articles(seed, words, negative=negative)}))
    examples, features = squad_lib.features(str(path), vocab_file, sizes, False, negative)
    spans = to_windows(to_predict(read_squad(str(path))), tokenizer, sizes)
    ids = spans.windows.inputs["input_word_ids"].to_tensor(shape=[None, sizes.max_seq_length])
    np.testing.assert_array_equal(ids, [feature.input_ids for feature in features])

    logits = _logits(seed, len(features), sizes.max_seq_length)
    texts, n_best, odds = squad_lib.answers(
        examples, features, logits, n_best_size, longest, negative
    )
    found = find_answers(spans, logits, tokenizer, Decoding(n_best_size, longest, negative))
    assert [prediction.text for prediction in found] == list(texts.values())
    for prediction, expected in zip(found, n_best.values(), strict=True):
        ours = [answer.to_json() for answer in prediction.n_best]
        assert [answer["text"] for answer in ours] == [answer["text"] for answer in expected]
        for name in ("probability", "start_logit", "end_logit"):
            theirs = [answer[name] for answer in expected]
            assert [answer[name] for answer in ours] == pytest.approx(theirs, abs=1e-6)
    if negative:
        assert [prediction.null_odds for prediction in found] == pytest.approx(list(odds.values()))
    else:
        assert {prediction.null_odds for prediction in found} == {None}


@pytest.mark.parametrize("seed", range(12))
def test_windows_and_answers_are_model_gardens(seed, tokenizer, vocab_file, tmp_path):
    sizes = WindowSizes(max_seq_length=24 + seed, doc_stride=3 + seed % 7, max_query_length=6)
    words = [*WORDS, *REPEATING]
    _check_against_model_garden(seed, words, sizes, 5, 8, tokenizer, vocab_file, tmp_path)


@pytest.mark.parametrize("seed", range(8))
def test_texts_that_repeat_are_listed_once_as_in_model_garden(
    seed, tokenizer, vocab_file, tmp_path
):
    # Few texts are different, so that the first round of spans does not have enough of them.
    words = REPEATING[seed:] if seed < 6 else ["b", "banana"]
    sizes = WindowSizes(max_seq_length=48, doc_stride=9, max_query_length=6)
    _check_against_model_garden(seed, words, sizes, 20, 3, tokenizer, vocab_file, tmp_path)


def _spans(contexts: list[str], tokenizer: Tokenizer, sizes: WindowSizes = SIZES) -> SpanWindows:
    count = len(contexts)
    questions = Questions([""] * count, ["the banana"] * count, contexts, list(range(count)))
    return to_windows(questions, tokenizer, sizes)


def _random_logits(spans: SpanWindows, seed: int, sizes: WindowSizes = SIZES) -> np.ndarray:
    shape = [spans.windows.question.shape[0], sizes.max_seq_length, 2]
    return np.random.default_rng(seed).normal(size=shape, scale=2.0).astype(np.float32)


def _contexts(seed: int) -> list[str]:
    articles = squad_lib.articles(seed, [*WORDS, *REPEATING], paragraphs=20)
    return ["", *(article["paragraphs"][0]["context"] for article in articles), " ", "\0"]


def _check_place(answer, context: str) -> None:
    """Words are joined with single spaces, whatever stands between them."""
    start, end = answer.place(context)
    assert " ".join(re.findall(r"[^ \t\r\n\u202f]+", context[start:end])) == answer.text
    assert context[start:end].strip(" \t\r\n\u202f") == context[start:end]


@pytest.mark.parametrize("seed", range(4))
def test_an_answer_stands_where_it_says(seed, tokenizer):
    contexts = _contexts(seed)
    spans = _spans(contexts, tokenizer)
    found = find_answers(spans, _random_logits(spans, seed), tokenizer, Decoding(20, 8))
    for context, prediction in zip(contexts, found, strict=True):
        for answer in prediction.n_best:
            if context.strip(" \0"):
                _check_place(answer, context)
            else:
                assert (answer.text, answer.place(context)) == ("empty", None)


def _in_graph(spans: SpanWindows, logits: np.ndarray, tokenizer, decoding: Decoding) -> Decoded:
    context_of = tf.constant(spans.questions.context_of, tf.int64)

    @tf.function(input_signature=[tf.TensorSpec([None, None, 2])], autograph=False)
    def run(logits: tf.Tensor) -> dict:
        found = decode(tokenizer, spans.contexts, spans.windows, context_of, logits, decoding)
        return vars(found)

    return Decoded(**run(logits))


def _check_choice(found: Decoded, row: int, expected: Answered) -> None:
    """The row of a graph's answers is what a file's predictions have, but for "empty"."""
    chosen = expected.chosen
    no_span = not chosen.end
    assert found.text[row].numpy().decode() == ("" if no_span else expected.text)
    assert (found.start[row], found.end[row]) == (chosen.start, chosen.end)
    probability = 0.0 if chosen.text == "empty" else chosen.probability
    assert float(found.score[row]) == pytest.approx(probability, abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_questions_of_a_batch_may_have_their_own_thresholds(seed, tokenizer):
    spans = _spans(_contexts(seed), tokenizer)
    logits = _random_logits(spans, seed)
    # About as good as the best span.
    logits[:, 0] += 5.0
    decodings = [Decoding(6, 8), Decoding(6, 8, True, -1.5), Decoding(6, 8, True, 2.5)]
    expected = [find_answers(spans, logits, tokenizer, each) for each in decodings]
    row_of = np.arange(len(spans.questions)) % 3
    mixed = dataclasses.replace(
        decodings[0],
        with_negative=tf.constant(row_of > 0),
        null_threshold=tf.constant(np.array([0.0, -1.5, 2.5])[row_of]),
    )
    found = _in_graph(spans, logits, tokenizer, mixed)
    for row, number in enumerate(row_of):
        _check_choice(found, row, expected[number][row])
    texts = [{prediction.text for prediction in predictions[1:-2]} for predictions in expected]
    assert "" not in texts[0]
    assert "" in texts[1]


def _check_equal(found: list[Answered], expected: list[Answered]) -> None:
    """Compares predictions; the last bits of `exp` depend on the place in a tensor."""
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert (ours.text, ours.null_odds) == (theirs.text, theirs.null_odds)
        assert [answer._replace(probability=0.0) for answer in ours.n_best] == [
            answer._replace(probability=0.0) for answer in theirs.n_best
        ]
        assert [answer.probability for answer in ours.n_best] == pytest.approx(
            [answer.probability for answer in theirs.n_best]
        )


def test_a_question_is_answered_alone_as_in_a_batch(tokenizer, monkeypatch):
    spans = _spans(_contexts(5), tokenizer)
    logits = _random_logits(spans, 5)
    decoding = Decoding(6, 8, True)
    together = find_answers(spans, logits, tokenizer, decoding)
    monkeypatch.setattr(decoder, "_WINDOWS_TOGETHER", 1)
    _check_equal(find_answers(spans, logits, tokenizer, decoding), together)


def test_contexts_may_be_shared_in_any_order(tokenizer):
    contexts = ["unable banana", "the resume", "ab ab"]
    order = [2, 0, 1, 0, 2]
    shared = to_windows(Questions([""] * 5, ["the"] * 5, contexts, order), tokenizer, SIZES)
    alone = [contexts[number] for number in order]
    own = to_windows(Questions([""] * 5, ["the"] * 5, alone, [*range(5)]), tokenizer, SIZES)
    logits = _random_logits(shared, 0)
    expected = find_answers(own, logits, tokenizer, Decoding())
    _check_equal(find_answers(shared, logits, tokenizer, Decoding()), expected)


@pytest.mark.parametrize(
    ("context", "first", "last", "expected", "place"),
    [
        # The first "ab" has no space in it.
        ("Ab-A b", 3, 4, "A b", (3, 6)),
        # The text of tokens is found where it occurs first in their words.
        ("Ab-ab", 3, 4, "Ab", (0, 2)),
        ("b Ab-ab", 4, 5, "Ab", (2, 4)),
        ("A-aB", 3, 3, "B", (3, 4)),
        # Whole words, as an accent is dropped or a word is unknown.
        ("(E\u0301)", 1, 1, "(E\u0301)", (0, 4)),
        ("(x) b", 1, 1, "(x)", (0, 3)),
        ("(x) b", 2, 3, ") b", (2, 5)),
    ],
)
def test_tokens_are_found_in_their_words(context, first, last, expected, place, tokenizer):
    spans = _spans([context], tokenizer)
    logits = np.zeros([1, SIZES.max_seq_length, 2], np.float32)
    offset = int(spans.windows.offset[0])
    logits[0, offset + first, 0] = logits[0, offset + last, 1] = 9.0
    best = find_answers(spans, logits, tokenizer, Decoding())[0].n_best[0]
    assert (best.text, best.place(context)) == (expected, place)


def test_rounds_go_on_until_there_are_enough_texts(tokenizer):
    # Forty times "b" is better than anything else.
    spans = _spans(["b " * 40 + "banana unable"], tokenizer, WindowSizes(64, 16, 6))
    logits = np.full([1, 64, 2], -50.0, np.float32)
    offset = int(spans.windows.offset[0])
    logits[0, offset : offset + 40] = 5.0
    logits[0, offset + 40 : offset + 43] = np.arange(3)[:, np.newaxis]
    found = find_answers(spans, logits, tokenizer, Decoding(60, 1))[0]
    # "un" and "##able" are both tokens of "unable".
    assert [answer.text for answer in found.n_best] == ["b", "able", "un", "banana"]
    three = find_answers(spans, logits, tokenizer, Decoding(43, 1))[0]
    assert three == found


HOSTILE = {
    "a long word": "x" * 100_000,
    "a long word of one sign": "-" * 20_000,
    "a long word that repeats": "ab-" * 7_000,
    "a long word with accents": "é," * 10_000,
    "no spaces": "中a中b" * 3_000,
    "many windows": "b-b banana " * 3_000,
    "zeros": "a\0b \0 ab",
    "lone surrogates": "a\ud800b \udfff ab",
    "newer punctuation": "ab\u1b4eab b\U00011be1b ab",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_contexts_have_answers_that_stand_in_them(name, tokenizer):
    context = HOSTILE[name]
    spans = _spans([context, "the banana"], tokenizer)
    logits = _random_logits(spans, 1)
    found = find_answers(spans, logits, tokenizer, Decoding(20, 8))
    texts = [answer.text for answer in found[0].n_best]
    assert len(set(texts)) == len(texts) > 0
    for answer in found[0].n_best:
        _check_place(answer, context)
    alone = _spans(["the banana"], tokenizer)
    last = find_answers(alone, logits[-1:], tokenizer, Decoding(20, 8))
    _check_equal(found[1:], last)


def test_a_question_without_a_context_has_no_answer(tokenizer):
    logits = np.zeros([0, 1, 2], np.float32)
    spans = _spans([""], tokenizer)
    without = find_answers(spans, logits, tokenizer, Decoding())[0]
    assert (without.text, without.chosen.probability, without.null_odds) == ("empty", 1.0, None)
    negative = find_answers(spans, logits, tokenizer, Decoding(with_negative=True))[0]
    assert (negative.text, negative.null_odds) == ("", 1_000_000.0)
    # A model that is given no windows has no positions either.
    found = _in_graph(spans, np.zeros([0, 0, 2], np.float32), tokenizer, Decoding())
    _check_choice(found, 0, without)
    nothing = _in_graph(_spans([], tokenizer), logits, tokenizer, Decoding())
    assert nothing.text.shape == nothing.score.shape == (0,)


def test_no_answer_follows_the_threshold(tokenizer):
    questions = Questions(["q"], ["the"], ["unable banana"], [0])
    spans = to_windows(questions, tokenizer, SIZES)
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
    assert below.chosen.probability > above.chosen.probability
