"""What a SQuAD run is asked to do."""

import dataclasses
import math
from typing import Any, ClassVar

from adapter_bert_tf.errors import UserError
from adapter_bert_tf.run.settings import RunSettings
from adapter_bert_tf.squad.answers import Decoding
from adapter_bert_tf.squad.windows import WindowSizes


@dataclasses.dataclass(frozen=True, kw_only=True)
class SquadSettings(RunSettings):
    """Settings of `SquadRun`; each is a flag of run_squad.py, with BERT's names and defaults.

    Args:
      predict_file: Questions to answer. Without it and `train_file`, SQuAD comes from TFDS.
      doc_stride: Tokens between the starts of two windows of a context.
      max_query_length: Tokens of a question at the most.
      n_best_size: Answers that are listed for a question.
      max_answer_length: Tokens of an answer at the most.
      version_2_with_negative: Whether questions may have no answer, as in SQuAD v2.0.
      null_score_diff_threshold: The answer is "" if its score is above the best one's by more.
      verbose_logging: Whether to name the training questions that are left out.
      **kwargs: The arguments of `RunSettings`.
    """

    predict_file: str | None = None
    max_seq_length: int = 384
    doc_stride: int = 128
    max_query_length: int = 64
    n_best_size: int = 20
    max_answer_length: int = 30
    version_2_with_negative: bool = False
    null_score_diff_threshold: float = 0.0
    verbose_logging: bool = False
    do_predict: bool = True
    predict_batch_size: int = 8

    positive: ClassVar[tuple[str, ...]] = (
        *RunSettings.positive,
        "doc_stride",
        "max_query_length",
        "n_best_size",
        "max_answer_length",
    )
    not_the_run: ClassVar[tuple[str, ...]] = (
        *RunSettings.not_the_run,
        "n_best_size",
        "max_answer_length",
        "null_score_diff_threshold",
        "verbose_logging",
    )

    def __post_init__(self):
        super().__post_init__()
        if self.max_query_length + 3 >= self.max_seq_length:
            raise UserError(
                f"--max_query_length={self.max_query_length}: leaves no room for the context in "
                f"--max_seq_length={self.max_seq_length}"
            )
        if math.isnan(self.null_score_diff_threshold):
            raise UserError("--null_score_diff_threshold: expected a number")
        if not (self.do_train or self.do_predict):
            raise UserError("--do_train or --do_predict: expected one of them")

    @property
    def sizes(self) -> WindowSizes:
        """How contexts are cut."""
        return WindowSizes(self.max_seq_length, self.doc_stride, self.max_query_length)

    def inputs(self) -> dict[str, Any]:
        """What a task pack keeps, to answer alike."""
        decoding = dataclasses.asdict(self.decoding)
        return {**dataclasses.asdict(self.sizes), **decoding}

    @property
    def decoding(self) -> Decoding:
        """How logits become answers."""
        return Decoding(
            self.n_best_size,
            self.max_answer_length,
            self.version_2_with_negative,
            self.null_score_diff_threshold,
        )
