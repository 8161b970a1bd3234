"""What an experiment will train, and how long it will take, before it is started."""

import dataclasses
import itertools
import re
import time
from collections.abc import Mapping
from typing import Any

from adapter_bert_tf.base.presets import HUB_PRESETS
from adapter_bert_tf.data.sources import find_task
from adapter_bert_tf.encoder.adapter import AdapterConfig
from adapter_bert_tf.experiment.table import SQUAD, Experiment
from adapter_bert_tf.experiment.trials import Trial, to_trials

# Training examples and their mean tokens, where the task's definition does not say them.
_EXAMPLES = {
    "CoLA": (8551, 11),
    "SST-2": (67349, 13),
    "MRPC": (3668, 53),
    "STS-B": (5749, 31),
    "QQP": (363846, 31),
    "MNLI": (392702, 40),
    "MNLI-mm": (392702, 40),
    "QNLI": (104743, 50),
    "RTE": (2490, 70),
    "WNLI": (635, 37),
    SQUAD: (88641, 180),
}
_TOKENS = 40  # Of a task that nothing is known about.
_BATCH = 32
_SIZES = re.compile(r"L-(\d+)_H-(\d+)_A-\d+")
_MINILM = (6, 384)
_VOCABULARY, _POSITIONS = 30522, 512


@dataclasses.dataclass(frozen=True)
class Sizes:
    """What the cost of a BERT follows from.

    Attributes:
      layers: Transformer layers.
      width: Their width.
    """

    layers: int
    width: int

    @property
    def layer(self) -> int:
        """Parameters of a layer."""
        return 12 * self.width**2 + 13 * self.width

    @property
    def total(self) -> int:
        """Parameters in all, with the pooler."""
        tables = (_VOCABULARY + _POSITIONS + 2 + 2) * self.width
        return tables + self.layers * self.layer + self.width**2 + self.width

    def trained(self, values: Mapping[str, Any]) -> int:
        """Returns how many parameters a trial trains, without the head."""
        tuning = values.get("tuning", "adapters")
        norms = (2 * self.layers + 1) * 2 * self.width
        if tuning == "adapters":
            given = {
                name: values[f"adapter_{name}"]
                for name in ("size", "hidden_layers")
                if f"adapter_{name}" in values
            }
            sites = len(values.get("adapter_sites", ("attention", "feed_forward")))
            shapes = AdapterConfig(**given).shapes(self.width).values()
            return self.layers * sites * sum(_product(shape) for shape in shapes) + norms
        if tuning == "top_k":
            return values.get("top_k", 1) * self.layer + self.width**2 + self.width
        return {"full": self.total, "layer_norm": norms}.get(tuning, 0)


def _product(shape) -> int:
    result = 1
    for each in shape:
        result *= each
    return result


def sizes_of(bert: str) -> Sizes:
    """Returns the sizes of a preset, or those of the embedded base for what is not known."""
    match = _SIZES.search(HUB_PRESETS.get(bert, ""))
    return Sizes(*map(int, match.groups())) if match else Sizes(*_MINILM)


def describe(experiment: Experiment) -> list[str]:
    """Returns a line for each task and method: trials, and what they train."""
    sizes = sizes_of(experiment.bert)
    lines = [f"{'task':26}{'method':20}{'trials':>7}  trained parameters"]
    for key, trials in _by_method(experiment).items():
        trained = sorted(sizes.trained(each.values) for each in trials)
        spread = f"{trained[0]:,}" + (f" to {trained[-1]:,}" if trained[0] < trained[-1] else "")
        share = f"{trained[0] / sizes.total:.2%}"
        lines.append(f"{key[0]:26}{key[1]:20}{_count(experiment, trials):>7}  {spread} ({share})")
    return lines


def _by_method(experiment: Experiment) -> dict[tuple[str, str], list[Trial]]:
    found: dict[tuple[str, str], list[Trial]] = {}
    for trial in to_trials(experiment):
        found.setdefault((trial.task, trial.method), []).append(trial)
    return found


def _count(experiment: Experiment, trials: list[Trial]) -> int:
    """Counts the trials, with the seeds that follow once the best is known."""
    searched = experiment.searched_with or len(experiment.seeds)
    groups = {tuple(each.settings.get(name) for name in experiment.apart) for each in trials}
    return len(trials) + len(groups) * (len(experiment.seeds) - searched)


def estimate_seconds(experiment: Experiment, per_unit: Mapping[str, float]) -> float:
    """Returns how long all trials take, one after another.

    Args:
      experiment: The experiment.
      per_unit: Seconds for a parameter of the layers and a token, by tuning method.
    """
    sizes = sizes_of(experiment.bert)
    total = 0.0
    for trials in _by_method(experiment).values():
        each = sum(_seconds(trial, sizes, per_unit) for trial in trials) / len(trials)
        total += each * _count(experiment, trials)
    return total


def _seconds(trial: Trial, sizes: Sizes, per_unit: Mapping[str, float]) -> float:
    values = trial.values
    examples, tokens = _examples(trial.task)
    examples = min(examples, values.get("max_train_examples", examples))
    tokens = min(tokens, values.get("max_seq_length", 128))
    work = sizes.layers * sizes.layer * examples * tokens * values.get("num_train_epochs", 3.0)
    kind = "adapters" if values.get("tuning") != "full" else "full"
    return work * per_unit[kind]


def _examples(task: str) -> tuple[int, int]:
    if task in _EXAMPLES:
        return _EXAMPLES[task]
    try:
        sizes = find_task(task).sizes
    except Exception:  # Files of one's own.
        sizes = None
    return (sizes[0] if sizes else 5000), _TOKENS


def measure() -> dict[str, float]:
    """Measures steps on this machine, with the embedded base.

    Returns:
      Seconds for a parameter of the layers and a token, by tuning method.
    """
    import tensorflow as tf

    from adapter_bert_tf.base.load import load_encoder
    from adapter_bert_tf.heads.classification import ClassificationHead
    from adapter_bert_tf.text.inputs import IDS, MASK, SEGMENTS
    from adapter_bert_tf.tuning.methods import Tuning
    from adapter_bert_tf.tuning.optimizer import create_optimizer
    from adapter_bert_tf.tuning.task_model import TaskModel

    found = {}
    sizes, ids = Sizes(*_MINILM), tf.ones([_BATCH, _TOKENS], tf.int32)
    inputs, labels = {IDS: ids, MASK: ids, SEGMENTS: ids * 0}, tf.zeros([_BATCH], tf.int32)
    for kind, adapter in (("adapters", AdapterConfig()), ("full", None)):
        model = TaskModel(load_encoder("minilm", adapter), ClassificationHead(2), Tuning(kind))
        model.compile(optimizer=create_optimizer(1e-4, 10, 1), loss=model.head.loss)
        times = []
        for _ in itertools.repeat(None, 4):
            start = time.monotonic()
            model.train_on_batch(inputs, labels)
            times.append(time.monotonic() - start)
        found[kind] = min(times) / (sizes.layers * sizes.layer * _BATCH * _TOKENS)
    return found
