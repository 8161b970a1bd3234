"""What a task is."""

import dataclasses

from adapter_bert_tf.data.tables import Layout

TRAIN, DEV, TEST = "train", "dev", "test"
# The one file of a task that is split by us.
ALL = "all"
CLASSIFICATION, REGRESSION = "classification", "regression"


@dataclasses.dataclass(frozen=True)
class Split:
    """One file of a task.

    Args:
      files: Its name; the first that exists is taken.
      layout: How it is written.
      label: Column of the label, or None where the file has none.
    """

    files: tuple[str, ...]
    layout: Layout = Layout()
    label: str | None = None


@dataclasses.dataclass(frozen=True)
class Task:
    """A data set and its metric.

    Args:
      name: As GLUE or the paper writes it.
      text: Column of the text.
      pair: Column of the second text, for tasks with pairs.
      labels: Names of the classes in the order of their numbers; empty for a regression, and
        where they are read off the file.
      classes: How many classes the file has to have, where they are read off it.
      metrics: Names of the metrics; the first one decides which epoch is best.
      splits: The files of each split. A task with several sets of a kind names them all:
        MNLI has `dev_matched` and `dev_mismatched`.
      sizes: Rows of train, dev and test, for tasks that come in a single file.
      aliases: What files write for a label, where it is not the label's name.
      dropped: Labels whose rows are left out.
      submission: Name of the GLUE submission's file for each test split.
      tfds: Name in TFDS, with the columns and the labels' order there.
    """

    name: str
    text: str
    pair: str | None = None
    labels: tuple[str, ...] = ()
    classes: int | None = None
    metrics: tuple[str, ...] = ("accuracy",)
    splits: dict[str, Split] = dataclasses.field(default_factory=dict)
    sizes: tuple[int, int, int] | None = None
    aliases: dict[str, str] = dataclasses.field(default_factory=dict)
    dropped: tuple[str, ...] = ()
    submission: dict[str, str] = dataclasses.field(default_factory=dict)
    tfds: "TfdsTask | None" = None

    @property
    def kind(self) -> str:
        """Classification or regression."""
        return CLASSIFICATION if self.labels or self.classes else REGRESSION

    def split_names(self, kind: str) -> list[str]:
        """The names of the splits of a kind: `dev` or `dev_matched` and `dev_mismatched`."""
        if ALL in self.splits:
            return [kind]
        return [name for name in self.splits if name.split("_")[0] == kind]


@dataclasses.dataclass(frozen=True)
class TfdsTask:
    """A task in TFDS.

    Args:
      name: Builder and configuration.
      text: Feature of the text.
      pair: Feature of the second text.
      splits: Our split -> theirs.
      labels: The labels in the order in which TFDS numbers them.
    """

    name: str
    text: str
    pair: str | None
    splits: dict[str, str]
    labels: tuple[str, ...]
