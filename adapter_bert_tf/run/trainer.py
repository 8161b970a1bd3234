"""Training that can be stopped at any moment, and is resumed by the same command."""

import dataclasses
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import tensorflow as tf
import tf_keras

from adapter_bert_tf.data.batches import Batches
from adapter_bert_tf.errors import UserError, file_error, quiet
from adapter_bert_tf.files import exists
from adapter_bert_tf.pack.model import load_pack
from adapter_bert_tf.pack.pack import read_pack
from adapter_bert_tf.run.checkpoint import Checkpoint
from adapter_bert_tf.run.devices import describe_devices
from adapter_bert_tf.run.folder import RunFolder
from adapter_bert_tf.run.settings import RunSettings
from adapter_bert_tf.run.workers import Workers, on_signals
from adapter_bert_tf.task import Task
from adapter_bert_tf.tuning.optimizer import BertAdam, create_optimizer
from adapter_bert_tf.tuning.task_model import TaskModel

# Scores the model: yields names and values.
Evaluator = Callable[[], Iterable[tuple[str, float]]]
Epoch = dict[str, dict[str, float]]
# Follows a training: gets the number of an epoch and the metric that decides.
Watcher = Callable[[int, float], None]

# What the results say about the training itself.
TRAINING = ("epochs", "steps", "seconds", "examples_per_second")

# Steps between two points of the loss in TensorBoard.
_SUMMARY_STEPS = 20


