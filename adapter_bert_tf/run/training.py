"""Training that can be stopped at any moment and goes on from there."""

import dataclasses
import signal
import threading
from collections.abc import Callable

import tensorflow as tf
import tf_keras

from adapter_bert_tf.data.batches import Batches
from adapter_bert_tf.encoder.dropout import Dropout
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
        # Outside of the scope, all devices would share the moments, and each would update them.
        with model.distribute_strategy.scope():
            model.optimizer.build(model.trainable_variables)
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
        saver = _Saver(self._manager, self._step, self._schedule.save_steps)
        history = self._folder.history()
        with _until_terminated(saver.terminated):
            while self.step < self._schedule.steps:
                epoch, done = divmod(self.step, self._schedule.steps_per_epoch)
                history = history[:epoch]
                if self._is_stale(_values(history, metric)):
                    break
                loss = self._fit(epoch, done, [saver, *callbacks])
                if saver.terminated.is_set():
                    return False
                metrics = evaluate()
                history.append({"loss": loss, **metrics})
                values = _values(history, metric)
                if values[-1] == max(values):
                    keep_best(metrics)
                self._folder.write_history(history)
                self._manager.save()
                if saver.terminated.is_set():
                    return False
        return True

    def _fit(self, epoch: int, done: int, callbacks: list) -> float:
        plan = self._batches.shuffled(self._schedule.seed, epoch)
        history = self._model.fit(
            self._batches.dataset(plan[done : self._schedule.steps_of(epoch)]),
            initial_epoch=epoch,
            epochs=epoch + 1,
            callbacks=callbacks,
        )
        return float(history.history["loss"][-1])

    def _is_stale(self, values: list[float]) -> bool:
        if self._schedule.patience is None or not values:
            return False
        since_best = len(values) - 1 - max(range(len(values)), key=lambda i: (values[i], i))
        return since_best >= self._schedule.patience


def _values(history: list[dict[str, float]], metric: str | None) -> list[float]:
    """What the epochs are compared by; without a metric a later one is better."""
    return [entry[metric] if metric else epoch for epoch, entry in enumerate(history)]


class _Saver(tf_keras.callbacks.Callback):
    """Counts steps, saves every so many, and at a signal."""

    def __init__(self, manager: tf.train.CheckpointManager, step: tf.Variable, every: int):
        super().__init__()
        self.terminated = threading.Event()
        self._manager = manager
        self._step = step
        self._every = every

    def on_train_batch_end(self, batch, logs=None):
        self._step.assign_add(1)
        if self.terminated.is_set():
            self._manager.save()
            self.model.stop_training = True
        elif self._step.numpy() % self._every == 0:
            self._manager.save()


class _until_terminated:  # noqa: N801 - reads as a statement.
    """Sets an event at SIGTERM, instead of ending at once."""

    def __init__(self, terminated: threading.Event):
        self._terminated = terminated

    def __enter__(self):
        self._before = signal.signal(signal.SIGTERM, lambda *_: self._terminated.set())

    def __exit__(self, *_):
        signal.signal(signal.SIGTERM, self._before)
