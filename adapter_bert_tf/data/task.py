"""What a task is."""

import dataclasses

from adapter_bert_tf.data.tables import PLAIN_TSV, Layout

TRAIN, DEV, TEST = "train", "dev", "test"
# The single file of a task that we split ourselves.
ALL = "all"
CLASSIFICATION, REGRESSION = "classification", "regression"


@dataclasses.dataclass(frozen=True)
class Split:
    """One file of a task.

    Args:
      files: The names that the file can have; the first that exists is read.
      layout: How it is written.
      label: Column of the label, or a pattern such as `q1_*target`; None if the file has none.
    """

    files: tuple[str, ...]
    layout: Layout = PLAIN_TSV
    label: str | None = None


@dataclasses.dataclass(frozen=True)
class TaskDefinition:
    """A data set and its metric.

    Args:
      name: As GLUE or the paper writes it.
      text: Column of the text.
      pair: Column of the second text, for tasks with pairs.
      labels: Names of the classes in the order of their numbers. Empty for a regression, and
        for tasks whose classes are read from the file.
      classes: How many classes the file must have, if they are read from it.
      metrics: Names of the metrics; the first one decides which epoch is best. Without any, they
        are the usual ones of its kind.
      splits: The file of each split, by the split's name. MNLI has two dev sets, so it names
        them `dev_matched` and `dev_mismatched`. A task that is published in one file has it
        as `ALL`, and may name the files of a split version as well.
      sizes: Number of rows in train, dev and test, for tasks that come in a single file.
      aliases: Maps other spellings of a label in the files to the label's name.
      dropped: Labels whose rows are left out.
      submission: Name of the GLUE submission's file for each test split.
      tfds: Where TFDS has the task, and how it is laid out there.
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
        """Whether the task is a classification or a regression."""
        return CLASSIFICATION if self.labels or self.classes else REGRESSION

    def split_names(self, kind: str) -> list[str]:
        """Returns the names of a kind's splits: for `dev`, MNLI has two."""
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
      splits: TFDS's name for each of our splits.
      labels: The labels in the order in which TFDS numbers them.
    """

    name: str
    text: str
    pair: str | None
    splits: dict[str, str]
    labels: tuple[str, ...]
