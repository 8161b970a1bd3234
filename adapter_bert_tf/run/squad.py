"""A SQuAD run: from a file of questions to answers and their score."""

import dataclasses
import json
import os
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from adapter_bert_tf import options
from adapter_bert_tf.data.batches import Batches, some_rows
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.files import file_digest
from adapter_bert_tf.heads.span import SpanHead
from adapter_bert_tf.pack.model import load_pack
from adapter_bert_tf.run.common import (
    ModelMaker,
    check_export,
    check_rows,
    export,
    identify,
    make_model,
    padded_lengths,
    started,
    with_pack,
)
from adapter_bert_tf.run.devices import is_tpu
from adapter_bert_tf.run.folder import RunFolder
from adapter_bert_tf.run.settings import SquadSettings
from adapter_bert_tf.run.source import RECORD_ENDINGS, check_squad_files
from adapter_bert_tf.run.trainer import TRAINING, Plan, Watcher, is_finished, train, write_results
from adapter_bert_tf.squad.decoder import Answered, Decoding
from adapter_bert_tf.squad.metrics import has_answers, score_predictions
from adapter_bert_tf.squad.questions import (
    read_squad,
    read_squad_tfds,
    some_questions,
    to_predict,
    to_train,
)
from adapter_bert_tf.squad.records import cached_span_records, read_span_records
from adapter_bert_tf.squad.windows import WindowSizes
from adapter_bert_tf.task import Task

# Settings that change which answers are chosen, and not what is trained.
_CHOICE = ("n_best_size", "max_answer_length", "null_score_diff_threshold")


def run_squad(
    settings: SquadSettings,
    strategy: tf.distribute.Strategy | None = None,
    make: ModelMaker = make_model,
    watch: Watcher = lambda epoch, value: None,
) -> Task | None:
    """Does what the settings ask.

    Args:
      settings: What to do.
      strategy: Where to compute, by default as the settings say.
      make: Makes the model. By default it is a new one.
      watch: Is told the number of each epoch that was evaluated, and the metric that decides.

    Returns:
      The task, with the best epoch's model; None if a signal ended the training early.
    """
    with started(settings, strategy) as (strategy, folder, stop):
        return _run(settings, strategy, folder, make, watch, stop)


def _run(
    settings: SquadSettings,
    strategy: tf.distribute.Strategy,
    folder: RunFolder,
    make: ModelMaker,
    watch: Watcher,
    stop: threading.Event,
) -> Task | None:
    check_export(settings)
    settings, _ = with_pack(settings, folder)
    check_squad_files(settings)
    version = "v2.0" if settings.version_2_with_negative else "v1.1"
    task = Task(
        make(settings, SpanHead, (), strategy),
        name=f"SQuAD {version}",
        inputs=_inputs(settings),
    )
    questions = None
    if settings.do_predict:
        questions = _Questions(task, settings, folder, is_tpu(strategy))

    if settings.do_train:
        batches, digest = _training_batches(task, settings, is_tpu(strategy))
        data = {"train set": digest}
        if settings.predict_file:
            data["predict file"] = file_digest(settings.predict_file)
        identity = identify(settings, task.model, data)
        if is_finished(identity, folder):
            load_pack(task.model, folder.pack)
            if questions and _chooses_differently(settings, folder):
                questions.answer_anew(folder.results())
        elif not train(_plan(task, batches, questions, identity, watch, stop), settings, folder):
            return None
    elif questions:
        _refuse_other_questions(settings, folder)
        questions.answer_anew()
    export(task, settings, folder)
    task.metrics = folder.results().get("metrics", task.metrics)
    return task


def _plan(
    task: Task,
    batches: Batches,
    questions: "_Questions | None",
    identity: dict[str, Any],
    watch: Watcher,
    stop: threading.Event,
) -> Plan:
    if questions is None:
        return Plan(task, batches, identity=identity, watch=watch, stop=stop)
    metric = "f1" if questions.are_scored else None
    return Plan(
        task,
        batches,
        questions.evaluate,
        metric,
        questions.write,
        identity=identity,
        watch=watch,
        stop=stop,
    )


def _inputs(settings: SquadSettings) -> dict[str, Any]:
    """Returns what a task pack keeps, so that whoever loads it answers the same."""
    sizes = WindowSizes(settings.max_seq_length, settings.doc_stride, settings.max_query_length)
    decoding = Decoding(
        settings.n_best_size,
        settings.max_answer_length,
        settings.version_2_with_negative,
        settings.null_score_diff_threshold,
    )
    return {**options.in_json(sizes), **options.in_json(decoding)}


