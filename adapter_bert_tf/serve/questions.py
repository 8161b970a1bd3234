"""The signature for questions about texts."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from adapter_bert_tf.errors import UserError
from adapter_bert_tf.serve.model import ServedModel
from adapter_bert_tf.serve.requests import Request, Requests, of_one_size
from adapter_bert_tf.serve.rows import concat_loop
from adapter_bert_tf.serve.service import Task
from adapter_bert_tf.squad.answers import Decoding
from adapter_bert_tf.squad.best_answer import best_answers
from adapter_bert_tf.squad.spans import Spans, find_spans
from adapter_bert_tf.squad.windows import Windows, WindowSizes, make_windows, tokenize_contexts
from adapter_bert_tf.text.inputs import IDS

QUESTION, CONTEXT = "question", "context"
ANSWER, SCORE, START, END = "answer", "score", "start", "end"

# Windows that are computed together: a text of a megabyte has thousands.
_TOGETHER = 32


class AnswerQuestions:
    """Answers `question` with a part of `context`, which is read in windows if it is long.

    Args:
      tasks: The tasks that answer questions.
      model: The model.
      requests: Reads their requests.
    """

    def __init__(self, tasks: Sequence[Task], model: ServedModel, requests: Requests):
        self._model, self._requests = model, requests
        self._sizes, self._decoding = _in_common(tasks)
        decodings = [Decoding.of(task.pack.inputs) for task in tasks]
        # Of a task that always has an answer the score of "" is never above.
        self._thresholds = np.array(
            [each.null_threshold if each.with_negative else np.inf for each in decodings],
            np.float32,
        )

    def signature(self) -> tf.types.experimental.ConcreteFunction:
        """The signature."""

        @tf.function(autograph=False)
        def answer(**request: tf.Tensor) -> dict[str, tf.Tensor]:
            return self._answers(request)

        return answer.get_concrete_function(**self._requests.string_specs(QUESTION, CONTEXT))

    def _answers(self, request: Request) -> dict[str, tf.Tensor]:
        request = of_one_size(request)
        tasks = self._requests.tasks_of(request, QUESTION)
        tokenizer = self._requests.tokenizer
        # Bytes that are not UTF-8 would have no place in characters.
        texts = tf.strings.unicode_transcode(request[CONTEXT], "UTF-8", "UTF-8")
        contexts = tokenize_contexts(tokenizer, texts)
        rows = tf.range(tf.size(tasks, tf.int64))
        windows = make_windows(tokenizer, request[QUESTION], contexts, rows, self._sizes)
        logits = self._logits(windows, tasks)
        n_best_size = self._decoding.n_best_size
        spans = find_spans(logits, windows, n_best_size, self._decoding.max_answer_length)
        found = best_answers(tokenizer, contexts, spans, n_best_size)
        odds = _null_odds(windows, logits, spans, tf.size(tasks))
        is_null = odds > tf.gather(self._thresholds, tasks)
        return {
            ANSWER: tf.where(is_null, "", found["answer"]),
            SCORE: tf.where(is_null, tf.sigmoid(odds), found["score"]),
            START: tf.where(is_null, tf.zeros_like(found["start"]), found["start"]),
            END: tf.where(is_null, tf.zeros_like(found["end"]), found["end"]),
        }

    def _logits(self, windows: Windows, tasks: tf.Tensor) -> tf.Tensor:
        """Logits of start and end, `[windows, positions, 2]`."""
        tasks = tf.gather(tasks, windows.question)

        def part(number: tf.Tensor) -> tf.Tensor:
            chosen = slice(number * _TOGETHER, (number + 1) * _TOGETHER)
            inputs = {name: values[chosen] for name, values in windows.inputs.items()}
            rows = self._requests.line_up(inputs, tasks[chosen])
            logits = self._model.outputs(rows, "sequence_output", lambda _, logits: logits, 2)
            by_row = tf.RaggedTensor.from_row_lengths(logits, rows.lengths)
            return rows.in_order(by_row).flat_values

        count = (tf.size(tasks) + _TOGETHER - 1) // _TOGETHER
        flat = concat_loop(part, count, width=2)
        lengths = windows.inputs[IDS].row_lengths()
        return tf.RaggedTensor.from_row_lengths(flat, lengths).to_tensor(tf.float32.min)


def _in_common(tasks: Sequence[Task]) -> tuple[WindowSizes, Decoding]:
    """How all of the tasks cut contexts and choose answers; thresholds may differ."""
    first = tasks[0]
    for task in tasks:
        for kind in (WindowSizes, Decoding):
            ours, theirs = vars(kind.of(task.pack.inputs)), vars(kind.of(first.pack.inputs))
            for name in ours.keys() - {"with_negative", "null_threshold"}:
                if ours[name] != theirs[name]:
                    raise UserError(
                        f"{task.name}: has {name}={ours[name]}, {first.name} {theirs[name]}; "
                        "they can't be in one export"
                    )
    return WindowSizes.of(first.pack.inputs), Decoding.of(first.pack.inputs)


def _null_odds(windows: Windows, logits: tf.Tensor, spans: Spans, questions: int) -> tf.Tensor:
    """By how much the score of "" is above that of the best span, for each question."""
    null = tf.reduce_sum(logits[:, :1], axis=[1, 2])
    lowest = tf.math.unsorted_segment_min(null, windows.question, questions)
    scores = spans.start_logit + spans.end_logit
    return lowest - tf.math.unsorted_segment_max(scores, spans.question, questions)
