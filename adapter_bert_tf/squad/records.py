"""Writes and reads training windows as TFRecords, with the feature names of the original."""

from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from adapter_bert_tf.data.records import (
    LABELS,
    ROWS_AT_ONCE,
    cache_path,
    read_columns,
    serialize,
    write_serialized,
)
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.files import exists
from adapter_bert_tf.squad.questions import Questions
from adapter_bert_tf.squad.windows import WindowSizes, answer_positions, to_windows
from adapter_bert_tf.text.inputs import IDS
from adapter_bert_tf.text.tokenizer import Tokenizer

_START, _END = "start_positions", "end_positions"
# The original numbers its windows from here on.
_FIRST_ID = 1_000_000_000


def cached_span_records(
    questions: Questions, tokenizer: Tokenizer, sizes: WindowSizes, cache_dir: str, title: str
) -> str:
    """Returns the TFRecord file of these questions, and writes it if it does not exist yet."""
    answers = [
        answer and (answer.text, answer.first_word, answer.last_word)
        for answer in questions.answers
    ]
    key = (vars(sizes), questions.texts, questions.contexts, questions.context_of, answers)
    path = cache_path(cache_dir, tokenizer, key)
    if not exists(path):
        features = span_features(questions, tokenizer, sizes)
        total = int(features[IDS].nrows())
        write_serialized(path, _serialized(features, total), total, title)
    return path


def span_features(
    questions: Questions, tokenizer: Tokenizer, sizes: WindowSizes
) -> dict[str, tf.RaggedTensor]:
    """Returns the features of the training windows."""
    spans = to_windows(questions, tokenizer, sizes)
    positions = answer_positions(spans, tokenizer)
    impossible = np.array([answer is None for answer in questions.answers], np.int64)
    numbers = {
        "unique_ids": _FIRST_ID + np.arange(len(positions)),
        _START: positions[:, 0],
        _END: positions[:, 1],
        "is_impossible": impossible[spans.windows.question.numpy()],
    }
    columns = {name: _single(values) for name, values in numbers.items()}
    return {**spans.windows.inputs, **columns}


def _single(values: np.ndarray) -> tf.RaggedTensor:
    """Returns a ragged column with one value in each row."""
    return tf.RaggedTensor.from_uniform_row_length(tf.constant(values), 1)


def _serialized(features: dict[str, tf.RaggedTensor], total: int) -> Iterator[np.ndarray]:
    for start in range(0, total, ROWS_AT_ONCE):
        part = {name: values[start : start + ROWS_AT_ONCE] for name, values in features.items()}
        yield serialize(part).numpy()


def read_span_records(path: str) -> dict[str, tf.RaggedTensor | tf.Tensor]:
    """Reads a TFRecord file, ours or the original's. The labels are start and end, `[rows, 2]`."""
    columns = read_columns(path, {_START: tf.int64, _END: tf.int64})
    start, end = columns.pop(_START), columns.pop(_END)
    if not len(start) == len(end) == int(columns[IDS].nrows()):
        raise UserError(f"{path}: has no {_START} and {_END}")
    positions = tf.stack([start, end], axis=1)
    ends = columns[IDS].row_lengths()[:, tf.newaxis]
    if not bool(tf.reduce_all((positions >= 0) & (positions < ends))):
        raise UserError(f"{path}: has positions outside of their rows")
    return {**columns, LABELS: positions}
