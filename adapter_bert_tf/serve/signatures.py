"""The signatures of an export. The kinds of heads decide what the signatures return."""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from adapter_bert_tf.heads.head import Head
from adapter_bert_tf.heads.kinds import HEADS
from adapter_bert_tf.serve.lineup import Lineup
from adapter_bert_tf.serve.model import ServedModel
from adapter_bert_tf.serve.requests import (
    REQUEST,
    TASK,
    TASKS,
    Asked,
    Request,
    Requests,
    of_one_size,
    string_specs,
)
from adapter_bert_tf.serve.rows import Texts, by_task, concat_loop, merge_rows
from adapter_bert_tf.serve.service import Service
from adapter_bert_tf.text.inputs import IDS

Signatures = dict[str, tf.types.experimental.ConcreteFunction]

ERROR = "error"

# A long text may have thousands of windows. This many are computed at a time.
_TOGETHER = 32
# Several tasks on several texts are many rows. As many are computed at a time as a server's largest
# batch has: see serving/batching.config.
MOST_ROWS = 64


def make_signatures(service: Service, model: ServedModel) -> Signatures:
    """Returns the signatures of a service by name."""
    signatures: Signatures = {}
    texts = [i for i, task in enumerate(service.tasks) if task.head.signature == Head.signature]
    if texts:
        signatures |= _text_signatures(service, model, texts)
    for kind in HEADS.values():
        asked = [i for i, task in enumerate(service.tasks) if task.head is kind]
        if asked and kind.signature != Head.signature:
            signatures[kind.signature] = _own_signature(kind, service, model, asked)
    # A server calls this one if a request names no signature.
    signatures.setdefault(Head.signature, next(iter(signatures.values())))
    names = [task.name for task in service.tasks]
    return {**signatures, "tasks": list_tasks(names, service.label_table())}


def _text_signatures(service: Service, model: ServedModel, numbers: Sequence[int]) -> Signatures:
    requests = Requests(service, numbers)
    answers = TextAnswers(service, model)

    @tf.function(autograph=False)
    def texts(**request: tf.Tensor) -> dict[str, tf.Tensor]:
        return answers(requests.read_texts(request))

    @tf.function(autograph=False)
    def tokens(**request: tf.Tensor) -> dict[str, tf.Tensor]:
        return answers(requests.read_tokens(request))

    def by_text(request: Request) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        asked, names, wrong = requests.read_texts_for_all(request)
        found = {
            name: tf.reshape(values, [-1, len(numbers), *values.shape[1:]])
            for name, values in answers.in_parts(asked, len(numbers)).items()
        }
        return {TASK: names, **found}, wrong

    @tf.function(autograph=False)
    def all_tasks(**request: tf.Tensor) -> dict[str, tf.Tensor]:
        return by_text(request)[0]

    @tf.function(autograph=False)
    def some_tasks(**request: tf.Tensor) -> dict[str, tf.Tensor]:
        found, wrong = by_text(request)
        # Names that no task has are told behind the tasks, in a place of their own.
        last = {name: tf.zeros_like(values[:, :1]) for name, values in found.items()}
        last[ERROR] = wrong[:, None]
        return {name: tf.concat([values, last[name]], 1) for name, values in found.items()}

    alone = requests.texts_alone_specs()
    return {
        Head.signature: texts.get_concrete_function(**requests.text_specs()),
        "tokens": tokens.get_concrete_function(**requests.token_specs()),
        "all": all_tasks.get_concrete_function(**alone),
        # A signature can't have an input that may be left out.
        "some": some_tasks.get_concrete_function(**alone, **string_specs(TASKS)),
    }


