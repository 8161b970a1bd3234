"""A classifier run, from a text file to a tuned, scored task."""

import dataclasses
import os
import time

import numpy as np
import tensorflow as tf
import tf_keras

from adapter_bert_tf.base.load import load_encoder
from adapter_bert_tf.data.batches import Batches, bucket_lengths
from adapter_bert_tf.data.records import ENDINGS, LABELS, cached_records, read_records
from adapter_bert_tf.data.sources import OriginalFiles, OwnFiles, RecordFiles, Source, Tfds
from adapter_bert_tf.data.task import CLASSIFICATION, DEV, TEST, TRAIN
from adapter_bert_tf.data.tasks import find_task
from adapter_bert_tf.errors import UserError, some
from adapter_bert_tf.head.classification import ClassificationHead
from adapter_bert_tf.head.head import Head
from adapter_bert_tf.head.regression import RegressionHead
from adapter_bert_tf.pack.model import load_pack, save_pack
from adapter_bert_tf.pack.pack import read_pack
from adapter_bert_tf.run.folder import RunFolder
from adapter_bert_tf.run.metrics import compute_metrics
from adapter_bert_tf.run.settings import ClassifierSettings
from adapter_bert_tf.run.strategy import describe_devices, is_tpu, worker_number
from adapter_bert_tf.run.submission import write_submission
from adapter_bert_tf.run.training import Schedule, Trainer
from adapter_bert_tf.text.inputs import IDS, MASK, SEGMENTS, encode
from adapter_bert_tf.text.tokenizer import Tokenizer
from adapter_bert_tf.tuning.optimizer import create_optimizer
from adapter_bert_tf.tuning.task_model import TaskModel


def find_source(settings: ClassifierSettings) -> Source:
    """Finds the task's examples: own files, original files, or TFDS."""
    if settings.task is not None:
        task = find_task(settings.task)
        return OriginalFiles(task, settings.data_dir) if settings.data_dir else Tfds(task)
    files = {
        split: path
        for split, path in (
            (TRAIN, settings.train_file),
            (DEV, settings.dev_file),
            (TEST, settings.test_file),
        )
        if path is not None
    }
    pack = read_pack(settings.pack) if settings.pack else None
    labels = tuple(pack.labels) if pack else None
    if all(path.endswith(ENDINGS) for path in files.values()):
        return RecordFiles(files, len(labels) if labels else _classes_in(files))
    return OwnFiles(
        files,
        settings.text_column,
        settings.text_pair_column,
        settings.label_column,
        labels,
        settings.regression,
    )


def _classes_in(files: dict[str, str]) -> int:
    path = next(iter(files.values()))
    columns = read_records(path)
    if LABELS not in columns:
        raise UserError(f"{path}: has no labels")
    return int(tf.reduce_max(columns[LABELS])) + 1


