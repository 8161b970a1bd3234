"""What an experiment will train, and how long it will take, before it is started."""

import dataclasses
import functools
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from adapter_bert_tf.base.presets import HUB_PRESETS, MINILM
from adapter_bert_tf.data.sources import find_task
from adapter_bert_tf.data.task import DEV, TRAIN
from adapter_bert_tf.encoder.adapter import AdapterConfig
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.experiment.places import Places
from adapter_bert_tf.experiment.table import SQUAD, Experiment
from adapter_bert_tf.experiment.trials import Trial, count_trials, searches, to_trials
from adapter_bert_tf.options import options_of
from adapter_bert_tf.run.settings import ClassifierSettings, SquadSettings

# Training and dev examples, and their mean tokens, where the task's definition does not say them.
_EXAMPLES = {
    "CoLA": (8551, 1043, 11),
    "SST-2": (67349, 872, 13),
    "MRPC": (3668, 408, 53),
    "STS-B": (5749, 1500, 31),
    "QQP": (363846, 40430, 31),
    "MNLI": (392702, 9815, 40),
    "MNLI-mm": (392702, 9832, 40),
    "QNLI": (104743, 5463, 50),
    "RTE": (2490, 277, 70),
    "WNLI": (635, 71, 37),
    SQUAD: (88641, 10784, 180),
}
# Mean tokens of the further tasks whose texts are long.
_LONG = {"20newsgroups": 450, "economic_news_relevance": 330, "customer_complaints": 250}


class Rows(NamedTuple):
    """The rows of a task.

    Attributes:
      train: Training examples.
      dev: Examples of the dev set.
      tokens: Mean tokens of a row.
    """

    train: int
    dev: int
    tokens: int


# Of files that nothing is known about.
_UNKNOWN = Rows(5000, 500, 40)
_TOKENS_OF_A_WORD = 1.3
# What is measured: rows of a small and of a large batch, and their tokens.
_BATCHES, _TOKENS = (8, 32), 40
# A forward pass, as a part of a step of full fine-tuning.
_FORWARD = 1 / 3
_IN_HANDLE = re.compile(r"L-(\d+)_H-(\d+)_A-\d+")


@dataclasses.dataclass(frozen=True)
class Sizes:
    """What the cost of a BERT follows from.

    Attributes:
      layers: Transformer layers.
      width: Their width.
      rows: Rows of its tables: words, positions and segments.
      inner: Width between the feed-forward projections, by default four times the width.
    """

    layers: int
    width: int
    rows: int = 30522 + 512 + 2
    inner: int | None = None

    @property
    def layer(self) -> int:
        """Parameters of a layer: four projections, two feed-forward ones, two LayerNorms."""
        width, inner = self.width, self.inner or 4 * self.width
        return 4 * (width**2 + width) + 2 * width * inner + inner + width + 4 * width

    @property
    def pooler(self) -> int:
        """Parameters of the pooler."""
        return self.width**2 + self.width

    @property
    def total(self) -> int:
        """Parameters in all."""
        return (self.rows + 2) * self.width + self.layers * self.layer + self.pooler

    def trained(self, values: Mapping[str, Any]) -> int:
        """Returns how many parameters a trial trains, without the head."""
        tuning = values.get("tuning", "adapters")
        norms = (2 * self.layers + 1) * 2 * self.width
        if tuning == "adapters":
            return self._adapters(values) + norms
        if tuning == "top_k":
            return values.get("top_k", 1) * self.layer + self.pooler
        return {"full": self.total, "layer_norm": norms}.get(tuning, 0)

    def _adapters(self, values: Mapping[str, Any]) -> int:
        # `adapter_drop` is one of the flags of tuning.
        names = options_of(AdapterConfig, "adapter_")
        given = {name.removeprefix("adapter_"): values[name] for name in names if name in values}
        config = AdapterConfig(**given)
        each = sum(map(math.prod, config.shapes(self.width).values()))
        return each * len(config.sites) * len(config.in_layers(self.layers))


def sizes_of(bert: str) -> Sizes:
    """Returns the sizes of a base. Those of presets are known without their files."""
    match = _IN_HANDLE.search(HUB_PRESETS.get(bert, ""))
    if match:
        return Sizes(*map(int, match.groups()))
    if bert == MINILM:
        return Sizes(6, 384)
    # Imported here, because it needs TensorFlow.
    from adapter_bert_tf.base.load import find_base

    config = find_base(bert).config
    rows = config.vocab_size + config.max_sequence_length + config.type_vocab_size
    return Sizes(config.num_layers, config.hidden_size, rows, config.inner_dim)


def describe(experiment: Experiment) -> list[str]:
    """Returns what will be done: a line for each task and method, and the number of trials."""
    sizes, counts = sizes_of(experiment.bert), count_trials(experiment)
    lines = [f"{experiment.title}; base {experiment.bert}"]
    lines.append(f"{'task':26}{'method':20}{'trials':>7}  trained parameters")
    for (task, method), trials in _by_method(experiment).items():
        low, high = (chosen(sizes.trained(each.values) for each in trials) for chosen in (min, max))
        spread = f"{low:,} to {high:,}" if low < high else f"{low:,}"
        share = f"{high / sizes.total:.2%}"
        lines.append(f"{task:26}{method:20}{counts[task, method]:>7}  {spread} (up to {share})")
    for search, trial in searches(experiment):
        lines.append(f"{trial.task:26}{trial.method:20}{search.trials:>7}  a search, without BERT")
    return [*lines, f"{sum(counts.values()):,} trials in all"]