class TextAnswers:
    """Computes the answers to rows of texts, whose tasks may be of different kinds.

    A row has the outputs of its task's kind. Outputs that only other kinds have are 0 or "", and so
    are all outputs of a row that is refused, except for its error.
    """

    def __init__(self, service: Service, model: ServedModel):
        self._model = model
        self._labels = tf.constant(service.label_table())
        self._columns = self._labels.shape[1]
        self._kinds = list(dict.fromkeys(task.head for task in service.tasks))
        self._kinds = [kind for kind in self._kinds if kind.signature == Head.signature]
        self._is_kind = [[task.head is kind for task in service.tasks] for kind in self._kinds]

    def __call__(self, asked: Asked) -> dict[str, tf.Tensor]:
        return self._answers(asked, self._values(asked.texts, asked.row_texts, asked.tasks))

    def in_parts(self, asked: Asked, tasks: int) -> dict[str, tf.Tensor]:
        """Computes rows of which each text has one for each of so many tasks, a few at a time."""
        rows = tf.cast(tf.where(~asked.refused)[:, 0], tf.int32)
        row_texts, row_tasks = (tf.gather(each, rows) for each in (asked.row_texts, asked.tasks))
        parts, sizes = _cut(rows // tasks, tasks)
        found = by_task(
            (row_texts, row_tasks),
            parts,
            sizes,
            lambda _, *some: self._values(asked.texts, *some),
            self._columns,
            at_once=1,
        )
        shape = [tf.size(asked.tasks), self._columns]
        return self._answers(asked, tf.scatter_nd(rows[:, None], found, shape))

    def _values(self, texts: Texts, row_texts: tf.Tensor, tasks: tf.Tensor) -> tf.Tensor:
        """Returns probabilities and values, `[rows, columns]`."""

        def activate(task: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
            # This comes before padding, so that columns that the task lacks get no probability.
            values = self._choose(task, [kind.activate(logits) for kind in self._kinds])
            return tf.pad(values, [[0, 0], [0, self._columns - tf.shape(values)[1]]])

        lineup = Lineup(texts, *merge_rows(tasks, row_texts))
        return lineup.in_order(self._model.of_rows(lineup, activate, width=self._columns))

    def _answers(self, asked: Asked, values: tf.Tensor) -> dict[str, tf.Tensor]:
        labels = tf.gather(self._labels, asked.tasks)
        answers: dict[str, tf.Tensor] = {}
        for kind, is_kind in zip(self._kinds, self._is_kind, strict=True):
            chosen = tf.gather(is_kind, asked.tasks) & ~asked.refused
            for name, answer in kind.answers(values, labels).items():
                others = answers.get(name, tf.zeros_like(answer))
                answers[name] = tf.where(_like(chosen, answer), answer, others)
        return {**answers, ERROR: asked.errors}

    def _choose(self, task: tf.Tensor, values: Sequence[tf.Tensor]) -> tf.Tensor:
        """Returns the one of `values` that belongs to the task's kind."""
        chosen = values[0]
        for is_kind, each in zip(self._is_kind[1:], values[1:], strict=True):
            chosen = tf.where(tf.gather(is_kind, task), each, chosen)
        return chosen


def _cut(texts: tf.Tensor, tasks: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Cuts rows into parts that are computed one after the other.

    The rows of a text stay together, so that layers that its tasks share are computed once, unless
    they are too many for a part.

    Args:
      texts: Number of each row's text, sorted.
      tasks: The most rows that a text has.

    Returns:
      The numbers of the parts, and how many rows each has.
    """
    if tasks > MOST_ROWS:
        part_of = tf.range(tf.size(texts)) // MOST_ROWS
    else:
        # A text belongs to the part in which it starts, which has room for all of the last one.
        _, number, counts = tf.unique_with_counts(texts)
        starts = tf.gather(tf.cumsum(counts, exclusive=True), number)
        part_of = starts // (MOST_ROWS - tasks + 1)
    parts, _, sizes = tf.unique_with_counts(part_of)
    return parts, sizes


def _like(rows: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    return rows if values.shape.rank == 1 else rows[:, None]


def _own_signature(
    kind: type[Head], service: Service, model: ServedModel, numbers: Sequence[int]
) -> tf.types.experimental.ConcreteFunction:
    """Returns the signature of a kind that has its own, such as that for questions."""
    requests = Requests(service, numbers)
    tasks = [service.tasks[number] for number in numbers]
    answer = kind.answerer(
        [(task.name, task.pack.inputs) for task in tasks],
        requests.tokenizer,
        _logits_of(model, requests),
    )

    @tf.function(autograph=False)
    def respond(**request: tf.Tensor) -> dict[str, tf.Tensor]:
        request = of_one_size(request)
        tasks, errors = requests.find_tasks(request, kind.request[0])
        refused = errors != ""
        for name in kind.request:
            request[name] = tf.where(refused, "", request[name])
            is_empty = ~refused & (tf.strings.strip(request[name]) == "")
            errors = tf.where(is_empty, f"{name}: is empty", errors)
        found = answer(request, tasks)
        found = {
            name: tf.where(_like(refused, values), tf.zeros_like(values), values)
            for name, values in found.items()
        }
        return {**found, ERROR: errors}

    specs = {**string_specs(*kind.request), **requests.task_spec()}
    return respond.get_concrete_function(**specs)


def _logits_of(model: ServedModel, requests: Requests) -> Callable:
    def logits_of(inputs: dict[str, tf.RaggedTensor], tasks: tf.Tensor, width: int):
        """Returns the logits of each token, `[rows, (tokens), width]`."""

        def part(number: tf.Tensor) -> tf.Tensor:
            chosen = slice(number * _TOGETHER, (number + 1) * _TOGETHER)
            some = {name: values[chosen] for name, values in inputs.items()}
            lineup = requests.line_up(some, tasks[chosen])
            logits = model.of_tokens(lineup, lambda _, logits: logits, width)
            by_row = tf.RaggedTensor.from_row_lengths(logits, lineup.rows().lengths)
            return lineup.in_order(by_row).flat_values

        count = (tf.size(tasks) + _TOGETHER - 1) // _TOGETHER
        flat = concat_loop(part, count, width, at_once=1)
        return tf.RaggedTensor.from_row_lengths(flat, inputs[IDS].row_lengths())

    return logits_of


def list_tasks(tasks: Sequence[str], labels: np.ndarray) -> tf.types.experimental.ConcreteFunction:
    """Returns the signature that lists all tasks and their labels, `[tasks, labels]`.

    The content of its input does not matter. There is an answer for each row of the input, because
    TF Serving's batching expects one.
    """
    names = np.array(tasks)

    @tf.function(autograph=False)
    def listed(**request: Request) -> dict[str, tf.Tensor]:
        rows = tf.shape(request[REQUEST])[0]
        return {
            TASK: tf.tile(names[None], [rows, 1]),
            "labels": tf.tile(labels[None], [rows, 1, 1]),
        }

    return listed.get_concrete_function(**{REQUEST: tf.TensorSpec([None], tf.string, REQUEST)})
