"""Tuning a task from Python."""

import json
import os
from typing import Any

from adapter_bert_tf.data.memory import Tabular, to_table
from adapter_bert_tf.errors import UserError, file_error
from adapter_bert_tf.files import exists, make_folders, open_bytes, write_atomically
from adapter_bert_tf.run.classifier import run_classifier
from adapter_bert_tf.run.settings import ClassifierSettings, make_settings
from adapter_bert_tf.task import Task


def tune(train: Tabular | None = None, dev: Tabular | None = None, **settings: Any) -> Task:
    """Tunes a task: the run of run_classifier.py, with its flags as keywords.

    Examples are a path, a pandas DataFrame, a list of `(text, label)` or `(text, pair, label)`, or
    a `tf.data.Dataset` of dictionaries. What is not in a file is written to the run's folder
    first, so that the run can be resumed.

    Args:
      train: Training examples; None with `task="CoLA"` or the like.
      dev: Examples for evaluation.
      **settings: The flags of run_classifier.py, such as `bert`, `output_dir`, `adapter_size`.

    Returns:
      The task with the best epoch's model. Its pack is in `output_dir/pack`.

    Example:
      `tune("train.csv", "dev.csv", bert="minilm", output_dir="runs/mine", adapter_size=64)`
    """
    for name, examples in (("train", train), ("dev", dev)):
        if examples is not None:
            settings[f"{name}_file"] = _as_file(examples, settings.get("output_dir"), name)
    task = run_classifier(make_settings(ClassifierSettings, settings))
    if task is None:
        raise KeyboardInterrupt("tuning was stopped; the same call resumes it")
    return task


def _as_file(examples: Tabular, output_dir: str | os.PathLike | None, name: str) -> str:
    """Returns the path of a file with the examples, which is written if they are in memory."""
    table = to_table(examples)
    if isinstance(table, str):
        return table
    if not output_dir:
        raise UserError("output_dir: expected a folder for the run")
    path = os.path.join(os.fspath(output_dir), "data", f"{name}.jsonl")
    content = "".join(json.dumps(row) + "\n" for _, row in table.rows).encode()
    if exists(path):
        with open_bytes(path) as file:
            if file.read() != content:
                raise UserError(
                    f"{path}: belongs to a run with other examples; give another folder"
                )
        return path
    try:
        make_folders(os.path.dirname(path))
        write_atomically(path, content)
    except OSError as error:
        raise file_error(path, error) from None
    return path
