"""Turns requests into rows, and says of each row that can't be answered why.

A server may merge the requests of several users into one batch. So a row that makes no sense must
not fail the batch: it gets an error of its own.
"""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from adapter_bert_tf.errors import some
from adapter_bert_tf.serve.lineup import POSITIONS, Lineup
from adapter_bert_tf.serve.service import Service
from adapter_bert_tf.text.inputs import IDS, MASK, SEGMENTS, encode
from adapter_bert_tf.text.tokenizer import Tokenizer

TASK, TASKS, TEXT, TEXT_PAIR, REQUEST = "task", "tasks", "text", "text_pair", "request"

# The operations of tf-text that the tokenizer uses. TF Serving's binaries are linked with tf-text's
# `ops_lib`, which has contained these two since before 2.12. Other operations of tf-text came later
# (RoundRobinTrimmer's in 2.20) or are not part of it.
TEXT_OPS = frozenset({"NormalizeUTF8", "FastWordpieceTokenizeWithOffsets"})

# The number of a request's values that an error message shows.
_SHOWN = 3
# The longest part of a task's name that an error repeats, in characters.
_NAME = 60

Request = dict[str, tf.Tensor]


class Asked(NamedTuple):
    """The rows of a request.

    Args:
      lineup: The rows as the model computes them. A row that is refused is in it too, as an empty
        text of some task, so that nothing has to be left out and put back.
      errors: What is wrong with each row, `[rows]`, or "".
      refused: Whether each row gets no answer.
    """

    lineup: Lineup
    errors: tf.Tensor
    refused: tf.Tensor


