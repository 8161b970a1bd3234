"""Turns requests into rows, and says of each row that can't be answered why.

A server may merge the requests of several users into one batch. So a row that makes no sense must
not fail the batch: it gets an error of its own.
"""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from adapter_bert_tf.errors import some
from adapter_bert_tf.serve.lineup import POSITIONS, Lineup, different_texts
from adapter_bert_tf.serve.rows import Texts
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
      texts: The different texts.
      row_texts: Number of each row's text, `[rows]`. A row that is refused has a text too, which
        is empty, so that nothing has to be left out and put back.
      tasks: Number of each row's task.
      errors: What is wrong with each row, or "".
      refused: Whether each row gets no answer.
    """

    texts: Texts
    row_texts: tf.Tensor
    tasks: tf.Tensor
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
        # In how many ways texts become tokens, and in which of them for each task.
        ways = list(zip(self._pairs, self._lengths, strict=True))
        self._ways = list(dict.fromkeys(ways))
        self._way_of_task = [self._ways.index(way) for way in ways]
        self._alone = [
            f"{TEXT_PAIR}: is empty, but {name} is about two texts" for name in self.names
        ]
        self._config = service.base.config
        self.tokenizer = Tokenizer(service.vocabulary)
        # Of all tasks of the export, because a request may name those of another signature. Behind
        # them is what holds for a name that no task has.
        self._all_names = [task.name for task in service.tasks]
        self._elsewhere = [
            "" if number in numbers else f"{task.name}: ask the signature {task.head.signature}"
            for number, task in enumerate(service.tasks)
        ] + [""]
        index = {number: i for i, number in enumerate(numbers)}
        self._index = [index.get(number, 0) for number in range(len(service.tasks) + 1)]
        self._is_here = [number in index for number in range(len(service.tasks) + 1)]

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
        refused = errors != ""
        request[TEXT] = tf.where(refused, "", request[TEXT])
        is_pair = tf.gather(self._pairs, tasks) & ~refused
        room = tf.gather(tf.constant(self._lengths, tf.int64), tasks)
        inputs, is_alone = self._encode(request, is_pair, room)
        errors = tf.where(is_alone, tf.gather(self._alone, tasks), errors)
        texts, row_texts = different_texts(_with_positions(inputs))
        return Asked(texts, row_texts, tf.gather(self._numbers, tasks), errors, refused)

    def read_texts_for_all(self, request: Request) -> tuple[Asked, tf.Tensor, tf.Tensor]:
        """Asks all tasks about each text, or those that the request names.

        Returns:
          A row for each text and task, the tasks of a text side by side; the names of the tasks,
          `[texts, tasks]`, with "" where a task was not asked; and what is wrong with the names
          that the request has for each text, or "".
        """
        request = of_one_size(request)
        chosen, wrong = self._choose(request.pop(TASKS, tf.fill(tf.shape(request[TEXT]), "")))
        texts, row_texts, is_alone = self._read_in_all_ways(request)
        errors = tf.where(is_alone & chosen, tf.constant(self._alone)[None], "")
        names = tf.where(chosen, tf.constant(self.names)[None], "")
        tasks = tf.tile(self._numbers, tf.shape(chosen)[:1])
        row_texts, errors, refused = (tf.reshape(v, [-1]) for v in (row_texts, errors, ~chosen))
        return Asked(texts, row_texts, tasks, errors, refused), names, wrong

    def _read_in_all_ways(self, request: Request) -> tuple[Texts, tf.Tensor, tf.Tensor]:
        """Tokenises each text once for all tasks that want it in the same way.

        Returns:
          The different texts, and for each text and task, `[texts, tasks]`, which of them it is,
          and whether the task is about two texts and the second one is empty.
        """
        rows, ways = tf.size(request[TEXT]), len(self._ways)
        each = {name: tf.repeat(values, ways) for name, values in request.items()}
        pairs, lengths = zip(*self._ways, strict=True)
        room = tf.tile(tf.constant(lengths, tf.int64), [rows])
        inputs, is_alone = self._encode(each, tf.tile(pairs, [rows]), room)
        texts, text_of = different_texts(_with_positions(inputs))
        row_texts, is_alone = (
            tf.gather(tf.reshape(values, [-1, ways]), self._way_of_task, axis=1)
            for values in (text_of, is_alone)
        )
        return texts, row_texts, is_alone

    def _encode(
        self, request: Request, is_pair: tf.Tensor, room: tf.Tensor
    ) -> tuple[dict[str, tf.RaggedTensor], tf.Tensor]:
        """Returns BERT's inputs, and which rows lack the second text that they should have."""
        if TEXT_PAIR not in request:
            return encode(self.tokenizer, request[TEXT], None, room), tf.zeros_like(is_pair)
        # A task without pairs does not read the second text. An empty one is no second text, as in
        # training, but hardly what was meant.
        pairs = tf.where(is_pair, request[TEXT_PAIR], "")
        inputs = encode(self.tokenizer, request[TEXT], pairs, room)
        return inputs, is_pair & (tf.reduce_max(inputs[SEGMENTS], axis=1) == 0)

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
        texts, row_texts = different_texts(inputs)
        return Asked(texts, row_texts, tf.gather(self._numbers, tasks), errors, refused)

    def line_up(self, inputs: dict[str, tf.RaggedTensor], tasks: tf.Tensor) -> Lineup:
        """Returns rows for BERT's inputs, given the task of each row."""
        return Lineup.of(_with_positions(inputs), tf.gather(self._numbers, tasks))

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
        numbers = self._look_up(asked)
        return tf.gather(self._index, numbers), self._tell(asked, numbers)

    def _look_up(self, names: tf.Tensor) -> tf.Tensor:
        """Returns the number of each name's task in the export, or that behind the last one.

        A request may have any number of names, so they are not compared with each task's.
        """
        count = len(self._all_names)
        _, numbers = tf.unique(tf.concat([self._all_names, names], 0))
        return tf.minimum(numbers[count:], count)

    def _tell(self, asked: tf.Tensor, numbers: tf.Tensor) -> tf.Tensor:
        """Returns what is wrong with names, given what `_look_up` says of them."""
        # A name may be any bytes, but an error has to be text.
        shown = tf.strings.unicode_transcode(asked, "UTF-8", "UTF-8")
        shown = tf.strings.substr(shown, 0, _NAME, unit="UTF8_CHAR")
        unknown = tf.strings.join(["unknown task '", shown, f"'; known are {some(self.names)}"])
        is_known = numbers < len(self._all_names)
        return tf.where(is_known, tf.gather(self._elsewhere, numbers), unknown)

    def _choose(self, listed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns which tasks lists of names choose, `[rows, tasks]`, and the errors of the rows.

        An empty list chooses all tasks. Wrong names take nothing from the others.
        """
        names = tf.strings.split(listed, ",")
        names = names.with_flat_values(tf.strings.strip(names.flat_values))
        names = tf.ragged.boolean_mask(names, names != "")
        numbers = self._look_up(names.flat_values)
        is_here = tf.gather(self._is_here, numbers)
        wrong = tf.ragged.boolean_mask(names, names.with_flat_values(~is_here))
        rows = tf.cast(names.value_rowids(), tf.int32)
        places = tf.stack([rows, tf.gather(self._index, numbers)], axis=1)[is_here]
        shape = [tf.size(listed), len(self._numbers)]
        chosen = tf.scatter_nd(places, tf.ones_like(places[:, 0]), shape) > 0
        return chosen | (names.row_lengths() == 0)[:, None], self._tell_some(wrong)

    def _tell_some(self, wrong: tf.RaggedTensor) -> tf.Tensor:
        """Returns what is wrong with the first few of each row's names, and counts the others."""
        first = wrong[:, :_SHOWN]
        told = self._tell(first.flat_values, self._look_up(first.flat_values))
        told = tf.strings.reduce_join(first.with_flat_values(told), axis=1, separator="; ")
        more = wrong.row_lengths() - first.row_lengths()
        counted = tf.strings.join([told, "; and ", tf.strings.as_string(more), " more names"])
        return tf.where(more > 0, counted, told)


def _with_positions(inputs: dict[str, tf.RaggedTensor]) -> dict[str, tf.RaggedTensor]:
    positions = tf.ragged.range(tf.cast(inputs[IDS].row_lengths(), tf.int32))
    return {**inputs, POSITIONS: positions}


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
