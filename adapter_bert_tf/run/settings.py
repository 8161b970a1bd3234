"""What a run is asked to do; what classifier and SQuAD runs have in common."""

import dataclasses
import os
from typing import Any, ClassVar

from adapter_bert_tf.data.batches import bucket_lengths
from adapter_bert_tf.encoder.adapter_config import AdapterConfig
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.tuning.methods import Tuning

# The paper's adapters want larger steps than full fine-tuning.
_LEARNING_RATES = {"adapters": 3e-4, "layer_norm": 3e-3, "head": 3e-3, "full": 5e-5, "top_k": 5e-5}

# So that [CLS], two texts' [SEP] and one token fit.
_SHORTEST = 4


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Settings of every run; each is a flag of the programs.

    Args:
      output_dir: Folder of the run.
      train_file: Training examples.
      bert: The base: see `load_encoder`.
      bert_config_file: Its configuration, if not beside it.
      vocab_file: Its vocabulary, if not beside it.
      do_lower_case: Whether to lower-case; by default as the base says.
      max_seq_length: Tokens of a row at the most.
      adapter: The adapters' design; None trains without.
      tuning: What is trained.
      pack: A task pack to start from.
      do_train: Whether to train.
      do_predict: Whether to predict.
      train_batch_size: Rows of a training batch, over all devices.
      predict_batch_size: Rows of a prediction batch.
      learning_rate: Largest learning rate; by default that of the tuning method.
      num_train_epochs: Passes over the training examples.
      warmup_proportion: Share of the steps in which the rate rises.
      save_checkpoints_steps: Steps between checkpoints.
      early_stopping: Epochs without a better metric after which training ends.
      pad_to_max: Pads all rows to `max_seq_length`, as a TPU always does.
      seed: Of everything random.
      deterministic: Whether every operation gives the same bits each time.
      mixed_precision: "bfloat16" or "float16", to compute in half precision.
      cache_dir: Where tokenised examples are kept.
      export_dir: Where to export the task for TF Serving: a model's folder, or a new version.
    """

    output_dir: str
    train_file: str | None = None
    bert: str = "minilm"
    bert_config_file: str | None = None
    vocab_file: str | None = None
    do_lower_case: bool | None = None
    max_seq_length: int = 128
    adapter: AdapterConfig | None = AdapterConfig()
    tuning: Tuning = Tuning()
    pack: str | None = None
    do_train: bool = True
    do_predict: bool = False
    train_batch_size: int = 32
    predict_batch_size: int = 64
    learning_rate: float | None = None
    num_train_epochs: float = 3.0
    warmup_proportion: float = 0.1
    save_checkpoints_steps: int = 1000
    early_stopping: int | None = None
    pad_to_max: bool = False
    seed: int = 0
    deterministic: bool = False
    mixed_precision: str | None = None
    cache_dir: str = os.path.expanduser("~/.cache/adapter_bert_tf")
    export_dir: str | None = None

    # Settings that have to be above 0.
    positive: ClassVar[tuple[str, ...]] = (
        "max_seq_length",
        "train_batch_size",
        "predict_batch_size",
        "num_train_epochs",
        "save_checkpoints_steps",
        "learning_rate",
        "early_stopping",
    )
    # Settings that don't change how a run is trained.
    not_the_run: ClassVar[tuple[str, ...]] = (
        "output_dir",
        "cache_dir",
        "export_dir",
        "do_train",
        "do_predict",
        "predict_batch_size",
        "save_checkpoints_steps",
    )

    def __post_init__(self):
        for name in self.positive:
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise UserError(f"--{name}={value}: expected a number above 0")
        if self.seed < 0:
            raise UserError(f"--seed={self.seed}: expected 0 or more")
        if self.max_seq_length < _SHORTEST:
            raise UserError(f"--max_seq_length={self.max_seq_length}: expected at least 4")
        if not 0 <= self.warmup_proportion < 1:
            raise UserError(f"--warmup_proportion={self.warmup_proportion}: expected 0 to 1")

    @classmethod
    def names(cls) -> list[str]:
        """The names of the settings."""
        return [field.name for field in dataclasses.fields(cls)]

    @property
    def rate(self) -> float:
        """The learning rate: the given one, or the tuning method's."""
        return self.learning_rate or _LEARNING_RATES[self.tuning.method]

    def lengths(self, on_tpu: bool) -> list[int]:
        """What rows are padded to; a TPU wants all of one length."""
        longest = self.max_seq_length
        return [longest] if self.pad_to_max or on_tpu else bucket_lengths(longest)

    def identity(self) -> dict[str, Any]:
        """What makes a run another run."""
        values = dataclasses.asdict(self)
        for name in self.not_the_run:
            del values[name]
        return {**values, "learning_rate": self.rate}