def _by_method(experiment: Experiment) -> dict[tuple[str, str], list[Trial]]:
    found: dict[tuple[str, str], list[Trial]] = {}
    for trial in to_trials(experiment):
        found.setdefault((trial.task, trial.method), []).append(trial)
    return found


class Cost(NamedTuple):
    """Seconds of training.

    Attributes:
      step: For each step, whatever its size.
      unit: For each parameter of the layers and each token.
    """

    step: float
    unit: float


Costs = Mapping[str, Cost]


def estimate_seconds(experiment: Experiment, costs: Costs, own: Rows | None = None) -> float:
    """Returns how long all trials take, one after another, without the searches.

    Args:
      experiment: The experiment.
      costs: Tuning method -> what it costs.
      own: The rows of one's own files, from `rows_of_files`.
    """
    sizes, counts = sizes_of(experiment.bert), count_trials(experiment)
    total = 0.0
    for (task, method), trials in _by_method(experiment).items():
        rows = own or _rows_of(task)
        mean = sum(_seconds(trial, sizes, rows, costs) for trial in trials) / len(trials)
        total += mean * counts[task, method]
    return total


def rows_of_files(experiment: Experiment, places: Places) -> Rows | None:
    """Returns the rows of one's own files; None where there are none, or nothing is known."""
    trials = to_trials(experiment)  # None, if there are only searches.
    if "train_file" not in places.values or not trials:
        return None
    settings = places.settings(trials[0])
    if not isinstance(settings, ClassifierSettings):
        return None
    from adapter_bert_tf.data.sources import RecordFiles
    from adapter_bert_tf.run.source import find_source, split_names

    source = find_source(settings)
    if isinstance(source, RecordFiles):
        return None
    train, *dev = (source.read(name) for name in (TRAIN, *split_names(settings, source, DEV)))
    words = sum(len(text.split()) for text in (*train.texts, *(train.pairs or ())))
    return Rows(len(train), sum(map(len, dev)), round(_TOKENS_OF_A_WORD * words / len(train)) + 2)


def _seconds(trial: Trial, sizes: Sizes, rows: Rows, costs: Costs) -> float:
    defaults = SquadSettings if trial.task == SQUAD else ClassifierSettings

    def value(name: str) -> float:
        # What limits examples has no default.
        return trial.values.get(name, getattr(defaults, name, None)) or math.inf

    train = min(rows.train, value("max_train_examples"))
    dev = min(rows.dev, value("max_predict_examples"))
    row = sizes.layers * sizes.layer * min(rows.tokens, value("max_seq_length"))
    full = costs["full"]
    cost = full if trial.values.get("tuning") == "full" else costs["adapters"]
    steps = math.ceil(train / value("train_batch_size"))
    epoch = steps * cost.step + row * (train * cost.unit + dev * full.unit * _FORWARD)
    return value("num_train_epochs") * epoch


def _rows_of(task: str) -> Rows:
    if task in _EXAMPLES:
        return Rows(*_EXAMPLES[task])
    try:
        sizes = find_task(task).sizes
    except UserError:  # Files of one's own.
        return _UNKNOWN
    return Rows(*sizes[:2], _LONG.get(task, _UNKNOWN.tokens)) if sizes else _UNKNOWN


def measure() -> Costs:
    """Measures steps on this machine, with the embedded base."""
    import tensorflow as tf

    from adapter_bert_tf.base.load import load_encoder
    from adapter_bert_tf.heads.classification import ClassificationHead
    from adapter_bert_tf.run.devices import Devices
    from adapter_bert_tf.text.inputs import IDS, MASK, SEGMENTS
    from adapter_bert_tf.tuning.methods import Tuning
    from adapter_bert_tf.tuning.optimizer import create_optimizer
    from adapter_bert_tf.tuning.task_model import TaskModel

    Devices().prepare()
    found, sizes = {}, sizes_of(MINILM)
    for kind, adapter in (("adapters", AdapterConfig()), ("full", None)):
        model = TaskModel(load_encoder(MINILM, adapter), ClassificationHead(2), Tuning(kind))
        model.compile(optimizer=create_optimizer(1e-4, 10, 1), loss=model.head.loss)
        seconds = []
        for rows in _BATCHES:
            ids, labels = tf.ones([rows, _TOKENS], tf.int32), tf.zeros([rows], tf.int32)
            inputs = {IDS: ids, MASK: ids, SEGMENTS: ids * 0}
            seconds.append(_fastest(functools.partial(model.train_on_batch, inputs, labels)))
        found[kind] = _fit(seconds, sizes.layers * sizes.layer * _TOKENS)
    return found


def _fastest(call: Callable[[], object]) -> float:
    times = []
    for _ in range(5):
        start = time.monotonic()
        call()
        times.append(time.monotonic() - start)
    return min(times)


def _fit(seconds: Sequence[float], row: int) -> Cost:
    """Returns the cost that gives the seconds of the small and of the large batch."""
    small, large = seconds
    unit = max(large - small, 0) / (row * (_BATCHES[1] - _BATCHES[0]))
    # On a machine that does other things the small batch may seem to take longer.
    return Cost(max(small - unit * row * _BATCHES[0], 0), unit) if unit else Cost(small, 0)