class Requests:
    """Reads the requests to a signature.

    Args:
      service: What is served.
      numbers: The numbers of the tasks that the signature answers for.
    """

    def __init__(self, service: Service, numbers: Sequence[int]):
        self._numbers, self._several = list(numbers), len(service.tasks) > 1
        tasks = [service.tasks[number] for number in numbers]
        self.names = [task.name for task in tasks]
        self._pairs = [task.pair for task in tasks]
        self._lengths = [task.max_seq_length for task in tasks]
        self._config = service.base.config
        self.tokenizer = Tokenizer(service.vocabulary)
        # Of all tasks of the export, because a request may name those of another signature.
        self._all_names = [task.name for task in service.tasks]
        self._elsewhere = [
            "" if number in numbers else f"{task.name}: ask the signature {task.head.signature}"
            for number, task in enumerate(service.tasks)
        ]
        index = {number: i for i, number in enumerate(numbers)}
        self._index = [index.get(number, 0) for number in range(len(service.tasks))]

    def text_specs(self) -> dict[str, tf.TensorSpec]:
        """Returns the inputs of a request with texts."""
        return {**self.texts_alone_specs(), **self.task_spec()}

    def texts_alone_specs(self) -> dict[str, tf.TensorSpec]:
        """Returns the inputs of a request with texts that names no tasks."""
        return string_specs(TEXT, *([TEXT_PAIR] if any(self._pairs) else []))

    def token_specs(self) -> dict[str, tf.TensorSpec]:
        """Returns the inputs of a request with tokens."""
        names = (IDS, MASK, SEGMENTS)
        tokens = {name: tf.TensorSpec([None, None], tf.int32, name) for name in names}
        return {**tokens, **self.task_spec()}

    def task_spec(self) -> dict[str, tf.TensorSpec]:
        """Returns the input that names each row's task. A single task needs no name."""
        return string_specs(TASK) if self._several else {}

    def read_texts(self, request: Request) -> Asked:
        """Tokenises the texts of each row in the way in which its task was trained."""
        request = of_one_size(request)
        tasks, errors = self.find_tasks(request, TEXT)
        return self._encode(request, tasks, errors, errors != "")

    def read_texts_for_all(self, request: Request) -> tuple[Asked, tf.Tensor]:
        """Asks all tasks about each text, or those that the request names.

        Returns:
          A row for each text and task, the tasks of a text side by side, and the names of the
          tasks, `[texts, tasks]`, with "" where a task was not asked.
        """
        request = of_one_size(request)
        texts, count = tf.size(request[TEXT]), len(self._numbers)
        chosen, errors = self._choose(request.pop(TASKS, tf.fill([texts], "")))
        each = {name: tf.repeat(values, count) for name, values in request.items()}
        tasks, errors = tf.tile(tf.range(count), [texts]), tf.repeat(errors, count)
        refused = ~tf.reshape(chosen, [-1]) | (errors != "")
        names = tf.where(chosen, tf.constant(self.names)[None], "")
        return self._encode(each, tasks, errors, refused), names

    def _encode(
        self, request: Request, tasks: tf.Tensor, errors: tf.Tensor, refused: tf.Tensor
    ) -> Asked:
        tasks = tf.where(refused, 0, tasks)
        room = tf.gather(tf.constant(self._lengths, tf.int64), tasks)
        texts = tf.where(refused, "", request[TEXT])
        if TEXT_PAIR not in request:
            inputs = encode(self.tokenizer, texts, None, room)
        else:
            # A task without pairs does not read the second text. An empty one is no second text,
            # as in training, but hardly what was meant.
            is_pair = tf.gather(self._pairs, tasks) & ~refused
            pairs = tf.where(is_pair, request[TEXT_PAIR], "")
            inputs = encode(self.tokenizer, texts, pairs, room)
            is_alone = is_pair & (tf.reduce_max(inputs[SEGMENTS], axis=1) == 0)
            told = [f"{TEXT_PAIR}: is empty, but {name} is about two texts" for name in self.names]
            errors = tf.where(is_alone, tf.gather(told, tasks), errors)
        return Asked(self.line_up(inputs, tasks), errors, refused)

    def read_tokens(self, request: Request) -> Asked:
        """Returns rows of the tokens whose mask is 1."""
        request = of_one_size(request)
        tasks, errors = self.find_tasks(request, IDS)
        ids, mask, segments = (request[name] for name in (IDS, MASK, SEGMENTS))
        with tf.control_dependencies([_assert_one_shape(ids, mask, segments)]):
            marked = mask > 0
        longest, words = self._config.max_sequence_length, self._config.vocab_size
        kinds = self._config.type_vocab_size
        is_word, is_kind = (ids >= 0) & (ids < words), (segments >= 0) & (segments < kinds)
        for is_right, told in (
            (tf.reduce_any(marked, axis=1), f"{MASK}: a row of zeros"),
            (~tf.reduce_any(marked[:, longest:], axis=1), f"{IDS}: more than {longest} tokens"),
            (tf.reduce_all(is_word | ~marked, axis=1), f"{IDS}: expected 0 to {words - 1}"),
            (tf.reduce_all(is_kind | ~marked, axis=1), f"{SEGMENTS}: expected 0 to {kinds - 1}"),
        ):
            errors = tf.where(is_right | (errors != ""), errors, told)
        refused = errors != ""
        # A row that is refused becomes a single token of padding, for which a column is added.
        ids, segments, marked = (
            tf.pad(tf.where(refused[:, None], tf.zeros_like(each), each), [[0, 0], [0, 1]])
            for each in (ids, segments, marked)
        )
        column = tf.range(tf.shape(ids)[1])[None]
        marked |= refused[:, None] & (column == 0)
        inputs = {IDS: ids, SEGMENTS: segments, POSITIONS: column + tf.zeros_like(ids)}
        inputs = {name: tf.ragged.boolean_mask(value, marked) for name, value in inputs.items()}
        return Asked(Lineup.of(inputs, tf.gather(self._numbers, tasks)), errors, refused)

    def line_up(self, inputs: dict[str, tf.RaggedTensor], tasks: tf.Tensor) -> Lineup:
        """Returns rows for BERT's inputs, given the task of each row."""
        positions = tf.ragged.range(tf.cast(inputs[IDS].row_lengths(), tf.int32))
        return Lineup.of({**inputs, POSITIONS: positions}, tf.gather(self._numbers, tasks))

    def find_tasks(self, request: Request, name: str) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the task of each row, and what is wrong with it.

        Args:
          request: The request.
          name: An input that the request has, for the number of rows.

        Returns:
          The task as an index into `numbers`, and an error or "". With an error, the task is 0.
        """
        if TASK in request:
            return self._find(request[TASK])
        rows = tf.shape(request[name])[:1]
        return tf.zeros(rows, tf.int32), tf.fill(rows, "")

    def _find(self, asked: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        matches = asked[:, None] == tf.constant(self._all_names)[None]
        found = tf.argmax(matches, axis=1, output_type=tf.int32)
        # A name may be any bytes, but an error has to be text.
        shown = tf.strings.unicode_transcode(asked, "UTF-8", "UTF-8")
        shown = tf.strings.substr(shown, 0, _NAME, unit="UTF8_CHAR")
        unknown = tf.strings.join(["unknown task '", shown, f"'; known are {some(self.names)}"])
        is_known = tf.reduce_any(matches, axis=1)
        errors = tf.where(is_known, tf.gather(self._elsewhere, found), unknown)
        return tf.where(errors == "", tf.gather(self._index, found), 0), errors

    def _choose(self, listed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns which tasks lists of names choose, `[rows, tasks]`, and the errors of the rows.

        An empty list chooses all tasks, and so does one with an error.
        """
        names = tf.strings.split(listed, ",")
        names = names.with_flat_values(tf.strings.strip(names.flat_values))
        names = tf.ragged.boolean_mask(names, names != "")
        tasks, errors = self._find(names.flat_values)
        errors = names.with_flat_values(errors)
        errors = tf.ragged.boolean_mask(errors, errors != "")
        errors = tf.strings.reduce_join(errors, axis=1, separator="; ")
        rows = tf.stack([tf.cast(names.value_rowids(), tf.int32), tasks], axis=1)
        shape = [tf.size(listed), len(self._numbers)]
        chosen = tf.scatter_nd(rows, tf.ones_like(tasks), shape) > 0
        is_all = (names.row_lengths() == 0) | (errors != "")
        return chosen | is_all[:, None], errors


def string_specs(*names: str) -> dict[str, tf.TensorSpec]:
    """Returns the inputs of a request that has a string for each row under these names."""
    return {name: tf.TensorSpec([None], tf.string, name) for name in names}


def of_one_size(request: Request) -> Request:
    """Returns the request unchanged, but refuses inputs with different numbers of rows."""
    rows = tf.stack([tf.shape(value)[0] for value in request.values()])
    told = ["inputs of different numbers of rows", rows]
    with tf.control_dependencies([_assert(tf.reduce_all(rows == rows[0]), told)]):
        return {name: tf.identity(value) for name, value in request.items()}


def _assert_one_shape(*tensors: tf.Tensor) -> tf.Operation:
    shapes = tf.stack([tf.shape(each) for each in tensors])
    told = ["inputs of different shapes", shapes]
    return _assert(tf.reduce_all(shapes == shapes[0]), told)


def _assert(condition: tf.Tensor, told: list) -> tf.Operation:
    return tf.debugging.Assert(condition, told, summarize=_SHOWN)
