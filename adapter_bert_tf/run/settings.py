"""What a classifier run is asked to do."""

import dataclasses
import os

from adapter_bert_tf.encoder.adapter_config import AdapterConfig
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.tuning.methods import Tuning

# The paper's adapters want larger steps than full fine-tuning.
_LEARNING_RATES = {"adapters": 3e-4, "layer_norm": 3e-3, "head": 3e-3, "full": 5e-5, "top_k": 5e-5}

# What does not change how a run is trained.
_NOT_THE_RUN = (
    "output_dir",
    "cache_dir",
    "test_file",
    "export_dir",
    "do_train",
    "do_eval",
    "do_predict",
    "eval_batch_size",
    "predict_batch_size",
    "save_checkpoints_steps",
)


@dataclasses.dataclass(frozen=True)
class ClassifierSettings:
    """Settings of `run_classifier`; each is a flag of run_classifier.py.

    Args:
      output_dir: Folder of the run.
      task: Name of a task; None with files of one's own.
      data_dir: Folder with the task's original files; without it TFDS is asked.
      train_file: One's own training examples, a table with a header.
      dev_file: One's own examples for evaluation.
      test_file: One's own examples for prediction.
      text_column: Column of the text, where it can't be guessed.
      text_pair_column: Column of the second text, likewise.
      label_column: Column of the label, likewise.
      regression: Whether the labels of one's own files are values; by default they are if
        some are not whole.
      bert: The base: see `load_encoder`.
      bert_config_file: Its configuration, if not beside it.
      vocab_file: Its vocabulary, if not beside it.
      do_lower_case: Whether to lower-case; by default as the base says.
      max_seq_length: Tokens of a row at the most.
      adapter: The adapters' design; None trains without.
      tuning: What is trained.
      pack: A task pack to start from.
      do_train: Whether to train.
      do_eval: Whether to evaluate.
      do_predict: Whether to predict the test set.
      train_batch_size: Rows of a training batch, over all devices.
      eval_batch_size: Rows of an evaluation batch.
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
    task: str | None = None
    data_dir: str | None = None
    train_file: str | None = None
    dev_file: str | None = None
    test_file: str | None = None
    text_column: str | None = None
    text_pair_column: str | None = None
    label_column: str | None = None
    regression: bool | None = None
    bert: str = "minilm"
    bert_config_file: str | None = None
    vocab_file: str | None = None
    do_lower_case: bool | None = None
    max_seq_length: int = 128
    adapter: AdapterConfig | None = AdapterConfig()
    tuning: Tuning = Tuning()
    pack: str | None = None
    do_train: bool = True
    do_eval: bool = True
    do_predict: bool = False
    train_batch_size: int = 32
    eval_batch_size: int = 64
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

    def __post_init__(self):
        for name in (
            "max_seq_length",
            "train_batch_size",
            "eval_batch_size",
            "predict_batch_size",
            "num_train_epochs",
            "save_checkpoints_steps",
            "learning_rate",
            "early_stopping",
        ):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise UserError(f"--{name}={value}: expected a number above 0")
        if self.seed < 0:
            raise UserError(f"--seed={self.seed}: expected 0 or more")
        if self.max_seq_length < 4:
            raise UserError(f"--max_seq_length={self.max_seq_length}: expected at least 4")
        if not 0 <= self.warmup_proportion < 1:
            raise UserError(f"--warmup_proportion={self.warmup_proportion}: expected 0 to 1")
        own_files = any((self.train_file, self.dev_file, self.test_file))
        if (self.task is not None) == own_files:
            raise UserError("--task, or --train_file and its like: expected one of the two")
        if not (self.do_train or self.do_eval or self.do_predict):
            raise UserError("--do_train, --do_eval or --do_predict: expected one of them")

    @classmethod
    def names(cls) -> list[str]:
        """The names of the settings."""
        return [field.name for field in dataclasses.fields(cls)]

    @property
    def rate(self) -> float:
        """The learning rate: the given one, or the tuning method's."""
        return self.learning_rate or _LEARNING_RATES[self.tuning.method]

    def identity(self) -> dict[str, object]:
        """What makes a run another run."""
        values = dataclasses.asdict(self)
        for name in _NOT_THE_RUN:
            del values[name]
        return {**values, "learning_rate": self.rate}
