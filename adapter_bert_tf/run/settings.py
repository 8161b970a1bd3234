"""What a run is asked to do. Each field is a flag of the programs and a keyword of `tune`.

Nothing here needs TensorFlow: wrong flags are reported before it is loaded.
"""

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from adapter_bert_tf import options
from adapter_bert_tf.checks import NUMBER, SHARE, Range, whole
from adapter_bert_tf.encoder.adapter import AdapterConfig
from adapter_bert_tf.errors import UserError, some
from adapter_bert_tf.heads.kinds import TEXT_LABELS
from adapter_bert_tf.options import option
from adapter_bert_tf.pack.pack import N_BEST, TOKENS
from adapter_bert_tf.run.devices import Devices
from adapter_bert_tf.tuning.methods import Tuning

# From 4 on, [CLS], the [SEP] of two texts and one token fit.
_LENGTH, _BATCH = Range(4, TOKENS.most, whole=True), whole(1, 100_000)
_COUNT, _SEED = whole(1, 2**31 - 1), whole(0, 2**31 - 1)

Settings = TypeVar("Settings", bound="RunSettings")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunSettings:
    """What classifier and SQuAD runs have in common."""

    train_file: str | None = option(None, "Training examples.", group="Data")
    max_seq_length: int = option(128, "Longest row, in tokens.", group="Data", limits=_LENGTH)
    pad_to_max: bool = option(False, "Pad all rows to --max_seq_length, as on a TPU.", group="Data")
    cache_dir: str = option(
        os.path.expanduser("~/.cache/adapter_bert_tf"),
        "Where tokenised examples are kept.",
        group="Data",
        result=True,
    )
    bert: str = option(
        "minilm",
        "A folder, a checkpoint, a TF-Hub handle or a preset.",
        group="Base",
        aliases=("init_checkpoint",),
    )
    bert_config_file: str | None = option(
        None, "bert_config.json, if it is not beside the checkpoint.", group="Base"
    )
    vocab_file: str | None = option(
        None, "vocab.txt, if it is not beside the checkpoint.", group="Base"
    )
    do_lower_case: bool | None = option(
        None, "Lower-case the text; by default as the base says.", group="Base"
    )
    pack: str | None = option(None, "A task pack to start from.", group="Tuning")
    output_dir: str = option(
        "", "Folder of the run; by default one in runs/.", group="Run", result=True
    )
    do_train: bool | None = option(None, "Train.", group="Run", result=True)
    do_predict: bool | None = option(None, "Predict.", group="Run", result=True)
    export_dir: str | None = option(
        None,
        "Export for TF Serving: a model's folder, or a new version in it.",
        group="Run",
        result=True,
    )
    max_train_examples: int | None = option(
        None, "Train on so many examples, always the same ones.", group="Data", limits=_COUNT
    )
    train_batch_size: int = option(32, "Rows of a training batch.", group="Run", limits=_BATCH)
    predict_batch_size: int = option(
        64, "Rows of a prediction batch.", group="Run", limits=_BATCH, result=True
    )
    learning_rate: float | None = option(
        None,
        "Highest learning rate; by default what suits --tuning.",
        group="Run",
        limits=Range(0, 1e38, above=True),
    )
    num_train_epochs: float = option(
        3.0, "Passes over the training examples.", group="Run", limits=Range(0, 1e6, above=True)
    )
    warmup_proportion: float = option(
        0.1, "Share of the steps in which the learning rate rises.", group="Run", limits=SHARE
    )
    save_checkpoints_steps: int = option(
        1000, "Steps between checkpoints.", group="Run", limits=_COUNT, result=True
    )
    early_stopping: int | None = option(
        None, "Stop after so many epochs without a better metric.", group="Run", limits=_COUNT
    )
    seed: int = option(0, "Seed of everything that is random.", group="Run", limits=_SEED)
    adapter: AdapterConfig | None = AdapterConfig()
    tuning: Tuning = Tuning()
    devices: Devices = dataclasses.field(default_factory=Devices)
    # The fields of adapters and tuning that were given: a pack must not contradict them.
    explicit: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)

    # The parts of a run. If one of them is asked for, the others are off by default.
    parts: ClassVar[tuple[str, ...]] = ("do_train", "do_predict")
    default_parts: ClassVar[tuple[str, ...]] = ("do_train",)

    def __post_init__(self):
        self._resolve_parts()
        if not self.output_dir:
            object.__setattr__(self, "output_dir", self._default_folder())
        options.check_fields(self)

    def _resolve_parts(self) -> None:
        """Decides what the run does: what was asked for, or else the default."""
        given = {name: getattr(self, name) for name in self.parts}
        asked = [name for name, value in given.items() if value]
        for name, value in given.items():
            if value is None:
                object.__setattr__(self, name, not asked and name in self.default_parts)
        if not any(getattr(self, name) for name in self.parts):
            names = " or ".join(f"--{name}" for name in self.parts)
            raise UserError(f"nothing to do: expected {names}")

    def _default_folder(self) -> str:
        """Returns a folder that is named after the task and what makes the run another run."""
        identity = json.dumps(self.identity(), sort_keys=True)
        digest = hashlib.sha256(identity.encode()).hexdigest()[:8]
        size = f"-{self.adapter.size}" if self.adapter else ""
        name = "".join(c if c.isalnum() else "-" for c in self.short_name.lower())
        return os.path.join("runs", f"{name}-{self.tuning.method}{size}-{digest}")

    @property
    def short_name(self) -> str:
        """A name for the run's folder."""
        raise NotImplementedError

    @property
    def rate(self) -> float:
        """The learning rate: the given one, or one that suits the tuning method."""
        return self.learning_rate or self.tuning.learning_rate

    def identity(self) -> dict[str, Any]:
        """Returns what makes a run another run: all settings that change what is trained."""
        values = options.in_json(self)
        for field in dataclasses.fields(self):
            if field.metadata.get("result"):
                del values[field.name]
        del values["devices"], values["explicit"]
        return {**values, **self.devices.identity(), "learning_rate": self.rate}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassifierSettings(RunSettings):
    """Settings of run_classifier.py."""

    task: str | None = option(
        None, "Name of the task, such as CoLA or sms_spam.", group="Data", aliases=("task_name",)
    )
    data_dir: str | None = option(
        None, "Folder with the task's original files; by default TFDS has them.", group="Data"
    )
    dev_file: str | None = option(
        None, "Your own examples for evaluation, like --train_file.", group="Data"
    )
    test_file: str | None = option(
        None, "Your own examples for prediction.", group="Data", result=True
    )
    text_column: str | None = option(None, "Column of the text.", group="Data", table=True)
    text_pair_column: str | None = option(
        None, "Column of the second text.", group="Data", table=True
    )
    label_column: tuple[str, ...] | None = option(
        None,
        "Column of the label, or several columns separated by commas.",
        group="Data",
        table=True,
    )
    label_separator: str | None = option(
        None, "What separates several labels in one cell.", group="Data", table=True
    )
    skip_unlabelled: bool = option(
        False,
        "Leave out rows without a label; otherwise they are an error.",
        group="Data",
        table=True,
    )
    split_seed: int | None = option(
        None,
        "Seed that a dev set is drawn with; by default --seed.",
        group="Data",
        table=True,
        limits=_SEED,
    )
    encoding: str | None = option(
        None, "Encoding of your files; by default it is recognized.", group="Data", table=True
    )
    delimiter: str | None = option(
        None, "What separates columns; by default it is recognized.", group="Data", table=True
    )
    name: str | None = option(
        None,
        "Name of the task; by default that of its first file.",
        group="Data",
        result=True,
    )
    regression: bool | None = option(
        None, "The labels are values, even if they are whole.", group="Data", table=True
    )
    kind: str | None = option(
        None,
        "What the labels are; by default recognized.",
        group="Data",
        table=True,
        choices=tuple(TEXT_LABELS),
    )
    do_eval: bool | None = option(None, "Evaluate.", group="Run", result=True)
    metric: str | None = option(
        None, "Metric that decides which epoch is the best; by default the task's.", group="Run"
    )
    eval_batch_size: int = option(
        64, "Rows of an evaluation batch.", group="Run", limits=_BATCH, result=True
    )

    parts: ClassVar[tuple[str, ...]] = ("do_train", "do_eval", "do_predict")
    default_parts: ClassVar[tuple[str, ...]] = ("do_train", "do_eval")

    def __post_init__(self):
        super().__post_init__()
        if (self.task is not None) == bool(self.own_files):
            raise UserError("expected either --task, or files of your own such as --train_file")
        if self.regression is not None:
            kind = "regression" if self.regression else "classification"
            if self.kind not in (None, kind):
                raise UserError(f"--kind={self.kind}: --regression says something else")
            object.__setattr__(self, "kind", kind)
        if self.task is not None and self.name is not None:
            raise UserError(f"--name={self.name}: is for files of your own, not for --task")
        if self.task is None and self.data_dir is not None:
            raise UserError(f"--data_dir={self.data_dir}: is for --task")
        for name in ("early_stopping", "metric"):
            if getattr(self, name) and not self.do_eval:
                raise UserError(f"--{name}={getattr(self, name)}: needs --do_eval")

    def refuse_for(self, examples: str) -> None:
        """Refuses settings that are for tables, where the examples are something else."""
        for field in dataclasses.fields(self):
            given = getattr(self, field.name) not in (None, False)
            if field.metadata.get("table") and given:
                raise UserError(f"--{field.name}: is for tables of your own, not for {examples}")

    @property
    def short_name(self) -> str:
        files = (os.path.splitext(os.path.basename(path))[0] for path in self.own_files.values())
        return self.task or self.name or next(files, "task")

    @property
    def own_files(self) -> dict[str, str]:
        """Your own files by split."""
        files = {"train": self.train_file, "dev": self.dev_file, "test": self.test_file}
        return {split: path for split, path in files.items() if path is not None}


