import numpy as np
import pytest
import tensorflow as tf

from adapter_bert_tf.squad.answers import Decoding, find_answers
from adapter_bert_tf.squad.best_answer import best_answers
from adapter_bert_tf.squad.questions import Questions
from adapter_bert_tf.squad.spans import find_spans
from adapter_bert_tf.squad.windows import WindowSizes, to_windows
from adapter_bert_tf.text.tokenizer import Tokenizer, Vocabulary
from tests import squad_lib

TOKENS = "[PAD] [UNK] [CLS] [SEP] un ##able a ##b banana b the re ##sume e ( ) - ' s ##s 中 ss"
SIZES = WindowSizes(max_seq_length=28, doc_stride=7, max_query_length=6)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(Vocabulary(tuple(TOKENS.split()), lower_case=True))


def _ask(contexts: list[str], tokenizer: Tokenizer, seed: int):
    count = len(contexts)
    questions = Questions([""] * count, ["the banana"] * count, contexts, list(range(count)))
    spans = to_windows(questions, tokenizer, SIZES)
    random = np.random.default_rng(seed)
    shape = [spans.windows.question.shape[0], SIZES.max_seq_length, 2]
    return spans, random.normal(size=shape).astype(np.float32)


def _best(spans, logits, tokenizer: Tokenizer) -> dict[str, np.ndarray]:
    @tf.function
    def best(logits: tf.Tensor) -> dict[str, tf.Tensor]:
        found = find_spans(logits, spans.windows, 20, 8)
        return best_answers(tokenizer, spans.contexts, found, 20)

    return {name: values.numpy() for name, values in best(logits).items()}


@pytest.mark.parametrize("seed", range(5))
def test_the_graph_answers_as_python_does(seed, tokenizer):
    words = ["unable", "ab", "banana", "resume", "the", "Résumé", "bab", "unknown"]
    articles = squad_lib.articles(seed, words, paragraphs=40)
    contexts = ["", *(article["paragraphs"][0]["context"] for article in articles), " "]
    spans, logits = _ask(contexts, tokenizer, seed)
    found = _best(spans, logits, tokenizer)
    expected = find_answers(spans, logits, tokenizer, Decoding(20, 8))
    for row, (context, prediction) in enumerate(zip(contexts, expected, strict=True)):
        place = prediction.n_best[0].place(context)
        if place is None:
            assert found["answer"][row] == b""
            continue
        assert found["answer"][row].decode() == prediction.text
        start, end = found["start"][row], found["end"][row]
        assert context.encode()[start:end].decode() == context[slice(*place)]
        assert 0 < found["score"][row] <= 1


def test_no_context_at_all(tokenizer):
    spans, logits = _ask([], tokenizer, 0)
    assert all(values.shape == (0,) for values in _best(spans, logits, tokenizer).values())
