"""Turns requests into rows, and refuses invalid requests with an error that says why."""

from collections.abc import Sequence

import tensorflow as tf

from adapter_bert_tf.serve.rows import POSITIONS, Rows
from adapter_bert_tf.serve.service import Service
from adapter_bert_tf.text.inputs import IDS, MASK, SEGMENTS, encode
from adapter_bert_tf.text.tokenizer import Tokenizer

TASK, TEXT, TEXT_PAIR, REQUEST = "task", "text", "text_pair", "request"

# The operations of tf-text that the tokenizer uses. TF Serving's binaries are linked with tf-text's
# `ops_lib`, which has contained these two since before 2.12. Other operations of tf-text came later
# (RoundRobinTrimmer's in 2.20) or are not part of it.
TEXT_OPS = frozenset({"NormalizeUTF8", "FastWordpieceTokenizeWithOffsets"})

# The number of a request's values that an error message shows.
_SHOWN = 3

Request = dict[str, tf.Tensor]


class Requests:
    """Reads the requests to a signature.

    Args:
      service: What is served.
      numbers: The numbers of the tasks that the signature answers for.
    """

    def __init__(self, service: Service, numbers: Sequence[int]):
        self._numbers, self._several = list(numbers), len(service.tasks) > 1
        tasks = [service.tasks[number] for number in numbers]
        self._names = [task.name for task in tasks]
        self._pairs = [task.pair for task in tasks]
        self._lengths = [task.max_seq_length for task in tasks]
        self._longest = service.base.config.max_sequence_length
        self.tokenizer = Tokenizer(service.vocabulary)

    def text_specs(self) -> dict[str, tf.TensorSpec]:
        """Returns the inputs of a request with texts."""
        return self.string_specs(TEXT, *([TEXT_PAIR] if any(self._pairs) else []))

    def string_specs(self, *names: str) -> dict[str, tf.TensorSpec]:
        """Returns the inputs of a request that has a string for each row under these names."""
        strings = {name: tf.TensorSpec([None], tf.string, name) for name in names}
        return {**strings, **self.task_spec()}

    def token_specs(self) -> dict[str, tf.TensorSpec]:
        """Returns the inputs of a request with tokens."""
        names = (IDS, MASK, SEGMENTS)
        tokens = {name: tf.TensorSpec([None, None], tf.int32, name) for name in names}
        return {**tokens, **self.task_spec()}

    def task_spec(self) -> dict[str, tf.TensorSpec]:
        """Returns the input that names each row's task. A single task needs no name."""
        if not self._several:
            return {}
        return {TASK: tf.TensorSpec([None], tf.string, TASK)}

    def rows_of_texts(self, request: Request) -> Rows:
        """Tokenises the texts of each row in the way in which its task was trained."""
        request = of_one_size(request)
        tasks = self.tasks_of(request, TEXT)
        return self.line_up(self._encode(request, tasks), tasks)

    def line_up(self, inputs: dict[str, tf.RaggedTensor], tasks: tf.Tensor) -> Rows:
        """Returns rows for BERT's inputs, given the task of each row."""
        positions = tf.ragged.range(tf.cast(inputs[IDS].row_lengths(), tf.int32))
        return Rows.line_up({**inputs, POSITIONS: positions}, tf.gather(self._numbers, tasks))

    def tasks_of(self, request: Request, name: str) -> tf.Tensor:
        """Returns the task of each row of the input `name`, as an index into `numbers`."""
        return self._tasks(request, tf.shape(request[name])[:1])

    def rows_of_tokens(self, request: Request) -> Rows:
        """Returns rows of the tokens whose mask is 1."""
        request = of_one_size(request)
        ids = request[IDS]
        tasks = tf.gather(self._numbers, self.tasks_of(request, IDS))
        marked = request[MASK] > 0
        checked = [
            _assert(tf.reduce_all(tf.reduce_any(marked, axis=1)), [f"{MASK}: a row of zeros"]),
            _assert(
                tf.shape(ids)[1] <= self._longest,
                [f"{IDS}: more than {self._longest} tokens in a row"],
            ),
        ]
        with tf.control_dependencies(checked):
            marked = tf.identity(marked)
        positions = tf.range(tf.shape(ids)[1])[None] + tf.zeros_like(ids)
        inputs = {IDS: ids, SEGMENTS: request[SEGMENTS], POSITIONS: positions}
        return Rows.line_up(
            {name: tf.ragged.boolean_mask(value, marked) for name, value in inputs.items()}, tasks
        )

    def _tasks(self, request: Request, shape: tf.Tensor) -> tf.Tensor:
        if TASK not in request:
            return tf.zeros(shape, tf.int32)
        asked = request[TASK]
        matches = asked[:, None] == tf.constant(self._names)[None]
        known = tf.reduce_any(matches, axis=1)
        unknown = tf.boolean_mask(asked, ~known)
        told = ["unknown task", unknown, f"known are {', '.join(self._names)}"]
        with tf.control_dependencies([_assert(tf.reduce_all(known), told)]):
            return tf.argmax(matches, axis=1, output_type=tf.int32)

    def _encode(self, request: Request, tasks: tf.Tensor) -> dict[str, tf.RaggedTensor]:
        room = tf.gather(tf.constant(self._lengths, tf.int64), tasks)
        if TEXT_PAIR not in request:
            return encode(self.tokenizer, request[TEXT], None, room)
        # A task without pairs does not read the second text. An empty one is no second text.
        pairs = tf.where(tf.gather(self._pairs, tasks), request[TEXT_PAIR], "")
        return encode(self.tokenizer, request[TEXT], pairs, room)


def of_one_size(request: Request) -> Request:
    """Returns the request unchanged, but refuses inputs with different numbers of rows."""
    rows = tf.stack([tf.shape(value)[0] for value in request.values()])
    told = ["inputs of different numbers of rows", rows]
    with tf.control_dependencies([_assert(tf.reduce_all(rows == rows[0]), told)]):
        return {name: tf.identity(value) for name, value in request.items()}


def _assert(condition: tf.Tensor, told: list) -> tf.Operation:
    return tf.debugging.Assert(condition, told, summarize=_SHOWN)