@dataclasses.dataclass(frozen=True, kw_only=True)
class SquadSettings(RunSettings):
    """Settings of run_squad.py, with BERT's names and defaults."""

    predict_file: str | None = option(
        None, "Questions to answer; without any file, SQuAD comes from TFDS.", group="Data"
    )
    max_seq_length: int = option(384, "Longest window, in tokens.", group="Data", limits=_LENGTH)
    doc_stride: int = option(
        128,
        "Tokens between the starts of two windows of a context.",
        group="Data",
        limits=TOKENS,
    )
    max_query_length: int = option(64, "Longest question, in tokens.", group="Data", limits=TOKENS)
    version_2_with_negative: bool = option(
        False, "Questions may have no answer, as in SQuAD v2.0.", group="Data"
    )
    max_predict_examples: int | None = option(
        None, "Answer so many questions, always the same ones.", group="Data", limits=_COUNT
    )
    verbose_logging: bool = option(
        False, "Name the training questions that are left out.", group="Data", result=True
    )
    predict_batch_size: int = option(
        8, "Windows of a prediction batch.", group="Run", limits=_BATCH, result=True
    )
    n_best_size: int = option(
        20,
        "Answers that are listed for a question.",
        group="Answers",
        limits=N_BEST,
        result=True,
    )
    max_answer_length: int = option(
        30,
        "Longest answer, in tokens.",
        group="Answers",
        limits=TOKENS,
        result=True,
    )
    null_score_diff_threshold: float = option(
        0.0,
        'Answer "" if its score is more than this above the best answer\'s.',
        group="Answers",
        result=True,
        limits=NUMBER,
    )

    default_parts: ClassVar[tuple[str, ...]] = ("do_train", "do_predict")

    def __post_init__(self):
        super().__post_init__()
        if self.max_query_length + 3 >= self.max_seq_length:
            raise UserError(
                f"--max_query_length={self.max_query_length}: leaves no room for the context in "
                f"--max_seq_length={self.max_seq_length}"
            )
        if self.early_stopping and not self.do_predict:
            raise UserError(f"--early_stopping={self.early_stopping}: needs --do_predict")

    def _resolve_parts(self) -> None:
        # With a file to train on and none to answer, answering has to be asked for.
        if self.do_predict is None and self.train_file and not self.predict_file:
            object.__setattr__(self, "do_predict", False)
        super()._resolve_parts()

    @property
    def short_name(self) -> str:
        return "squad-v2" if self.version_2_with_negative else "squad"


