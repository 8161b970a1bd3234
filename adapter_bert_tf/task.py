"""A tuned task as an object: texts in, answers out."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import tensorflow as tf

from adapter_bert_tf import internals
from adapter_bert_tf.base.base import Base
from adapter_bert_tf.base.load import find_base, make_encoder
from adapter_bert_tf.baseline.task import load_baseline
from adapter_bert_tf.checks import refuse
from adapter_bert_tf.data.batches import Batches, bucket_lengths
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.heads.head import Head
from adapter_bert_tf.pack.model import load_pack, save_pack, share_encoder
from adapter_bert_tf.pack.pack import Pack, read_pack, refuse_no_head
from adapter_bert_tf.squad.decoder import Answered, Decoding, find_answers
from adapter_bert_tf.squad.questions import Questions
from adapter_bert_tf.squad.windows import SpanWindows, WindowSizes, to_windows
from adapter_bert_tf.text.inputs import encode, pad
from adapter_bert_tf.text.tokenizer import Tokenizer
from adapter_bert_tf.text_task import TextTask
from adapter_bert_tf.tuning.outputs import Progress, compute_outputs
from adapter_bert_tf.tuning.task_model import TaskModel

DEFAULT_LENGTH = 128
_WINDOWS = 8


class Answer(NamedTuple):
    """The answer to a question about a text.

    Attributes:
      text: The answer, with single spaces between its words; "" if there is none.
      score: Its probability among the best answers.
      start: Where it starts in the text, in characters.
      end: Where it ends.
    """

    text: str
    score: float
    start: int
    end: int


class Task(TextTask):
    """A model for a task, with what is needed to ask it.

    Args:
      model: The Keras model.
      name: Name of the task.
      labels: Names of the classes.
      inputs: How texts become inputs, as a task pack keeps it.
      metrics: Metrics that the model reached.

    Attributes:
      tokenizer: The base's tokenizer.

    Example:
      `load_task("runs/sst2/pack").predict(["A fine film."])`
    """

    def __init__(
        self,
        model: TaskModel,
        *,
        name: str | None = None,
        labels: Sequence[str] = (),
        inputs: Mapping[str, Any] | None = None,
        metrics: Mapping[str, float] | None = None,
    ):
        super().__init__(name, labels, inputs, metrics)
        self.model = model
        self.tokenizer = make_tokenizer(model.encoder.base, self.max_seq_length)

    @property
    def head(self) -> Head:
        """The model's head."""
        return self.model.head

    @property
    def max_seq_length(self) -> int:
        """Longest row, in tokens."""
        if not self._takes_texts:
            return WindowSizes.of(self.settings).max_seq_length
        return int(self.settings.get("max_seq_length", DEFAULT_LENGTH))

    @property
    def _takes_texts(self) -> bool:
        return self.head.signature == Head.signature

    def inputs(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> dict:
        """Returns what `model` takes: the texts' ids, mask and segments, padded."""
        self.check_texts(texts, pairs)
        return pad(self._encode(texts, pairs))

    def answer(self, question: str, context: str) -> Answer:
        """Answers a question about a text of any length."""
        if self._takes_texts:
            raise UserError(f"{self.name}: a task on texts, use predict; answer is for questions")
        for name, value in (("question", question), ("context", context)):
            if not isinstance(value, str):
                raise refuse(name, "a text", value)
        questions = Questions(["question"], [question], [context], [0])
        lengths = bucket_lengths(self.max_seq_length)
        best = self.answer_windows(self.windows(questions), _WINDOWS, lengths)[0].chosen
        place = best.place(context)
        if place is None:
            return Answer("", best.probability, 0, 0)
        return Answer(best.text, best.probability, *place)

    def windows(self, questions: Questions) -> SpanWindows:
        """Cuts the contexts of questions into windows, as the task does."""
        return to_windows(questions, self.tokenizer, WindowSizes.of(self.settings))

    def answer_windows(
        self, spans: SpanWindows, batch_size: int, lengths: list[int], fixed_rows: bool = False
    ) -> list[Answered]:
        """Returns the answer to each question, with the n best.

        Args:
          spans: The questions in windows.
          batch_size: Windows of a batch.
          lengths: The lengths that windows are padded to: see `Batches`.
          fixed_rows: Whether all batches have to be of one size, as on a TPU.
        """
        logits = np.zeros([0, 1, 2], np.float32)
        if spans.windows.question.shape[0]:
            batches = Batches(spans.windows.inputs, batch_size, lengths, fixed_rows)
            logits = compute_outputs(self.model, batches)
        return find_answers(spans, logits, self.tokenizer, Decoding.of(self.settings))

    def save(self, folder: str | os.PathLike, metrics: Mapping[str, float] | None = None) -> None:
        """Saves what was tuned as a task pack; an older pack there is replaced."""
        save_pack(
            self.model,
            folder,
            task=self.name,
            labels=self.labels,
            metrics=self.metrics if metrics is None else metrics,
            inputs=self.settings,
        )

    def _encode(self, texts: Sequence[str], pairs: Sequence[str] | None) -> dict:
        second = None if pairs is None else tf.constant(list(pairs), tf.string)
        return encode(
            self.tokenizer, tf.constant(list(texts), tf.string), second, self.max_seq_length
        )

    def _outputs(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None,
        batch_size: int,
        progress: Progress | None,
    ) -> np.ndarray:
        columns = self._encode(texts, pairs)
        batches = Batches(columns, batch_size, bucket_lengths(self.max_seq_length))
        return compute_outputs(self.model, batches, progress)

    def _check_takes_texts(self) -> None:
        if not self._takes_texts:
            raise UserError(f"{self.name}: a task on questions, use answer(question, context)")


def make_tokenizer(base: Base, max_seq_length: int) -> Tokenizer:
    """Returns the base's tokenizer; refuses rows that are longer than the base takes."""
    longest = base.config.max_sequence_length
    if max_seq_length > longest:
        raise UserError(f"--max_seq_length={max_seq_length}: the base takes {longest} at most")
    return base.tokenizer


def load_task(
    pack: str | os.PathLike,
    bert: str | None = None,
    *,
    base: Task | None = None,
    bert_config_file: str | None = None,
    vocab_file: str | None = None,
    trust_module: bool = False,
) -> Task:
    """Loads a task pack with the BERT that it was tuned on, or a baseline without BERT.

    Args:
      pack: The pack's folder.
      bert: The base, if it is not where the pack says.
      base: A task whose base in memory is used. Both tasks then share its variables.
      bert_config_file: The base's configuration, if it is not beside the checkpoint.
      vocab_file: The base's vocabulary, if it is not beside the checkpoint.
      trust_module: Whether a baseline's text module may be loaded that is none of the known ones:
        a SavedModel runs code.

    Example:
      ```
      sst2 = load_task("runs/sst2/pack")
      mrpc = load_task("runs/mrpc/pack", base=sst2)
      ```
    """
    described = read_pack(pack)
    refuse_no_head(described, pack)
    if described.baseline is not None:
        if bert or base or bert_config_file or vocab_file:
            raise UserError(f"{pack}: a baseline without BERT; it takes none")
        # It answers texts as other tasks do.
        return cast(Task, load_baseline(pack, trust_module))
    if base is not None:
        encoder = share_encoder(base.model.encoder, described, os.fspath(pack))
    else:
        found = _find_base(described, bert, bert_config_file, vocab_file)
        # First of all: TensorFlow keeps the memory that this takes, and puts weights there.
        make_tokenizer(found, 0)
        encoder = make_encoder(found, described.adapter)
    model = load_pack(encoder, pack)
    internals.clear_kernel_cache()
    return Task(
        model,
        name=described.task,
        labels=described.class_names,
        inputs=described.inputs,
        metrics=described.metrics,
    )


def _find_base(
    pack: Pack, bert: str | None, config_file: str | None, vocab_file: str | None
) -> Base:
    lower_case = (pack.vocabulary or {}).get("lower_case")
    origin = bert or pack.base.get("origin", "")
    try:
        return find_base(origin, config_file, vocab_file, lower_case)
    except UserError as error:
        if bert is not None:
            raise
        raise UserError(f"{error}; name the BERT that the pack was tuned on with bert") from None
