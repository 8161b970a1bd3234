"""What a resumed training starts from."""

import json
import os
import re

import tensorflow as tf
import tf_keras

from adapter_bert_tf.base.checkpoint import TfCheckpoint
from adapter_bert_tf.errors import UserError, file_error
from adapter_bert_tf.files import list_folder, make_folders, remove
from adapter_bert_tf.run.folder import RunFolder
from adapter_bert_tf.run.workers import Workers
from adapter_bert_tf.task import Task

_INDEX = re.compile(r"(?P<name>ckpt-(?P<number>\d+))\.index")
# The last one may be damaged.
_KEPT = 2


class Checkpoint:
    """What a resumed training needs.

    That is the trained variables, the optimizer, the generators of the dropouts, the number of
    steps, and the means of loss and metrics since the epoch began. The batches of any step follow
    from the seed.
    """

    def __init__(self, task: Task, folder: RunFolder, workers: Workers):
        self._model, self._folder = task.model, folder
        self._step = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._means = _Means(workers)
        self._model.build_optimizer()
        variables = self._model.variables_by_path()
        self._tracked = tf.train.Checkpoint(
            trained=[variables[path] for path in sorted(self._model.tuning.trained(variables))],
            optimizer=self._model.optimizer,
            generators=self._model.generators(),
            step=self._step,
            means=self._means,
        )
        found = self._find()
        self._kept = self._restore(found)
        self._remove_all_but(found)

    def _find(self) -> list[str]:
        """Returns the names of the checkpoints, the latest first."""
        matches = filter(None, map(_INDEX.fullmatch, list_folder(self._folder.checkpoints)))
        found = sorted(matches, key=lambda match: int(match["number"]), reverse=True)
        return [match["name"] for match in found]

    def _restore(self, found: list[str]) -> list[str]:
        """Takes the latest checkpoint that can be read, and returns its name."""
        for name in found:
            prefix = os.path.join(self._folder.checkpoints, name)
            # It is read as a whole first: of one that is damaged, no value must be taken.
            if not _is_whole(prefix):
                print(f"{prefix}: damaged; the checkpoint before it is taken")
                continue
            try:
                self._tracked.read(prefix).assert_existing_objects_matched()
            except (AssertionError, ValueError):
                raise UserError(
                    f"{prefix}: was saved by another version; give another --output_dir"
                ) from None
            return [name]
        if found:
            raise UserError(
                f"{self._folder.checkpoints}: no checkpoint can be read; remove it to train anew"
            )
        return []

    @property
    def step(self) -> int:
        """Steps done so far."""
        return int(self._step.numpy())

    def count_step(self, is_first: bool) -> None:
        """Counts a step, and takes up the means from before a resumed training."""
        if is_first:
            self._means.add_to(self._model.metrics)
        self._step.assign_add(1)

    def save(self) -> None:
        """Saves everything, unless this step was saved already."""
        # Workers tell each other their sums here, so all of them have to.
        self._means.read(self._model.metrics)
        name = f"ckpt-{self.step}"
        if not self._folder.is_written or name in self._kept:
            return
        try:
            make_folders(self._folder.checkpoints)
            self._tracked.write(os.path.join(self._folder.checkpoints, name))
        except (tf.errors.OpError, OSError) as error:
            raise file_error(self._folder.checkpoints, error) from None
        self._kept = [*self._kept, name][-_KEPT:]
        self._remove_all_but(self._kept)

    def _remove_all_but(self, kept: list[str]) -> None:
        """Removes older checkpoints, and what a process that was killed had begun to write."""
        if not self._folder.is_written:
            return
        for name in list_folder(self._folder.checkpoints):
            if not any(name.startswith(f"{each}.") for each in kept):
                remove(os.path.join(self._folder.checkpoints, name))

    def training(self) -> dict[str, float]:
        """Returns loss and metrics of the epoch that has just ended, and starts anew."""
        return self._means.finish()


def _is_whole(prefix: str) -> bool:
    try:
        saved = TfCheckpoint(prefix)
        for name in saved.shapes:
            saved.read(name)  # This compares checksums.
    except UserError:
        return False
    return True


class _Means(tf.train.experimental.PythonState):
    """The sums and counts behind Keras's running means.

    Keras forgets them when training is resumed in the middle of an epoch. Adding them back after
    the first step gives the sums that an uninterrupted epoch has. Each device has its own, and
    their order of summation matters to the last bit.
    """

    def __init__(self, workers: Workers):
        self._workers = workers
        # Of each metric and each worker: the sums of its devices, then the counts.
        self._sums: dict[str, list[list[float]]] = {}

    def add_to(self, metrics: list[tf_keras.metrics.Metric]) -> None:
        """Adds the sums to Keras's metrics."""
        for metric in metrics:
            for row in self._workers.share(self._sums.get(metric.name, [])):
                for variable, value in zip(self._local(metric), row, strict=False):
                    variable.assign_add(value)

    def read(self, metrics: list[tf_keras.metrics.Metric]) -> None:
        """Takes the sums of Keras's metrics."""
        self._sums = {
            metric.name: self._workers.gather(*(each.numpy() for each in self._local(metric)))
            for metric in metrics
        }

    def _local(self, metric: tf_keras.metrics.Metric) -> list[tf.Variable]:
        return [each for variable in metric.variables for each in self._workers.local(variable)]

    def finish(self) -> dict[str, float]:
        """Returns the means, and forgets the sums."""
        sums, self._sums = self._sums, {}
        means = {}
        for name, rows in sums.items():
            devices = len(rows[0]) // 2
            total, count = (
                sum(value for row in rows for value in row[part])
                for part in (slice(devices), slice(devices, None))
            )
            if count:
                means[name] = total / count
        return means

    def serialize(self) -> str:
        return json.dumps(self._sums)

    def deserialize(self, string_value) -> None:
        found = json.loads(string_value)
        # Older checkpoints have only the sum and the count of all.
        self._sums = {
            name: rows if isinstance(rows[0], list) else [rows] for name, rows in found.items()
        }