@dataclasses.dataclass(frozen=True)
class Schedule:
    """How long a training is.

    Attributes:
      epochs: Passes over the examples; may be a fraction.
      steps_per_epoch: Batches of a pass.
    """

    epochs: float
    steps_per_epoch: int

    @property
    def steps(self) -> int:
        """Steps in all."""
        return max(1, int(self.steps_per_epoch * self.epochs))

    def epochs_in(self, step: int) -> int:
        """Returns the epochs that are over after `step` steps; at the end, a part counts too."""
        whole, rest = divmod(step, self.steps_per_epoch)
        return whole + (1 if rest and step >= self.steps else 0)

    def end_of(self, epochs: int) -> int:
        """Returns the steps after which so many epochs are over."""
        return min(epochs * self.steps_per_epoch, self.steps)

    def steps_of(self, epoch: int) -> int:
        """Returns the steps of one epoch: the last one may be cut."""
        return min(self.steps_per_epoch, self.steps - epoch * self.steps_per_epoch)


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is trained on what.

    Attributes:
      task: The task; its model is trained.
      batches: The training examples.
      evaluate: Scores the model after each epoch.
      metric: The metric that decides which epoch is the best. Without one it is the last.
      keep: Is called when the epoch that was just evaluated is the best so far.
      lines: What else to print before training starts.
      identity: What makes the run another run: see `identify`.
      watch: Is told the number of each epoch that was evaluated, and the metric that decides.
      stop: Ends the training when it is set, as signals do.
    """

    task: Task
    batches: Batches
    evaluate: Evaluator = tuple
    metric: str | None = None
    keep: Callable[[], None] = lambda: None
    lines: tuple[str, ...] = ()
    identity: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    watch: Watcher = lambda epoch, value: None
    stop: threading.Event = dataclasses.field(default_factory=threading.Event)


def train(plan: Plan, settings: RunSettings, folder: RunFolder) -> bool:
    """Trains to the end, and keeps the best epoch as the folder's task pack.

    Returns:
      False if a signal ended it early. Then it has saved where it was.
    """
    model, batches = plan.task.model, plan.batches
    folder.claim(plan.identity)

    # The optimizer, and what a resumed training starts from.
    schedule = Schedule(settings.num_train_epochs, len(batches))
    warmup = int(schedule.steps * settings.warmup_proportion)
    _compile(model, settings.rate, schedule.steps, warmup)
    model.build_drop()
    if model.drop:
        model.drop.seed.assign(settings.seed)
    workers = Workers(model.distribute_strategy)
    checkpoint = Checkpoint(plan.task, folder, workers)
    first = checkpoint.step
    if any(step != [first] for step in workers.gather(first)):
        raise UserError(f"--output_dir={folder.path}: has to be the same folder for all workers")
    _print_plan(plan, settings, schedule, first)

    # Epoch after epoch. An epoch is done when it is evaluated: a run may stop in between.
    start = time.monotonic()
    watcher = _Watcher(checkpoint, plan.stop, workers, folder, settings.save_checkpoints_steps)
    summaries = _summaries(folder, "dev")
    history: list[Epoch] = folder.history()
    while True:
        done = schedule.epochs_in(checkpoint.step)
        history = history[:done]
        is_whole = checkpoint.step == schedule.end_of(done)
        training = checkpoint.training() if is_whole else {}
        if len(history) < done and workers.is_first:
            metrics = dict(plan.evaluate())
            _print_metrics(metrics)
            history += [{"train": training, "dev": metrics}] * (done - len(history))
            with summaries.as_default(step=checkpoint.step):
                for name, value in metrics.items():
                    tf.summary.scalar(name, value)
            summaries.flush()
            values = _compared(history, plan.metric)
            if values[-1] == max(values):
                plan.task.save(folder.pack, metrics)
                plan.keep()
            folder.write_history(history)
            plan.watch(done, values[-1])
        workers.gather()
        history = folder.history()[:done]  # The first worker's, for the others.
        stale = _epochs_since_best(_compared(history, plan.metric))
        if checkpoint.step >= schedule.steps or stale >= (settings.early_stopping or math.inf):
            break
        epoch, step_in_epoch = divmod(checkpoint.step, schedule.steps_per_epoch)
        order = batches.shuffled(settings.seed, epoch)[step_in_epoch : schedule.steps_of(epoch)]
        # Only here is something to be saved; elsewhere a signal may end the process at once.
        with on_signals(plan.stop.set), quiet():
            model.fit(
                batches.dataset(order),
                initial_epoch=epoch,
                epochs=epoch + 1,
                callbacks=[watcher, _Bar(schedule.epochs)],
            )
        checkpoint.save()
        if watcher.is_stopped:
            print(f"stopped at step {checkpoint.step}; the same command resumes it")
            return False

    # The best epoch, and the results.
    load_pack(model, folder.pack)
    seconds = time.monotonic() - start
    examples = (checkpoint.step - first) * settings.train_batch_size
    more = {
        "epochs": history,
        "steps": checkpoint.step,
        "seconds": round(seconds, 1),
        "examples_per_second": round(examples / seconds, 1),
    }
    write_results(plan.task, read_pack(folder.pack).metrics, settings, folder, more)
    return True


def _compile(model: TaskModel, rate: float, steps: int, warmup_steps: int) -> None:
    if isinstance(model.optimizer, BertAdam):
        # Another run has trained it: the step that was traced then is used again.
        model.optimizer.restart(rate, steps, warmup_steps)
        return
    with model.distribute_strategy.scope():
        model.compile(
            optimizer=create_optimizer(rate, steps, warmup_steps),
            loss=model.head.loss,
            weighted_metrics=model.head.training_metrics(),
        )


def is_finished(identity: Mapping[str, Any], folder: RunFolder) -> bool:
    """Whether the folder holds this very run, trained to its end; refuses that of another run."""
    folder.refuse_other(identity)
    if "steps" not in folder.results():
        return False
    print(f"{folder.path}: this run is finished; its results are in eval_results.json")
    return True


def write_results(
    task: Task,
    metrics: dict[str, float],
    settings: RunSettings,
    folder: RunFolder,
    more: dict | None = None,
) -> None:
    """Writes and prints what came of a run."""
    trained, total = task.model.tuning.count(task.model.variables_by_path())
    folder.write_results(
        {
            "task": task.name,
            "metrics": metrics,
            **(more or {}),
            "trained_parameters": trained,
            "total_parameters": total,
            "settings": dataclasses.asdict(settings),
        }
    )
    for name, value in metrics.items():
        print(f"{name} = {value:.4f}")


def _print_plan(plan: Plan, settings: RunSettings, schedule: Schedule, step: int) -> None:
    task, model = plan.task, plan.task.model
    resumed = f"; resumed at step {step:,}" if step else ""
    lines = (
        f"base     {settings.bert}",
        f"task     {task.name}: {task.head.kind}, {plan.batches.rows:,} training examples",
        *plan.lines,
        f"tuning   {model.tuning.describe(model.variables_by_path())}",
        f"steps    {schedule.steps:,} of {settings.train_batch_size} examples, "
        f"learning rate {settings.rate:g}{resumed}",
        f"devices  {describe_devices(model.distribute_strategy)}",
        f"folder   {settings.output_dir}",
    )
    print("\n".join(lines))


def _print_metrics(metrics: dict[str, float]) -> None:
    if metrics:
        print("  ".join(f"{name} {value:.4f}" for name, value in metrics.items()))


def _compared(history: list[Epoch], metric: str | None) -> list[float]:
    """Returns what epochs are compared by; without a metric a later epoch is better."""
    # Epochs from before a run was asked for this metric don't have it.
    return [
        epoch["dev"].get(metric, -math.inf) if metric else number
        for number, epoch in enumerate(history)
    ]


def _epochs_since_best(values: list[float]) -> int:
    if not values:
        return 0
    return len(values) - 1 - max(range(len(values)), key=lambda number: (values[number], number))


class _Bar(tf_keras.callbacks.ProgbarLogger):
    """Keras's progress bar, which says how many epochs there are in all."""

    def __init__(self, epochs: float):
        super().__init__(count_mode="steps")
        self._epochs = math.ceil(epochs)

    def set_params(self, params):
        # Each epoch is a call of `fit`, which only knows of this one.
        super().set_params({**params, "epochs": self._epochs})


