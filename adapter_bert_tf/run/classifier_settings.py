"""What a classifier run is asked to do."""

import dataclasses
from typing import ClassVar

from adapter_bert_tf.errors import UserError
from adapter_bert_tf.run.settings import RunSettings


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassifierSettings(RunSettings):
    """Settings of `ClassifierRun`; each is a flag of run_classifier.py.

    Args:
      task: Name of a task; None with files of one's own.
      data_dir: Folder with the task's original files; without it TFDS is asked.
      dev_file: One's own examples for evaluation, a table with a header, as `train_file`.
      test_file: One's own examples for prediction.
      text_column: Column of the text, where it can't be guessed.
      text_pair_column: Column of the second text, likewise.
      label_column: Column of the label, likewise.
      regression: Whether the labels of one's own files are values; by default they are if
        some are not whole.
      do_eval: Whether to evaluate.
      eval_batch_size: Rows of an evaluation batch.
      **kwargs: The arguments of `RunSettings`.
    """

    task: str | None = None
    data_dir: str | None = None
    dev_file: str | None = None
    test_file: str | None = None
    text_column: str | None = None
    text_pair_column: str | None = None
    label_column: str | None = None
    regression: bool | None = None
    do_eval: bool = True
    eval_batch_size: int = 64

    positive: ClassVar[tuple[str, ...]] = (*RunSettings.positive, "eval_batch_size")
    not_the_run: ClassVar[tuple[str, ...]] = (
        *RunSettings.not_the_run,
        "test_file",
        "do_eval",
        "eval_batch_size",
    )

    def __post_init__(self):
        super().__post_init__()
        own_files = any((self.train_file, self.dev_file, self.test_file))
        if (self.task is not None) == own_files:
            raise UserError("--task, or --train_file and its like: expected one of the two")
        if not (self.do_train or self.do_eval or self.do_predict):
            raise UserError("--do_train, --do_eval or --do_predict: expected one of them")