class ClassifierRun:
    """One run: its data, its model, its folder.

    Args:
      settings: What to do.
      strategy: Where to compute.
    """

    def __init__(self, settings: ClassifierSettings, strategy: tf.distribute.Strategy):
        self.strategy = strategy
        self.folder = RunFolder(settings.output_dir, worker_number(strategy))
        self._pack = self._pack_to_start_from(settings)
        if self._pack:
            pack = read_pack(self._pack)
            settings = dataclasses.replace(settings, adapter=pack.adapter, tuning=pack.tuning)
        self.settings = settings
        self.source = find_source(settings)
        self._check_splits()
        self.model = self._make_model()
        self._check_lengths()
        vocabulary = self.model.encoder.base.vocabulary
        if vocabulary is None:
            raise UserError(f"{settings.bert}: no vocab.txt beside it; give --vocab_file")
        self.tokenizer = Tokenizer(vocabulary)

    def run(self) -> bool:
        """Does what the settings ask; False if a signal ended it early."""
        settings = self.settings
        if settings.do_train and not self._train():
            return False
        if settings.do_eval and not settings.do_train:
            self._finish({"metrics": self._evaluate_all()})
        if settings.do_predict:
            self._predict()
        return True

    def classify(self, texts: list[str]) -> list[tuple[str, float]]:
        """Returns the most probable label of each text, and its probability."""
        inputs = encode(self.tokenizer, tf.constant(texts), None, self.settings.max_seq_length)
        probabilities = tf.nn.softmax(
            self.model(
                {
                    "input_word_ids": inputs[IDS].to_tensor(),
                    "input_mask": inputs[MASK].to_tensor(),
                    "input_type_ids": inputs[SEGMENTS].to_tensor(),
                }
            )
        ).numpy()
        best = probabilities.argmax(axis=-1)
        return [
            (self.source.labels[label], float(row[label]))
            for label, row in zip(best, probabilities, strict=True)
        ]

    def _pack_to_start_from(self, settings: ClassifierSettings) -> str | None:
        if settings.pack or settings.do_train:
            return settings.pack
        if not os.path.isdir(self.folder.pack):
            raise UserError(f"--pack: nothing is trained, and {self.folder.pack} is not there")
        return self.folder.pack

    def _check_splits(self) -> None:
        """Tells before anything is done that something asked for has no examples."""
        for asked, kind, flag in (
            (self.settings.do_train, TRAIN, "train"),
            (self.settings.do_eval and not self.settings.do_train, DEV, "eval"),
            (self.settings.do_predict, TEST, "predict"),
        ):
            if asked and not self._split_names(kind):
                name = self.source.task.name
                raise UserError(f"--do_{flag}: {name} has no {kind} set; give --{kind}_file")

    def _split_names(self, kind: str) -> list[str]:
        task = self.source.task
        if task.splits:
            return task.split_names(kind)
        return [kind] if getattr(self.settings, f"{kind}_file") else []

    def _make_model(self) -> TaskModel:
        settings = self.settings
        with self.strategy.scope():
            encoder = load_encoder(
                settings.bert,
                settings.adapter,
                config_file=settings.bert_config_file,
                vocab_file=settings.vocab_file,
                lower_case=settings.do_lower_case,
            )
            head = self._head(encoder.base.config.output_dropout)
            model = TaskModel(encoder, head, settings.tuning)
            if self._pack is None:
                return model
            self._check_pack(self._pack, head)
            return load_pack(model, self._pack)

    def _check_pack(self, folder: str, head: Head) -> None:
        pack = read_pack(folder)
        if pack.head["kind"] != head.kind:
            raise UserError(f"{folder}: is a {pack.head['kind']}, the task a {head.kind}")
        if pack.labels and tuple(pack.labels) != self.source.labels:
            theirs, ours = some(pack.labels), some(self.source.labels)
            raise UserError(f"{folder}: has the labels {theirs}; the task has {ours}")

    def _head(self, dropout: float) -> Head:
        if self.source.task.kind == CLASSIFICATION:
            return ClassificationHead(len(self.source.labels), dropout)
        return RegressionHead(dropout)

    def _check_lengths(self) -> None:
        longest = self.model.encoder.base.config.max_sequence_length
        if self.settings.max_seq_length > longest:
            raise UserError(
                f"--max_seq_length={self.settings.max_seq_length}: the base takes {longest} at most"
            )

    def _batches(self, split: str, batch_size: int) -> Batches:
        settings = self.settings
        path = self._records(split)
        columns = read_records(path, self.source.task.kind != CLASSIFICATION)
        self._check_columns(path, columns, needs_labels=not split.startswith(TEST))
        one_shape = settings.pad_to_max or is_tpu(self.strategy)
        longest = settings.max_seq_length
        return Batches(
            columns,
            batch_size,
            [longest] if one_shape else bucket_lengths(longest),
            fixed_rows=is_tpu(self.strategy),
        )

    def _records(self, split: str) -> str:
        if isinstance(self.source, RecordFiles):
            return self.source.files[split]
        return cached_records(
            self.source.read(split),
            self.tokenizer,
            self.settings.max_seq_length,
            self.settings.cache_dir,
            title=f"{self.source.task.name} {split}",
        )

    def _check_columns(self, path: str, columns: dict, needs_labels: bool) -> None:
        """Refuses records that this model can't take: ours always fit, others may not."""
        longest = int(tf.reduce_max(columns[IDS].row_lengths()))
        if longest > self.settings.max_seq_length:
            raise UserError(f"{path}: a row has {longest} tokens, more than --max_seq_length")
        if (
            int(tf.reduce_max(columns[IDS].flat_values))
            >= self.model.encoder.base.config.vocab_size
        ):
            raise UserError(f"{path}: has token ids beyond the base's vocabulary")
        if not needs_labels:
            columns.pop(LABELS, None)
            return
        if LABELS not in columns:
            raise UserError(f"{path}: has no labels")
        classes = len(self.source.labels)
        if classes and not 0 <= int(tf.reduce_max(columns[LABELS])) < classes:
            raise UserError(f"{path}: has labels beyond the {classes} classes")

    def _train(self) -> bool:
        if "steps" in self.folder.results():
            print(f"{self.folder.path}: this run is finished; its results are eval_results.json")
            load_pack(self.model, self.folder.pack)
            return True
        settings = self.settings
        batches = self._batches(TRAIN, settings.train_batch_size)
        dev = {name: self._batches(name, settings.eval_batch_size) for name in self._dev_names()}
        # Below what can go wrong: a command that is mended may use the folder.
        self.folder.claim(settings.identity())
        schedule = Schedule(
            settings.num_train_epochs,
            len(batches),
            settings.seed,
            settings.save_checkpoints_steps,
            settings.early_stopping,
        )
        self._compile(schedule.steps)
        trainer = Trainer(self.model, batches, schedule, self.folder)
        self._print_plan(batches, schedule, trainer.step)

        def evaluate() -> dict[str, float]:
            metrics = self._evaluate(dev)
            print("  ".join(f"{name} {value:.4f}" for name, value in metrics.items()))
            return metrics

        start, first = time.monotonic(), trainer.step
        whole = trainer.train(
            evaluate,
            keep_best=self._save,
            callbacks=[tf_keras.callbacks.TensorBoard(self.folder.file("tensorboard"))],
            metric=self._main_metric(),
        )
        if not whole:
            print(f"stopped at step {trainer.step}; the same command goes on from there")
            return False
        seconds = time.monotonic() - start
        load_pack(self.model, self.folder.pack)
        examples = (trainer.step - first) * settings.train_batch_size
        self._finish(
            {
                "metrics": read_pack(self.folder.pack).metrics,
                "epochs": self.folder.history(),
                "steps": trainer.step,
                "seconds": round(seconds, 1),
                "examples_per_second": round(examples / seconds, 1),
            }
        )
        return True

    def _dev_names(self) -> list[str]:
        return self._split_names(DEV)

    def _main_metric(self) -> str | None:
        names = self._dev_names()
        if not names:
            return None
        metric = self.source.task.metrics[0]
        return metric if len(names) < 2 else f"{names[0]}_{metric}"

    def _compile(self, steps: int) -> None:
        with self.strategy.scope():
            classes = self.source.task.kind == CLASSIFICATION
            self.model.compile(
                optimizer=create_optimizer(
                    self.settings.rate, steps, int(steps * self.settings.warmup_proportion)
                ),
                loss=self.model.head.loss,
                weighted_metrics=[tf_keras.metrics.SparseCategoricalAccuracy("accuracy")]
                if classes
                else [],
            )

    def _print_plan(self, batches: Batches, schedule: Schedule, step: int) -> None:
        settings = self.settings
        trained = self.model.tuning.describe(self.model.variables_by_path())
        print(
            f"base     {settings.bert}\n"
            f"task     {self.source.task.name}: {self.source.task.kind}, "
            f"{batches.rows:,} training examples\n"
            f"tuning   {trained}\n"
            f"steps    {schedule.steps:,} of {settings.train_batch_size} examples, "
            f"learning rate {settings.rate:g}" + (f"; going on from step {step:,}" if step else "")
        )
        print(f"devices  {describe_devices(self.strategy)}")

    def _evaluate_all(self) -> dict[str, float]:
        return self._evaluate(
            {name: self._batches(name, self.settings.eval_batch_size) for name in self._dev_names()}
        )

    def _evaluate(self, dev: dict[str, Batches]) -> dict[str, float]:
        metrics: dict[str, float] = {}
        for name, batches in dev.items():
            labels = batches.columns[LABELS].numpy()
            values = compute_metrics(self.source.task.metrics, labels, self._outputs(batches))
            prefix = f"{name}_" if len(dev) > 1 else ""
            metrics |= {f"{prefix}{metric}": value for metric, value in values.items()}
        return metrics

    def _outputs(self, batches: Batches) -> np.ndarray:
        """The model's outputs, in the order of the file."""
        plan = batches.by_length()
        inputs = batches.dataset(plan).map(lambda inputs, *_: inputs)
        if isinstance(self.strategy, tf.distribute.MultiWorkerMirroredStrategy):
            # Keras would give each worker its share of the rows only.
            forward = tf.function(self.model.call, reduce_retracing=True)
            found = np.concatenate([forward(batch) for batch in inputs])
        else:
            found = self.model.predict(inputs, verbose=0)
        order = np.concatenate(plan)
        outputs = np.empty_like(found[: len(order)])
        outputs[order] = found[: len(order)]
        return outputs

    def _save(self, metrics: dict[str, float]) -> None:
        save_pack(
            self.model,
            self.folder.pack,
            task=self.source.task.name,
            labels=self.source.labels,
            metrics=metrics,
        )

    def _finish(self, results: dict) -> None:
        trained, total = self.model.tuning.count(self.model.variables_by_path())
        self.folder.write_results(
            {
                **self.folder.results(),
                "task": self.source.task.name,
                **results,
                "trained_parameters": trained,
                "total_parameters": total,
                "settings": dataclasses.asdict(self.settings),
            }
        )
        for name, value in results["metrics"].items():
            print(f"{name} = {value:.4f}")

    def _predict(self) -> None:
        task = self.source.task
        for name in self._split_names(TEST):
            outputs = self._outputs(self._batches(name, self.settings.predict_batch_size))
            probabilities = tf.nn.softmax(outputs).numpy() if outputs.ndim > 1 else outputs[:, None]
            lines = ["\t".join(str(value) for value in row) + "\n" for row in probabilities]
            suffix = name.removeprefix(TEST)
            self.folder.write(f"test_results{suffix}.tsv", "".join(lines))
            if name in task.submission:
                write_submission(self.folder, task, name, outputs)
