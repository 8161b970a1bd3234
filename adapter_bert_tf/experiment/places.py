"""Where the data of tasks is, and where trials go. Nothing here needs TensorFlow."""

import dataclasses
import fnmatch
import os
import re
from typing import Any

from adapter_bert_tf.data.sources import find_task, task_key
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.experiment.records import Record
from adapter_bert_tf.experiment.table import NO_BERT, SQUAD
from adapter_bert_tf.experiment.trials import Trial
from adapter_bert_tf.files import is_folder, list_folder
from adapter_bert_tf.run.settings import (
    ClassifierSettings,
    RunSettings,
    SquadSettings,
    make_settings,
)

_SQUAD_FILES = {"train_file": "train-v1.1*.json", "predict_file": "dev-v1.1.json"}


@dataclasses.dataclass(frozen=True)
class Places:
    """Where files are; none of it makes a trial another trial.

    Attributes:
      folder: The output folder.
      data_dir: A folder with the tasks' folders in it, or in folders in it, or the folder of a
        task. Without one GLUE and SQuAD come from TFDS.
      values: Other flags about files, such as `cache_dir`, or those of your own files.
    """

    folder: str
    data_dir: str | None = None
    values: dict[str, Any] = dataclasses.field(default_factory=dict)

    def run_folder(self, trial: Trial) -> str:
        """Returns the folder of a trial's run."""
        name = "".join(c if c.isalnum() else "-" for c in f"{trial.task}-{trial.method}".lower())
        return os.path.join(self.folder, "trials", f"{name}-{trial.digest}")

    def relative(self, path: str) -> str:
        """Returns how a folder is found from the output folder, wherever that is or will be."""
        return os.path.relpath(path, self.folder)

    def pack(self, record: Record) -> str:
        """Returns the folder of the task pack of a trial that is complete."""
        return os.path.join(self.folder, record.folder, "pack")

    def settings(self, trial: Trial) -> RunSettings:
        """Returns the settings of a trial's run."""
        # The settings of a baseline are its design, and none of a run's.
        own = {**trial.fixed, "seed": trial.seed} if trial.method == NO_BERT else trial.values
        values = {**self.of_task(trial.task), **own, "output_dir": self.run_folder(trial)}
        return make_settings(SquadSettings if trial.task == SQUAD else ClassifierSettings, values)

    def of_task(self, task: str) -> dict[str, Any]:
        """Returns the flags that say where a task's examples are."""
        if "train_file" in self.values and task != SQUAD:
            return dict(self.values)
        if task == SQUAD:
            return {**self.values, **self._squad_files()}
        found = {**self.values, "task": find_task(task).name}
        return found if self.data_dir is None else {**found, "data_dir": self._find(task)}

    def _squad_files(self) -> dict[str, Any]:
        if self.data_dir is None or "train_file" in self.values:
            return {}
        return {name: self._first(pattern, "SQuAD") for name, pattern in _SQUAD_FILES.items()}

    def _find(self, task: str) -> str:
        """Returns the folder of a task: `political`, say, is that of political_bias, too."""
        words = re.findall(r"[^\W_]+", task)
        names = [task_key("".join(words[:count])) for count in range(len(words), 0, -1)]
        folders = {task_key(os.path.basename(path)): path for path in reversed(self._folders())}
        found = (folders[name] for name in names if name in folders)
        path = next(found, None)
        if path is None:
            raise UserError(f"--data_dir={self.data_dir}: no folder for {task} in it")
        return path

    def _folders(self) -> list[str]:
        """Returns the folder with the data, those in it, and those in these."""
        root = (self.data_dir or "").rstrip("/") or "/"
        below = _folders_in(root)
        return [root, *below, *(path for folder in below for path in _folders_in(folder))]

    def _first(self, pattern: str, what: str) -> str:
        for folder in self._folders():
            for name in fnmatch.filter(list_folder(folder), pattern):
                return os.path.join(folder, name)
        raise UserError(f"--data_dir={self.data_dir}: no {pattern} for {what} in it")


def _folders_in(folder: str) -> list[str]:
    return [path for name in list_folder(folder) if is_folder(path := os.path.join(folder, name))]
