"""What every run does: it makes a model, trains it, keeps the best and writes what came of it."""

import dataclasses
import os
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tf_keras

from adapter_bert_tf.base.load import find_base, load_encoder
from adapter_bert_tf.data.batches import Batches
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.heads.head import Head
from adapter_bert_tf.pack.model import load_pack, save_pack
from adapter_bert_tf.pack.pack import read_pack
from adapter_bert_tf.run.devices import describe_devices, worker_number
from adapter_bert_tf.run.folder import RunFolder
from adapter_bert_tf.run.settings import RunSettings
from adapter_bert_tf.run.trainer import Schedule, Trainer
from adapter_bert_tf.serve.export import export_packs, find_version
from adapter_bert_tf.tuning.optimizer import create_optimizer
from adapter_bert_tf.tuning.task_model import TaskModel

# Scores a model, and returns the metrics.
Evaluate = Callable[[], dict[str, float]]


@dataclasses.dataclass(frozen=True)
class TaskDescription:
    """What a run says of its task, and what its pack keeps.

    Args:
      name: Name of the task.
      kind: What is predicted: a class, a number, a span.
      labels: Names of the classes.
      inputs: How texts become inputs.
    """

    name: str
    kind: str
    labels: tuple[str, ...]
    inputs: dict[str, Any]


class Run:
    """One run: its settings, its folder, its model. A subclass brings task and data.

    Args:
      settings: What to do.
      strategy: Where to compute.
    """

    task: TaskDescription
    model: TaskModel

    def __init__(self, settings: RunSettings, strategy: tf.distribute.Strategy):
        self.strategy = strategy
        self.folder = RunFolder(settings.output_dir, worker_number(strategy))
        if settings.export_dir:
            find_version(settings.export_dir)  # Before hours of training, not behind them.

    # What a subclass brings:

    def make_head(self, dropout: float) -> Head:
        """Returns the task's head; `dropout` is the rate that the base has."""
        raise NotImplementedError

    def training_batches(self) -> Batches:
        """Returns the training examples."""
        raise NotImplementedError

    def evaluation(self) -> tuple[Evaluate | None, str | None]:
        """Returns what scores the model and the metric that counts; None without examples."""
        raise NotImplementedError

    def training_metrics(self) -> list[tf_keras.metrics.Metric]:
        """Returns the metrics that the progress bar shows."""
        return []

    def keep(self) -> None:
        """Is called when the epoch that was evaluated last is the best so far."""

    # What it gives:

    def with_pack(self, settings: RunSettings) -> Any:
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

    def make_model(self, settings: RunSettings) -> TaskModel:
        """Loads the base, and the pack if the settings have one."""
        with self.strategy.scope():
            encoder = load_encoder(
                settings.bert,
                settings.adapter,
                config_file=settings.bert_config_file,
                vocab_file=settings.vocab_file,
                lower_case=settings.do_lower_case,
            )
            head = self.make_head(encoder.base.config.output_dropout)
            model = TaskModel(encoder, head, settings.tuning)
            if settings.pack is None:
                return model
            kind = read_pack(settings.pack).head["kind"]
            if kind != head.kind:
                raise UserError(f"{settings.pack}: is a {kind}, the task a {head.kind}")
            return load_pack(model, settings.pack)

    def train(self, settings: RunSettings) -> bool:
        """Trains to the end, or goes on with it; False if a signal ended it early."""
        self.folder.refuse_other(settings.identity())
        if "steps" in self.folder.results():
            print(f"{self.folder.path}: this run is finished; its results are eval_results.json")
            load_pack(self.model, self.folder.pack)
            return True
        batches = self.training_batches()
        evaluate, metric = self.evaluation()
        # Below what can go wrong: a command that is mended may use the folder.
        self.folder.claim(settings.identity())
        schedule = Schedule(
            settings.num_train_epochs,
            len(batches),
            settings.seed,
            settings.save_checkpoints_steps,
            settings.early_stopping,
        )
        self._compile(settings, schedule.steps)
        trainer = Trainer(self.model, batches, schedule, self.folder)
        self._print_plan(settings, batches, schedule, trainer.step)
        start, first = time.monotonic(), trainer.step
        whole = trainer.train(
            lambda: _told(evaluate()) if evaluate else {},
            keep_best=self._keep_best,
            callbacks=[tf_keras.callbacks.TensorBoard(self.folder.file("tensorboard"))],
            metric=metric,
        )
        if not whole:
            print(f"stopped at step {trainer.step}; the same command goes on from there")
            return False
        seconds = time.monotonic() - start
        load_pack(self.model, self.folder.pack)
        examples = (trainer.step - first) * settings.train_batch_size
        training = {
            "epochs": self.folder.history(),
            "steps": trainer.step,
            "seconds": round(seconds, 1),
            "examples_per_second": round(examples / seconds, 1),
        }
        self.finish(settings, read_pack(self.folder.pack).metrics, training)
        return True

    def finish(
        self, settings: RunSettings, metrics: dict[str, float], more: dict[str, Any] | None = None
    ) -> None:
        """Writes and prints what came of the run."""
        trained, total = self.model.tuning.count(self.model.variables_by_path())
        self.folder.write_results(
            {
                **self.folder.results(),
                "task": self.task.name,
                "metrics": metrics,
                **(more or {}),
                "trained_parameters": trained,
                "total_parameters": total,
                "settings": dataclasses.asdict(settings),
            }
        )
        for name, value in metrics.items():
            print(f"{name} = {value:.4f}")

    def export(self, settings: RunSettings) -> None:
        """Exports the task pack for TF Serving, if the settings say where to."""
        if not settings.export_dir or worker_number(self.strategy):
            return
        base = find_base(
            settings.bert, settings.bert_config_file, settings.vocab_file, settings.do_lower_case
        )
        pack = self.folder.pack if settings.do_train or not settings.pack else settings.pack
        theirs = read_pack(pack).inputs
        for name, value in self.task.inputs.items():
            if name in theirs and theirs[name] != value:
                raise UserError(
                    f"--export_dir: {pack} has {name}={theirs[name]}, this run {value}; an export "
                    "would answer otherwise"
                )
        print(f"exported: {export_packs(base, [pack], settings.export_dir)}")

    def _compile(self, settings: RunSettings, steps: int) -> None:
        with self.strategy.scope():
            warmup = int(steps * settings.warmup_proportion)
            self.model.compile(
                optimizer=create_optimizer(settings.rate, steps, warmup),
                loss=self.model.head.loss,
                weighted_metrics=self.training_metrics(),
            )

    def _print_plan(
        self, settings: RunSettings, batches: Batches, schedule: Schedule, step: int
    ) -> None:
        trained = self.model.tuning.describe(self.model.variables_by_path())
        going_on = f"; going on from step {step:,}" if step else ""
        print(
            f"base     {settings.bert}\n"
            f"task     {self.task.name}: {self.task.kind}, {batches.rows:,} training examples\n"
            f"tuning   {trained}\n"
            f"steps    {schedule.steps:,} of {settings.train_batch_size} examples, "
            f"learning rate {settings.rate:g}{going_on}\n"
            f"devices  {describe_devices(self.strategy)}"
        )

    def _keep_best(self, metrics: dict[str, float]) -> None:
        save_pack(
            self.model,
            self.folder.pack,
            task=self.task.name,
            labels=self.task.labels,
            metrics=metrics,
            inputs=self.task.inputs,
        )
        self.keep()


def _told(metrics: dict[str, float]) -> dict[str, float]:
    print("  ".join(f"{name} {value:.4f}" for name, value in metrics.items()))
    return metrics
