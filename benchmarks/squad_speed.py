"""SQuAD's features and answers against Model Garden's `squad_lib`, with the same results.

    python benchmarks/squad_speed.py --data=dev-v1.1.json

Both read the file, tokenise and cut windows; then both find answers from the same random logits.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import collections
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from absl import app, flags
from official.nlp.data import squad_lib
from official.nlp.tools import tokenization
from timing import load_line

from adapter_bert_tf.base.load import find_base
from adapter_bert_tf.squad.decoder import Decoding, find_answers
from adapter_bert_tf.squad.questions import read_squad, to_predict
from adapter_bert_tf.squad.windows import SpanWindows, WindowSizes, to_windows
from adapter_bert_tf.text.inputs import IDS
from adapter_bert_tf.text.tokenizer import Tokenizer

_DATA = flags.DEFINE_string("data", None, "A SQuAD file.", required=True)
_SIZES = {"max_seq_length": 384, "doc_stride": 128, "max_query_length": 64}
_N_BEST, _LONGEST = 20, 30


def _their_tokenizer(tokens: tuple[str, ...]) -> tokenization.FullTokenizer:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "vocab.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{token}\n" for token in tokens)
        return tokenization.FullTokenizer(path, do_lower_case=True)


def _their_features(tokenizer: tokenization.FullTokenizer) -> tuple[list, list]:
    examples = squad_lib.read_squad_examples(_DATA.value, False, False)
    features: list = []
    squad_lib.convert_examples_to_features(
        examples,
        tokenizer,
        is_training=False,
        output_fn=lambda feature, is_padding: None if is_padding else features.append(feature),
        batch_size=1,
        **_SIZES,
    )
    return examples, features


def _their_answers(examples: list, features: list, logits: np.ndarray) -> dict[str, str]:
    result = collections.namedtuple("result", ["unique_id", "start_logits", "end_logits"])
    results = [
        result(feature.unique_id, row[:, 0].tolist(), row[:, 1].tolist())
        for feature, row in zip(features, logits, strict=True)
    ]
    return squad_lib.postprocess_output(
        examples, features, results, _N_BEST, _LONGEST, do_lower_case=True
    )[0]


def _our_features(tokenizer: Tokenizer) -> SpanWindows:
    return to_windows(to_predict(read_squad(_DATA.value)), tokenizer, WindowSizes(**_SIZES))


def _our_answers(spans: SpanWindows, logits: np.ndarray, tokenizer: Tokenizer) -> dict[str, str]:
    predictions = find_answers(spans, logits, tokenizer, Decoding(_N_BEST, _LONGEST))
    texts = [prediction.text for prediction in predictions]
    return dict(zip(spans.questions.ids, texts, strict=True))


def _timed(call: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = call()
    return result, time.perf_counter() - start


def _report(title: str, ours: float, theirs: float) -> None:
    ratio = theirs / ours
    print(f"{title}: {ratio:.1f} x as fast (ours {ours:.2f} s, Model Garden {theirs:.2f} s)")


def main(_) -> None:
    vocabulary = find_base("minilm").vocabulary
    tokenizer = Tokenizer(vocabulary)
    spans, ours = _timed(lambda: _our_features(tokenizer))
    their_tokenizer = _their_tokenizer(vocabulary.tokens)
    (examples, features), theirs = _timed(lambda: _their_features(their_tokenizer))
    their_ids = [feature.input_ids for feature in features]
    np.testing.assert_array_equal(spans.windows.inputs[IDS].to_tensor(), their_ids)
    print(f"{len(examples):,} questions, {len(features):,} windows; {load_line()}")
    _report("features", ours, theirs)

    shape = (len(features), _SIZES["max_seq_length"], 2)
    logits = np.random.default_rng(0).normal(scale=3.0, size=shape).astype(np.float32)
    our_answers, ours = _timed(lambda: _our_answers(spans, logits, tokenizer))
    their_answers, theirs = _timed(lambda: _their_answers(examples, features, logits))
    assert our_answers == dict(their_answers)
    _report("answers", ours, theirs)


if __name__ == "__main__":
    app.run(main)
