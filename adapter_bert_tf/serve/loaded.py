"""An export as Python objects: texts in, answers out, without a server."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

# Registers the operations of the tokenizer, without which TensorFlow can't load an export.
import tensorflow_text  # noqa: F401
import tf_keras
from google.protobuf.message import DecodeError
from tensorflow_serving.apis import prediction_log_pb2

from adapter_bert_tf.base.checkpoint import UNREADABLE
from adapter_bert_tf.checks import BATCH_SIZE, text
from adapter_bert_tf.data.records import check_lengths
from adapter_bert_tf.errors import UserError, first_line, some
from adapter_bert_tf.files import all_files, exists, refuse_special
from adapter_bert_tf.heads.head import Head
from adapter_bert_tf.heads.kinds import HEADS
from adapter_bert_tf.heads.span import CONTEXT, QUESTION
from adapter_bert_tf.serve import WARMUP_FILE
from adapter_bert_tf.serve.description import DescribedTask, Description, read_description
from adapter_bert_tf.serve.requests import TASK, TEXT, TEXT_PAIR
from adapter_bert_tf.serve.signatures import ERROR
from adapter_bert_tf.task import Answer
from adapter_bert_tf.text.inputs import check_texts

# A signature of newer exports, which answers for all tasks on a text.
_ALL = "all"

# A row with an empty second text is answered all the same, as `Task.predict` does.
_ANSWERED = f"{TEXT_PAIR}: is empty".encode()

# Lists that are longer show their progress.
_LONG = 4096


def load_export(folder: str | os.PathLike) -> "LoadedExport":
    """Loads an export, and returns its tasks by name.

    Args:
      folder: The folder of a version, or of a model, which means its newest version.

    Example:
      ```
      export = load_export("models/bert")
      export["SST-2"].predict(["A fine film."])  # [Prediction(label, score, probabilities)]
      export["SQuAD"].answer("When?", context)  # Answer(text, score, start, end)
      ```
    """
    described = read_description(folder)
    for path in all_files(described.folder):
        refuse_special(path)
    try:
        model = tf.saved_model.load(described.folder)
    except UNREADABLE as error:
        raise UserError(f"{described.folder}: can't be loaded: {first_line(error)}") from None
    _check_signatures(described, model)
    return LoadedExport(described, model)


def _check_signatures(described: Description, model: Any) -> None:
    """Refuses a SavedModel that is not the one that the description is about."""
    # Old exports don't say their signatures.
    expected = {
        name: (set(of["inputs"]), set(of["outputs"])) for name, of in described.signatures.items()
    }
    found = {
        name: (set(each.structured_input_signature[1]), set(each.structured_outputs))
        for name, each in model.signatures.items()
    }
    odd = {name for name, names in expected.items() if found.get(name) != names}
    odd |= {Head.signature} - found.keys()
    if odd:
        raise UserError(f"{described.folder}: not the described SavedModel; it lacks {some(odd)}")


class LoadedExport(Mapping[str, "ExportedTask"]):
    """The tasks of an export by name.

    Args:
      described: What the export says about itself.
      model: The SavedModel.

    Attributes:
      signatures: TensorFlow's functions, as a server calls them.
    """

    def __init__(self, described: Description, model: Any):
        self.described = described
        # TensorFlow frees the variables that the signatures use together with the model.
        self._model = model
        self.signatures: Mapping[str, Any] = model.signatures
        self._tasks = {task.name: ExportedTask(task, self) for task in described.tasks}

    @property
    def folder(self) -> str:
        """The version's folder."""
        return self.described.folder

    def __getitem__(self, name: str) -> "ExportedTask":
        if name not in self._tasks:
            raise KeyError(f"{self.folder} serves {', '.join(self)}, not {name}")
        return self._tasks[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tasks)

    def __len__(self) -> int:
        return len(self._tasks)

    def __repr__(self) -> str:
        return f"LoadedExport({self.folder!r}: {', '.join(self)})"

    def predict_all(
        self, texts: Sequence[str], pairs: Sequence[str] | None = None, batch_size: int = 64
    ) -> dict[str, list[Any]]:
        """Returns each task's predictions for the texts, by the names of the tasks.

        Tasks that answer questions are left out, and without second texts those on pairs too.

        Args:
          texts: The texts.
          pairs: The second texts, for tasks on pairs.
          batch_size: Rows of a batch; a text is a row for each task.
        """
        check_texts(None, None, texts, pairs)
        BATCH_SIZE(batch_size, "batch_size")
        every = [task for task in self._tasks.values() if task.takes_texts]
        if not every:
            raise UserError(f"{self.folder}: all tasks are on questions, use answer")
        together = max(1, batch_size // len(every))
        found: dict[str, list[Any]] = {
            task.name: [] for task in every if pairs is not None or not task.takes_pairs
        }
        for start in range(0, len(texts), together):
            some = slice(start, start + together)
            answers = self._ask_all(every, texts[some], None if pairs is None else pairs[some])
            for i, task in enumerate(every):
                if task.name in found:
                    own = {name: values[:, i] for name, values in answers.items()}
                    found[task.name] += task.to_predictions(own)
        return found

    def _ask_all(
        self, tasks: Sequence["ExportedTask"], texts: Sequence[str], pairs: Sequence[str] | None
    ) -> dict[str, np.ndarray]:
        """Returns the answers of all tasks on texts, `[texts, tasks, ...]`."""
        second = [""] * len(texts) if pairs is None else pairs
        if _ALL in self.signatures:
            return self.ask(_ALL, {TEXT: texts, TEXT_PAIR: second})
        count = len(tasks)
        request = {
            TEXT: np.repeat(np.array(texts, object), count),
            TEXT_PAIR: np.repeat(np.array(second, object), count),
            TASK: [task.name for task in tasks] * len(texts),
        }
        answers = self.ask(Head.signature, request)
        return {
            name: values.reshape(-1, count, *values.shape[1:]) for name, values in answers.items()
        }

    def ask(self, signature: str, request: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Calls a signature with strings, and leaves out those that it does not take."""
        function = self.signatures[signature]
        taken = function.structured_input_signature[1].keys() & request.keys()
        outputs = function(**{name: tf.constant(request[name], tf.string) for name in taken})
        return {name: values.numpy() for name, values in outputs.items()}

    def warm_up(self) -> None:
        """Answers the requests that TF Serving starts with: the first one takes seconds."""
        path = os.path.join(self.folder, WARMUP_FILE)
        if not exists(path):
            return
        check_lengths(path)
        try:
            for record in tf.data.TFRecordDataset(path):
                self._repeat(record.numpy())
        except (*UNREADABLE, DecodeError, TypeError) as error:
            raise UserError(
                f"{path}: expected requests to this export: {first_line(error)}"
            ) from None

    def _repeat(self, record: bytes) -> None:
        request = prediction_log_pb2.PredictionLog.FromString(record).predict_log.request
        inputs = {name: tf.constant(tf.make_ndarray(v)) for name, v in request.inputs.items()}
        self.signatures[request.model_spec.signature_name](**inputs)


class ExportedTask:
    """A task of an export.

    Args:
      described: What the export says about it.
      export: The export.

    Attributes:
      name: The name by which requests ask for it.
      labels: Names of its classes.
      metrics: Metrics that it reached, with the adapters of all layers.
      takes_pairs: Whether its rows are pairs of texts.
    """

    def __init__(self, described: DescribedTask, export: LoadedExport):
        self.name = described.name
        self.labels = described.pack.class_names
        self.metrics = dict(described.pack.metrics)
        self.takes_pairs = described.pair
        self._head = HEADS[described.pack.kind]
        self._export = export

    def predict(
        self, texts: Sequence[str], pairs: Sequence[str] | None = None, batch_size: int = 64
    ) -> list[Any]:
        """Returns a prediction for each text, as `Task.predict` does.

        Args:
          texts: The texts.
          pairs: The second texts, for a task on pairs.
          batch_size: Rows of a batch.
        """
        if not self.takes_texts:
            raise UserError(f"{self.name}: a task on questions, use answer(question, context)")
        check_texts(self.name, self.takes_pairs, texts, pairs)
        BATCH_SIZE(batch_size, "batch_size")
        bar = tf_keras.utils.Progbar(
            len(texts), unit_name="text", interval=1, verbose=len(texts) > _LONG
        )
        predictions = []
        for start in range(0, len(texts), batch_size):
            some = list(texts[start : start + batch_size])
            second = [""] * len(some) if pairs is None else list(pairs[start : start + batch_size])
            request = {TEXT: some, TEXT_PAIR: second, TASK: [self.name] * len(some)}
            answers = self._export.ask(Head.signature, request)
            self._refuse_errors(answers, start)
            predictions += self.to_predictions(answers)
            bar.add(len(some))
        return predictions

    def answer(self, question: str, context: str) -> Answer:
        """Answers a question about a text of any length, as `Task.answer` does."""
        if self.takes_texts:
            raise UserError(f"{self.name}: a task on texts, use predict; answer is for questions")
        asked = {QUESTION: question, CONTEXT: context}
        request = {name: [text(value, name)] for name, value in asked.items()}
        request[TASK] = [self.name]
        found = self._export.ask(self._head.signature, request)
        self._refuse_errors(found)
        best, score, *place = (found[name][0] for name in ("answer", "score", "start", "end"))
        # An export counts bytes, as its users may not be Python programs.
        start, end = (len(context.encode()[:byte].decode()) for byte in place)
        return Answer(best.decode(), float(score), start, end)

    def _refuse_errors(self, answers: Mapping[str, np.ndarray], start: int = 0) -> None:
        """Raises what is wrong with a row: its other outputs say nothing. Old exports don't say."""
        for number, error in enumerate(answers.get(ERROR, ()), start):
            if error and not error.startswith(_ANSWERED):
                raise UserError(f"{self.name}: row {number}: {error.decode(errors='replace')}")

    @property
    def takes_texts(self) -> bool:
        """Whether it is a task on texts, not one on questions."""
        return self._head.signature == Head.signature

    def to_predictions(self, answers: Mapping[str, np.ndarray]) -> list[Any]:
        """Returns what `predict` does, from the outputs of a signature."""
        # The other columns are those of tasks with more labels.
        columns = len(self.labels)
        own = {
            name: values[:, :columns] if values.ndim > 1 else values
            for name, values in answers.items()
        }
        return self._head.predictions(own)

    def __repr__(self) -> str:
        return f"ExportedTask({self.name!r}, {self._head.kind}, {len(self.labels)} labels)"
