"""Where a task's examples come from."""

import difflib
import os
from typing import Protocol

import numpy as np

from adapter_bert_tf.data.additional import ADDITIONAL
from adapter_bert_tf.data.examples import Examples, cell, labels_of, read_split, to_examples
from adapter_bert_tf.data.glue import GLUE
from adapter_bert_tf.data.tables import Row, layout_of, read_rows
from adapter_bert_tf.data.task import TEST, Task
from adapter_bert_tf.errors import UserError, first_line, some


class Source(Protocol):
    """A task with its data at hand."""

    task: Task
    labels: tuple[str, ...]

    def read(self, split: str) -> Examples:
        """Returns the examples of a split."""


class OriginalFiles:
    """A task in the files that its authors publish."""

    def __init__(self, task: Task, data_dir: str):
        if not os.path.isdir(data_dir):
            raise UserError(f"--data_dir={data_dir}: no such folder")
        self.task = task
        self.labels = labels_of(task, data_dir)
        self._data_dir = data_dir

    def read(self, split: str) -> Examples:
        """Returns the examples of a split."""
        return read_split(self.task, self._data_dir, split)


class Tfds:
    """A task that TFDS downloads on first use."""

    def __init__(self, task: Task):
        if task.tfds is None:
            files = {name for split in task.splits.values() for name in split.files}
            raise UserError(
                f"--data_dir: {task.name} is not in TFDS; give the folder with {some(files)}"
            )
        self.task = task
        self.labels = task.labels
        self._tfds = task.tfds

    def read(self, split: str) -> Examples:
        """Returns the examples of a split."""
        # Here, as it takes a second to import and files do without it.
        import tensorflow_datasets as tfds

        name = f"{self._tfds.name}, {self._tfds.splits[split]}"
        try:
            data = tfds.load(self._tfds.name, split=self._tfds.splits[split])
            rows = list(data.batch(1024).as_numpy_iterator())
        except Exception as error:  # Its downloader raises whatever its transport does.
            reason = first_line(error)
            raise UserError(f"TFDS has no {name}: {reason}; or give --data_dir") from None
        # TFDS keeps rows in the order of a hash; GLUE numbers the test rows as in its files.
        order = np.argsort(np.concatenate([batch["idx"] for batch in rows]), kind="stable")

        def column(name: str) -> list:
            return np.concatenate([batch[name] for batch in rows])[order].tolist()

        labels: list | None = column("label")
        if split.startswith(TEST):
            labels = None  # TFDS has -1 there.
        elif self.labels:
            numbers = [self.labels.index(label) for label in self._tfds.labels]
            labels = [numbers[label] for label in column("label")]
        pair = self._tfds.pair
        return Examples(
            texts=[text.decode() for text in column(self._tfds.text)],
            pairs=None if pair is None else [text.decode() for text in column(pair)],
            labels=labels,
        )


class RecordFiles:
    """TFRecord files, as the original program writes them: tokenised already, classes only.

    Args:
      files: Split -> path.
      classes: Number of classes.
    """

    def __init__(self, files: dict[str, str], classes: int):
        self.files = files
        self.labels = tuple(str(number) for number in range(classes))
        self.task = Task(name="records", text="", labels=self.labels)

    def read(self, split: str) -> Examples:
        """There is no text in them."""
        raise UserError(f"{self.files[split]}: TFRecords have no text")


_TEXT_NAMES = ("text", "sentence", "sentence1", "question", "question1", "premise", "content")
_PAIR_NAMES = ("text_pair", "sentence2", "question2", "hypothesis")
_LABEL_NAMES = ("label", "labels", "class", "category", "target", "score")


class OwnFiles:
    """A user's own tables, with a header.

    Columns that are not named are guessed from the header. Unless `regression` says it, the
    task is a regression if all labels are numbers and some are not whole.
    """

    def __init__(
        self,
        files: dict[str, str],
        text_column: str | None = None,
        pair_column: str | None = None,
        label_column: str | None = None,
        labels: tuple[str, ...] | None = None,
        regression: bool | None = None,
    ):
        self._files = files
        first = next(iter(files.values()))
        rows = self._rows(first)
        header = tuple(rows[0][1])
        self._text = _pick("text_column", text_column, _TEXT_NAMES, header, first, needed=True)
        self._pair = _pick("text_pair_column", pair_column, _PAIR_NAMES, header, first)
        self._label = _pick("label_column", label_column, _LABEL_NAMES, header, first)
        if labels is None:
            labels = () if regression else self._labels_in(first, rows, regression)
        self.labels = labels
        self.task = Task(
            name=os.path.splitext(os.path.basename(first))[0],
            text=self._text or "",
            pair=self._pair,
            labels=labels,
            metrics=("accuracy",) if labels else ("pearson", "spearman"),
        )

    def read(self, split: str) -> Examples:
        """Returns the examples of a split."""
        path = self._files[split]
        rows = self._rows(path)
        return to_examples(
            path,
            rows,
            text=self.task.text,
            pair=self._pair,
            label=None if split == TEST else self._label,
            task=self.task,
            labels=self.labels,
        )

    def _rows(self, path: str) -> list[tuple[int, Row]]:
        return read_rows(path, layout_of(path))[0]

    def _labels_in(
        self, path: str, rows: list[tuple[int, Row]], regression: bool | None
    ) -> tuple[str, ...]:
        if self._label is None:
            raise UserError(f"{path}: no column of labels; name it with --label_column")
        values = {cell(path, line, row, self._label) for line, row in rows}
        if regression is None and _are_values(values):
            return ()
        if len(values) < 2:
            raise UserError(f"{path}: column {self._label!r} has a single value; expected classes")
        return tuple(sorted(values))


def _are_values(labels: set[str]) -> bool:
    """Whether labels are numbers of which some are not whole."""
    try:
        return any(float(label) % 1 for label in labels)
    except ValueError:
        return False


def _pick(
    flag: str, given: str | None, names: tuple[str, ...], header, path: str, needed: bool = False
) -> str | None:
    if given is not None:
        if given not in header:
            raise UserError(
                f"--{flag}={given}: no such column in {path}; its columns are {some(header, 20)}"
            )
        return given
    found = [name for name in names if name in header]
    if needed and not found:
        raise UserError(
            f"{path}: which column is the text? Name it with --{flag}: {some(header, 20)}"
        )
    return found[0] if found else None


def _key(name: str) -> str:
    """`SST-2`, `sst2` and `sst_2` are one name."""
    return "".join(character for character in name.lower() if character.isalnum())


TASKS: dict[str, Task] = {_key(task.name): task for task in (*GLUE, *ADDITIONAL)}


def find_task(name: str) -> Task:
    """Returns the task called `name`, in any spelling, or tells the nearest names."""
    if _key(name) in TASKS:
        return TASKS[_key(name)]
    near = [TASKS[key].name for key in difflib.get_close_matches(_key(name), TASKS, n=3)]
    names = near or [task.name for task in TASKS.values()]
    hint = "did you mean" if near else "known are"
    raise UserError(f"--task={name}: no such task; {hint} {', '.join(names)}")
