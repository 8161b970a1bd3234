"""Training that can be stopped at any moment and goes on from there."""

import contextlib
import dataclasses
import math
import signal
import threading
from collections.abc import Callable, Iterator

import tensorflow as tf
import tf_keras

from adapter_bert_tf.data.batches import Batches
from adapter_bert_tf.encoder.dropout import Dropout
from adapter_bert_tf.errors import UserError, first_line
from adapter_bert_tf.run.folder import RunFolder
from adapter_bert_tf.tuning.task_model import TaskModel


@dataclasses.dataclass(frozen=True)
class Schedule:
    """How long a training is.

    Args:
      epochs: Passes over the examples; may be a fraction.
      steps_per_epoch: Batches of a pass.
      seed: Of the order of the examples.
      save_steps: Steps between checkpoints.
      patience: Epochs without a better metric after which training ends; None for all epochs.
    """

    epochs: float
    steps_per_epoch: int
    seed: int
    save_steps: int
    patience: int | None = None

    @property
    def steps(self) -> int:
        """Steps in all."""
        return max(1, int(self.steps_per_epoch * self.epochs))

    def epochs_in(self, step: int) -> int:
        """Epochs that are over after `step` steps; at the end, a cut one is over too."""
        whole, rest = divmod(step, self.steps_per_epoch)
        return whole + (1 if rest and step >= self.steps else 0)

    def steps_of(self, epoch: int) -> int:
        """Steps of one epoch: the last may be cut."""
        return min(self.steps_per_epoch, self.steps - epoch * self.steps_per_epoch)


class Trainer:
    """Trains a model epoch by epoch, in a run's folder.

    What it saves is the trained variables, the optimizer, the state of the dropout and the
    number of steps: the batches of any step follow from the seed.

    Args:
      model: A compiled model.
      batches: The training examples.
      schedule: How long to train.
      folder: The run's folder.
    """

    def __init__(self, model: TaskModel, batches: Batches, schedule: Schedule, folder: RunFolder):
        self._model = model
        self._batches = batches
        self._schedule = schedule
        self._folder = folder
        self._step = tf.Variable(0, dtype=tf.int64, trainable=False)
        model.build_optimizer()
        variables = model.variables_by_path()
        checkpoint = tf.train.Checkpoint(
            trained=[variables[path] for path in sorted(model.tuning.trained(variables))],
            optimizer=model.optimizer,
            generators=[
                layer.generator for layer in model._flatten_layers() if isinstance(layer, Dropout)
            ],
            step=self._step,
        )
        self._manager = tf.train.CheckpointManager(checkpoint, folder.checkpoints, max_to_keep=2)
        latest = tf.train.latest_checkpoint(folder.saved_checkpoints)
        if latest:
            checkpoint.restore(latest).assert_consumed()

    @property
    def step(self) -> int:
        """Steps done so far."""
        return int(self._step.numpy())

    def train(
        self,
        evaluate: Callable[[], dict[str, float]],
        keep_best: Callable[[dict[str, float]], None],
        callbacks: list[tf_keras.callbacks.Callback],
        metric: str | None,
    ) -> bool:
        """Trains to the end; `keep_best` is called after each epoch with a better metric.

        Without a metric, as where there is no evaluation set, the last epoch is the best.

        Returns:
          False if a signal ended it early; then it has saved where it was.
        """
        saver = _Saver(self._save, self._step, self._schedule.save_steps)
        history = self._folder.history()
        loss: dict[str, float] = {}
        while True:
            epochs = self._schedule.epochs_in(self.step)
            history = history[:epochs]
            # An epoch counts once it is evaluated: a run may have been ended in between.
            if len(history) < epochs:
                metrics = evaluate()
                history += [{**loss, **metrics}] * (epochs - len(history))
                values = _values(history, metric)
                if values[-1] == max(values):
                    keep_best(metrics)
                self._folder.write_history(history)
            if self.step >= self._schedule.steps or self._is_stale(_values(history, metric)):
                return True
            loss = {"loss": self._fit(saver, callbacks)}
            if saver.terminated.is_set():
                return False
            self._save()

    def _fit(self, saver: "_Saver", callbacks: list[tf_keras.callbacks.Callback]) -> float:
        """Trains to the end of the epoch, and returns the loss."""
        epoch, done = divmod(self.step, self._schedule.steps_per_epoch)
        plan = self._batches.shuffled(self._schedule.seed, epoch)
        # Only here is something to be saved; elsewhere SIGTERM may end the process at once.
        with _at_sigterm(saver.terminated.set):
            history = self._model.fit(
                self._batches.dataset(plan[done : self._schedule.steps_of(epoch)]),
                initial_epoch=epoch,
                epochs=epoch + 1,
                callbacks=[saver, *callbacks],
            )
        return float(history.history["loss"][-1])

    def _save(self) -> None:
        try:
            self._manager.save()
        except tf.errors.OpError as error:
            raise UserError(f"{self._folder.checkpoints}: {first_line(error)}") from None

    def _is_stale(self, values: list[float]) -> bool:
        if self._schedule.patience is None or not values:
            return False
        since_best = len(values) - 1 - max(range(len(values)), key=lambda i: (values[i], i))
        return since_best >= self._schedule.patience


def _values(history: list[dict[str, float]], metric: str | None) -> list[float]:
    """What the epochs are compared by; without a metric a later one is better."""
    # Epochs before a run was asked for the metric don't have it.
    return [
        entry.get(metric, -math.inf) if metric else epoch for epoch, entry in enumerate(history)
    ]


class _Saver(tf_keras.callbacks.Callback):
    """Counts steps, saves every so many, and at a signal."""

    def __init__(self, save: Callable[[], None], step: tf.Variable, every: int):
        super().__init__()
        self.terminated = threading.Event()
        self._save = save
        self._step = step
        self._every = every

    def on_train_batch_end(self, batch, logs=None):
        self._step.assign_add(1)
        if self.terminated.is_set():
            self._save()
            self.model.stop_training = True
        elif self._step.numpy() % self._every == 0:
            self._save()


@contextlib.contextmanager
def _at_sigterm(call: Callable[[], None]) -> Iterator[None]:
    """Calls `call` at SIGTERM, instead of ending the process."""
    before = signal.signal(signal.SIGTERM, lambda *_: call())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