class _Watcher(tf_keras.callbacks.Callback):
    """Counts steps, saves every so many, stops at a signal, and writes the loss for TensorBoard."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        stop: threading.Event,
        workers: Workers,
        folder: RunFolder,
        save_steps: int,
    ):
        super().__init__()
        self.is_stopped = False
        self._checkpoint, self._stop, self._workers = checkpoint, stop, workers
        self._folder, self._save_steps = folder, save_steps
        self._summaries = _summaries(folder, "train")

    def on_train_batch_end(self, batch, logs=None):
        self._checkpoint.count_step(is_first=batch == 0)
        step, loss = self._checkpoint.step, logs["loss"]
        self._refuse_not_finite(step, loss)
        if step % _SUMMARY_STEPS == 0:
            with self._summaries.as_default(step=step):
                tf.summary.scalar("loss", loss)
        # A signal reaches one worker, and ends all of them at the same step.
        self.is_stopped = any(stop for (stop,) in self._workers.gather(self._stop.is_set()))
        if self.is_stopped:
            self.model.stop_training = True
        elif step % self._save_steps == 0:
            self._checkpoint.save()

    def _refuse_not_finite(self, step: int, loss: float) -> None:
        """Ends the training before such values are saved."""
        if not math.isfinite(loss):
            what = f"the loss is {loss}"
        elif not self.model.has_finite_weights():
            what = "a weight is not finite"
        else:
            return
        kept = f"; {self._folder.pack} has the best epoch" if exists(self._folder.pack) else ""
        raise UserError(
            f"{what} at step {step}, learning rate {float(self.model.optimizer.learning_rate):g}; "
            f"try a lower --learning_rate or a longer --warmup_proportion{kept}"
        )

    def on_train_end(self, logs=None):
        self._summaries.flush()


def _summaries(folder: RunFolder, part: str) -> tf.summary.SummaryWriter:
    if not folder.is_written:
        return tf.summary.create_noop_writer()
    path = folder.file(f"tensorboard/{part}")
    try:
        return tf.summary.create_file_writer(path)
    except tf.errors.OpError as error:
        raise file_error(path, error) from None