def option_sets(kind: type[RunSettings]) -> list[tuple[type, str]]:
    """Returns the classes whose options a program with these settings has, with their prefixes."""
    return [(kind, ""), (AdapterConfig, "adapter_"), (Tuning, ""), (Devices, "")]


def make_settings(kind: type[Settings], values: Mapping[str, Any]) -> Settings:
    """Returns settings from values by flag: those of the settings, of adapters, of tuning, ...

    Args:
      kind: The class of the settings.
      values: Flag -> value. What is not given has its default.
    """
    rest = dict(values)
    found = options.take(kind, rest)
    given_tuning = options.take(Tuning, rest)
    given_adapter = options.take(AdapterConfig, rest, "adapter_")
    tuning, adapter = Tuning(**given_tuning), AdapterConfig(**given_adapter)
    if adapter.layers and "from_layer" not in given_tuning:
        # Below its adapters, a task leaves the base as it is: tasks that are served together can
        # share these layers.
        tuning = dataclasses.replace(tuning, from_layer=adapter.layers[0])
    found["explicit"] = {
        "tuning": {name: getattr(tuning, name) for name in given_tuning},
        "adapter": {name: getattr(adapter, name) for name in given_adapter},
    }
    found["devices"] = Devices(**options.take(Devices, rest))
    if rest:
        raise UserError(f"unknown settings: {some(rest)}")
    if tuning.method != "adapters":
        for name in given_adapter:
            raise UserError(f"--adapter_{name}: --tuning={tuning.method} has no adapters")
    found["adapter"] = adapter if tuning.method == "adapters" else None
    return kind(**found, tuning=tuning)
