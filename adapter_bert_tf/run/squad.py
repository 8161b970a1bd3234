"""A SQuAD run, from a file of questions to answers and their score."""

import dataclasses
import json
import os
from typing import Any

import tensorflow as tf

from adapter_bert_tf.data.batches import Batches
from adapter_bert_tf.data.records import ENDINGS
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.heads.head import Head
from adapter_bert_tf.heads.span import SpanHead
from adapter_bert_tf.run.answering import answer
from adapter_bert_tf.run.devices import is_tpu
from adapter_bert_tf.run.run import Evaluate, Run, TaskDescription
from adapter_bert_tf.run.squad_settings import SquadSettings
from adapter_bert_tf.run.task_data import check_rows, tokenizer_for
from adapter_bert_tf.squad.answers import Prediction
from adapter_bert_tf.squad.metrics import has_answers, score_predictions
from adapter_bert_tf.squad.questions import (
    Questions,
    read_squad,
    read_squad_tfds,
    to_predict,
    to_train,
)
from adapter_bert_tf.squad.records import cached_span_records, read_span_records
from adapter_bert_tf.squad.windows import to_windows
from adapter_bert_tf.text.inputs import IDS

TRAIN, PREDICT = "train", "predict"


class SquadRun(Run):
    """A run for questions about texts.

    Args:
      settings: What to do.
      strategy: Where to compute.
    """

    def __init__(self, settings: SquadSettings, strategy: tf.distribute.Strategy):
        super().__init__(settings, strategy)
        self.settings: SquadSettings = self.with_pack(settings)
        needed = TRAIN if settings.do_train else PREDICT
        if not self._has(needed):
            raise UserError(f"--do_{needed}: give --{needed}_file")
        version = "v2.0" if settings.version_2_with_negative else "v1.1"
        self.task = TaskDescription(f"SQuAD {version}", "span", (), self.settings.inputs())
        self.model = self.make_model(self.settings)
        self.tokenizer = tokenizer_for(self.model.encoder.base, settings.max_seq_length)
        self._on_tpu = is_tpu(strategy)
        self._answered: dict[str, Prediction] = {}

    def run(self) -> bool:
        """Does what the settings ask; False if a signal ended it early."""
        settings = self.settings
        if not settings.do_train:
            self._refuse_other_questions()
            self._predict()
        else:
            before = self.folder.results()
            if not self.train(settings):
                return False
            if "steps" in before and self._asks_anew(before["settings"]):
                self._predict()
        self.export(settings)
        return True

    def _refuse_other_questions(self) -> None:
        """The answers of a run are not replaced by those to another file."""
        before, now = self.folder.asked().get("predict_file"), self.settings.predict_file
        if before not in (None, now):
            raise UserError(
                f"--output_dir={self.folder.path}: has the answers to {before}; give another "
                f"folder, and --pack={self.folder.pack}"
            )

    def _asks_anew(self, before: dict[str, Any]) -> bool:
        """Whether a finished run has not answered yet, or would choose its answers otherwise."""
        now = dataclasses.asdict(self.settings)
        names = ("n_best_size", "max_answer_length", "null_score_diff_threshold")
        other = any(before.get(name) != now[name] for name in names)
        return other or not os.path.exists(self.folder.file("predictions.json"))

    def _predict(self) -> None:
        evaluate, _ = self.evaluation()
        if evaluate is not None:
            metrics = evaluate()
            self.keep()
            self.finish(self.settings, metrics)

    def make_head(self, dropout: float) -> Head:
        return SpanHead()

    def training_batches(self) -> Batches:
        settings = self.settings
        path = settings.train_file
        if path is None or not path.endswith(ENDINGS):
            path = self._training_records(path or "TFDS")
        columns = read_span_records(path)
        words = self.model.encoder.base.config.vocab_size
        check_rows(path, columns[IDS], settings.max_seq_length, words)
        return Batches(
            columns,
            settings.train_batch_size,
            settings.lengths(self._on_tpu),
            fixed_rows=self._on_tpu,
        )

    def evaluation(self) -> tuple[Evaluate | None, str | None]:
        settings = self.settings
        if not settings.do_predict or not self._has(PREDICT):
            return None, None
        articles = self._articles(PREDICT)
        questions = to_predict(articles)
        if not questions:
            raise UserError(f"{settings.predict_file or 'TFDS'}: no questions")
        spans = to_windows(questions, self.tokenizer, settings.sizes)
        scored = has_answers(articles)

        def evaluate() -> dict[str, float]:
            predictions = answer(
                self.model,
                spans,
                self.tokenizer,
                settings.decoding,
                settings.predict_batch_size,
                settings.lengths(self._on_tpu),
                fixed_rows=self._on_tpu,
            )
            self._answered = dict(zip(questions.ids, predictions, strict=True))
            return score_predictions(articles, self._answered) if scored else {}

        return evaluate, "f1" if scored else None

    def keep(self) -> None:
        """Writes the answers of the best epoch."""
        answered = self._answered
        if not answered:
            return
        self._write("predictions.json", {name: found.text for name, found in answered.items()})
        self._write(
            "nbest_predictions.json",
            {name: [best.to_json() for best in found.n_best] for name, found in answered.items()},
        )
        if self.settings.version_2_with_negative:
            self._write(
                "null_odds.json", {name: found.null_odds for name, found in answered.items()}
            )

    def _write(self, name: str, values: dict[str, Any]) -> None:
        """Writes a line for each question; Python's encoder is slow at indenting."""
        lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in values.items()]
        self.folder.write(name, "{\n" + ",\n".join(lines) + "\n}\n")

    def _has(self, name: str) -> bool:
        """Whether there is a file: without any, all is taken from TFDS."""
        settings = self.settings
        own_files = settings.train_file or settings.predict_file
        return not own_files or getattr(settings, f"{name}_file") is not None

    def _articles(self, name: str) -> list[dict[str, Any]]:
        path = getattr(self.settings, f"{name}_file")
        if path is not None:
            return read_squad(path)
        return read_squad_tfds(name == TRAIN, self.settings.version_2_with_negative)

    def _training_records(self, origin: str) -> str:
        settings = self.settings
        questions = to_train(self._articles(TRAIN), origin, settings.version_2_with_negative)
        self._tell_skipped(questions, origin)
        if not questions:
            raise UserError(f"{origin}: no questions to train with")
        return cached_span_records(
            questions, self.tokenizer, settings.sizes, settings.cache_dir, self.task.name
        )

    def _tell_skipped(self, questions: Questions, origin: str) -> None:
        if questions.skipped:
            names = f": {', '.join(questions.skipped)}" if self.settings.verbose_logging else ""
            count = len(questions.skipped)
            print(f"{origin}: {count:,} questions left out, as their answer is not there{names}")
