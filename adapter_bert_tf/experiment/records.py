"""What became of each trial, as rows of a CSV file from which a report can be made again."""

import csv
import dataclasses
import io
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from adapter_bert_tf.errors import UserError, first_line
from adapter_bert_tf.files import read_text, write_atomically

COMPLETE, FAILED, PRUNED, RUNNING, WAITING = "complete", "failed", "pruned", "running", "waiting"

TRIALS, ABLATION = "trials.csv", "ablation.csv"


@dataclasses.dataclass(frozen=True)
class Record:
    """One trial: what was asked for, and what came of it.

    Attributes:
      task: Name of the task.
      method: Name of what is compared: a tuning method, or a variant of it.
      settings: The settings that the experiment varies, by flag.
      seed: The seed.
      state: "complete", "failed", "pruned", "running" or "waiting".
      metric: Name of the metric that decides.
      value: Its value on the validation set.
      test: Its value on the test set; only what was chosen has one.
      trained: Number of trained parameters.
      total: Number of all parameters.
      steps: Steps of the training.
      seconds: How long it took.
      reason: Why it failed.
      folder: The folder of the run, as seen from the experiment's.
    """

    task: str
    method: str
    settings: Mapping[str, Any]
    seed: int
    state: str = WAITING
    metric: str = ""
    value: float | None = None
    test: float | None = None
    trained: int | None = None
    total: int | None = None
    steps: int | None = None
    seconds: float | None = None
    reason: str = ""
    folder: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether it was trained to its end."""
        return self.state == COMPLETE


def in_words(settings: Mapping[str, Any]) -> str:
    """Writes settings as a line of text."""
    return " ".join(f"{name}={value}" for name, value in settings.items())


_NUMBERS = {
    "seed": int,
    "value": float,
    "test": float,
    "trained": int,
    "total": int,
    "steps": int,
    "seconds": float,
}


def write_records(folder: str, records: Sequence[Record]) -> None:
    """Writes the trials to the folder's CSV file."""
    names = [field.name for field in dataclasses.fields(Record)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for record in records:
        row = {**vars(record), "settings": json.dumps(record.settings, sort_keys=True)}
        writer.writerow(["" if row[name] is None else row[name] for name in names])
    write_atomically(os.path.join(folder, TRIALS), text.getvalue().encode())


def read_records(folder: str) -> list[Record]:
    """Reads what `write_records` has written."""
    path = os.path.join(folder, TRIALS)
    try:
        table = csv.DictReader(io.StringIO(read_text(path), newline=""), strict=True)
        if set(table.fieldnames or ()) != {field.name for field in dataclasses.fields(Record)}:
            raise UserError(f"{path}: not a table of trials: its columns are others")
        return [_read_row(row) for row in table]
    except UserError:
        raise
    except (KeyError, TypeError, ValueError, RecursionError, csv.Error) as error:
        raise UserError(f"{path}: not a table of trials: {first_line(error)}") from None


def _read_row(row: dict[str, Any]) -> Record:
    values: dict[str, Any] = {**row, "settings": json.loads(row["settings"])}
    for name, kind in _NUMBERS.items():
        values[name] = kind(values[name]) if values[name] else None
    return Record(**values)
