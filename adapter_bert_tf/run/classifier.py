"""A classifier run, from a text file to a tuned, scored task."""

import dataclasses
import os
import time

import numpy as np
import tensorflow as tf
import tf_keras

from adapter_bert_tf.base.load import find_base, load_encoder
from adapter_bert_tf.data.batches import Batches
from adapter_bert_tf.data.records import LABELS
from adapter_bert_tf.data.task import CLASSIFICATION, DEV, TEST, TRAIN
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
from adapter_bert_tf.run.task_data import TaskData, check_splits, find_source, split_names
from adapter_bert_tf.run.training import Schedule, Trainer
from adapter_bert_tf.serve.export import export_packs, find_version
from adapter_bert_tf.text.inputs import IDS, MASK, SEGMENTS, encode
from adapter_bert_tf.tuning.optimizer import create_optimizer
from adapter_bert_tf.tuning.task_model import TaskModel


class ClassifierRun:
    """One run: its data, its model, its folder.

    Args:
      settings: What to do.
      strategy: Where to compute.
    """

    def __init__(self, settings: ClassifierSettings, strategy: tf.distribute.Strategy):
        self.strategy = strategy
        self.folder = RunFolder(settings.output_dir, worker_number(strategy))
        self.settings = settings = self._with_pack(settings)
        self.source = find_source(settings)
        check_splits(settings, self.source)
        if settings.export_dir:
            find_version(settings.export_dir)  # Before hours of training, not behind them.
        self.model = self._make_model()
        self.data = TaskData(settings, self.source, self.model.encoder.base, is_tpu(strategy))

    def _with_pack(self, settings: ClassifierSettings) -> ClassifierSettings:
        """Adapters and tuning are the pack's, if the run starts from one.

        Without training that is the run's own, if no other is named.
        """
        folder = settings.pack
        if folder is None and not settings.do_train:
            folder = self.folder.pack
            if not os.path.isdir(folder):
                raise UserError(f"--pack: nothing is trained, and {folder} is not there")
        if folder is None:
            return settings
        pack = read_pack(folder)
        return dataclasses.replace(settings, pack=folder, adapter=pack.adapter, tuning=pack.tuning)

    def run(self) -> bool:
        """Does what the settings ask; False if a signal ended it early."""
        settings = self.settings
        if settings.do_train and not self._train():
            return False
        if settings.do_eval and not settings.do_train:
            self._finish({"metrics": self._evaluate(self._dev_batches())})
        if settings.do_predict:
            self._predict()
        if settings.export_dir and not worker_number(self.strategy):
            self._export(settings.export_dir)
        return True

    def classify(self, texts: list[str]) -> list[tuple[str, float]]:
        """Returns the most probable label of each text, and its probability."""
        inputs = encode(self.data.tokenizer, tf.constant(texts), None, self.settings.max_seq_length)
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
            if settings.pack is None:
                return model
            self._check_pack(settings.pack, head)
            return load_pack(model, settings.pack)

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

    def _train(self) -> bool:
        self.folder.refuse_other(self.settings.identity())
        if "steps" in self.folder.results():
            print(f"{self.folder.path}: this run is finished; its results are eval_results.json")
            load_pack(self.model, self.folder.pack)
            return True
        settings = self.settings
        batches = self.data.batches(TRAIN, settings.train_batch_size)
        dev = self._dev_batches()
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
        return split_names(self.settings, self.source, DEV)

    def _dev_batches(self) -> dict[str, Batches]:
        size = self.settings.eval_batch_size
        return {name: self.data.batches(name, size) for name in self._dev_names()}

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
            inputs={
                "max_seq_length": self.settings.max_seq_length,
                "pair": self.source.task.pair is not None,
            },
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

    def _export(self, export_dir: str) -> None:
        settings = self.settings
        base = find_base(
            settings.bert, settings.bert_config_file, settings.vocab_file, settings.do_lower_case
        )
        pack = settings.pack if settings.pack and not settings.do_train else self.folder.pack
        print(f"exported: {export_packs(base, [pack], export_dir)}")

    def _predict(self) -> None:
        task = self.source.task
        for name in split_names(self.settings, self.source, TEST):
            outputs = self._outputs(self.data.batches(name, self.settings.predict_batch_size))
            probabilities = tf.nn.softmax(outputs).numpy() if outputs.ndim > 1 else outputs[:, None]
            lines = ["\t".join(str(value) for value in row) + "\n" for row in probabilities]
            suffix = name.removeprefix(TEST)
            self.folder.write(f"test_results{suffix}.tsv", "".join(lines))
            if name in task.submission:
                write_submission(self.folder, task, name, outputs)