class _Questions:
    """The questions of `--predict_file`, and the answers that were found last."""

    def __init__(self, task: Task, settings: SquadSettings, folder: RunFolder, on_tpu: bool):
        self._task, self._settings, self._folder = task, settings, folder
        self._on_tpu = on_tpu
        self._articles = some_questions(
            _articles(settings, "predict"), settings.max_predict_examples
        )
        self._questions = to_predict(self._articles)
        if not self._questions:
            raise UserError(f"{settings.predict_file or 'TFDS'}: no questions")
        self._windows = task.windows(self._questions)
        self.are_scored = has_answers(self._articles)
        self._answered: dict[str, Answered] = {}

    def evaluate(self) -> Iterator[tuple[str, float]]:
        """Answers all questions, and yields the scores if the file has answers."""
        lengths = padded_lengths(self._settings, self._on_tpu)
        found = self._task.answer_windows(
            self._windows, self._settings.predict_batch_size, lengths, fixed_rows=self._on_tpu
        )
        self._answered = dict(zip(self._questions.ids, found, strict=True))
        if self.are_scored:
            yield from score_predictions(self._articles, self._answered).items()

    def write(self) -> None:
        """Writes the answers as the original does."""
        answered = self._answered
        self._write("predictions.json", {name: each.text for name, each in answered.items()})
        n_best = {name: [best.to_json() for best in each.n_best] for name, each in answered.items()}
        self._write("nbest_predictions.json", n_best)
        if self._settings.version_2_with_negative:
            odds = {name: each.null_odds for name, each in answered.items()}
            self._write("null_odds.json", odds)

    def answer_anew(self, trained: Mapping[str, Any] | None = None) -> None:
        """Answers all questions, and writes answers and scores.

        Args:
          trained: The results of the training, if it is the run's own answers that are chosen anew.
        """
        metrics = dict(self.evaluate())
        self.write()
        kept = {name: each for name, each in (trained or {}).items() if name in TRAINING}
        write_results(self._task, metrics, self._settings, self._folder, kept)

    def _write(self, name: str, values: dict[str, Any]) -> None:
        """Writes one question a line; Python's own indented JSON takes much longer."""
        lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in values.items()]
        self._folder.write(name, "{\n" + ",\n".join(lines) + "\n}\n")


def _training_batches(task: Task, settings: SquadSettings, on_tpu: bool) -> tuple[Batches, str]:
    """Returns the training windows, and a digest of them."""
    path = settings.train_file
    if path is not None and path.endswith(RECORD_ENDINGS):
        digest = file_digest(path)
    else:
        path = _training_records(task, settings)
        digest = os.path.splitext(os.path.basename(path))[0]
    columns = read_span_records(path)
    check_rows(path, columns, settings.max_seq_length, task.model.encoder.base)
    columns = some_rows(columns, settings.max_train_examples)
    lengths = padded_lengths(settings, on_tpu)
    return Batches(columns, settings.train_batch_size, lengths, fixed_rows=on_tpu), digest


def _training_records(task: Task, settings: SquadSettings) -> str:
    origin = settings.train_file or "TFDS"
    articles = _articles(settings, "train")
    questions = to_train(articles, origin, settings.version_2_with_negative)
    if questions.skipped:
        names = f": {', '.join(questions.skipped)}" if settings.verbose_logging else ""
        count = len(questions.skipped)
        print(f"{origin}: {count:,} questions left out, because their answer is not there{names}")
    if not questions:
        raise UserError(f"{origin}: no questions to train with")
    sizes = WindowSizes.of(task.settings)
    name = task.name or ""
    return cached_span_records(questions, task.tokenizer, sizes, settings.cache_dir, name)


def _articles(settings: SquadSettings, part: str) -> list[dict[str, Any]]:
    path = getattr(settings, f"{part}_file")
    if path is not None:
        return read_squad(path)
    return read_squad_tfds(part == "train", settings.version_2_with_negative)


def _refuse_other_questions(settings: SquadSettings, folder: RunFolder) -> None:
    """Refuses to replace the answers of a run by those to another file."""
    before, now = folder.asked().get("predict_file"), settings.predict_file
    if before not in (None, now):
        raise UserError(
            f"--output_dir={folder.path}: has the answers to {before}; give another folder, and "
            f"--pack={folder.pack}"
        )


def _chooses_differently(settings: SquadSettings, folder: RunFolder) -> bool:
    """Whether a finished run has not answered yet, or would choose its answers differently."""
    before, now = folder.results().get("settings", {}), dataclasses.asdict(settings)
    return not before.get("do_predict") or any(before.get(name) != now[name] for name in _CHOICE)
