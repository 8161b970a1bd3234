"""The experiments, as tables of data: what is tried on which tasks.

A new one is a few lines here, and a line in `report.py` for what it shows. What the paper leaves
open is marked so.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from adapter_bert_tf.baseline.modules import HUB_MODULES
from adapter_bert_tf.baseline.space import SPACE, Space
from adapter_bert_tf.experiment.paper import GLUE_METRICS

Values = Mapping[str, Any]
Grid = Mapping[str, Sequence[Any]]

ADAPTERS, FULL, TOP_K, LAYER_NORM = "adapters", "full", "top_k", "layer_norm"
# The baseline without BERT.
NO_BERT = "no_bert"

# What is trained, by the name of the method.
METHODS: dict[str, Values] = {
    ADAPTERS: {"tuning": "adapters"},
    FULL: {"tuning": "full"},
    TOP_K: {"tuning": "top_k"},
    LAYER_NORM: {"tuning": "layer_norm"},
    "head": {"tuning": "head"},
}


SAMPLERS = ("tpe", "random")


@dataclasses.dataclass(frozen=True)
class Search:
    """Settings that are looked for one after another, instead of a grid.

    Attributes:
      space: What is tried for each setting.
      trials: How many trials there are for a task.
      sampler: How the next one is chosen: "tpe" by what the others reached, or "random".
    """

    space: Space
    trials: int
    sampler: str = "tpe"


@dataclasses.dataclass(frozen=True)
class Arm:
    """One method, and what is tried with it.

    Attributes:
      method: Its name.
      grid: Flag -> the values that are tried, each with each.
      fixed: Flags that are the same for all of its trials, besides those of `METHODS`.
      search: A search in the place of the grid, with the first seed.
    """

    method: str
    grid: Grid = dataclasses.field(default_factory=dict)
    fixed: Values = dataclasses.field(default_factory=dict)
    search: Search | None = None


@dataclasses.dataclass(frozen=True)
class Experiment:
    """What is tried on which tasks.

    Attributes:
      title: What it shows.
      tasks: Names of the tasks.
      bert: The base.
      arms: The methods.
      seeds: The seeds.
      searched_with: How many of the seeds search the grid. The others are only run for what was
        found best, for each value of `apart`.
      apart: Flags by whose values the best is looked for apart.
      epochs: Task -> method -> epochs, where they differ.
      fixed: Flags that are the same for all trials.
      of_tasks: Task -> flags that are its own.
      tests: Whether what is chosen is scored on the test set.
    """

    title: str
    tasks: tuple[str, ...]
    bert: str
    arms: tuple[Arm, ...]
    seeds: tuple[int, ...] = (0, 1, 2)
    searched_with: int | None = None
    apart: tuple[str, ...] = ()
    epochs: Mapping[str, Mapping[str, float]] = dataclasses.field(default_factory=dict)
    fixed: Values = dataclasses.field(default_factory=dict)
    of_tasks: Mapping[str, Values] = dataclasses.field(default_factory=dict)
    tests: bool = False


SQUAD = "SQuAD v1.1"
_LARGE, _BASE, _SMALL = "bert-large-uncased", "bert-base-uncased", "minilm"
GLUE_TASKS = ("CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI", "MNLI-mm", "QNLI", "RTE")
# What the paper scores them with, if it is not the accuracy.
_SCORED_WITH: dict[str, Values] = {
    task: {"metric": metric} for task, metric in GLUE_METRICS.items()
}
# All but STS-B, which has no accuracy.
_EIGHT = tuple(name for name in GLUE_TASKS if name != "STS-B")
_ACCURACY = {"metric": "accuracy"}
_TWO = ("MNLI", "CoLA")

# Table 2 of the paper: task -> epochs of full and top-k tuning, and of adapters.
_EPOCHS = {
    "20newsgroups": (50, 50),
    "airline": (50, 20),
    "corporate_messaging": (100, 50),
    "disasters": (50, 50),
    "economic_news_relevance": (20, 20),
    "emotion": (20, 20),
    "global_warming": (100, 50),
    "political_audience": (50, 20),
    "political_bias": (50, 50),
    "political_message": (50, 50),
    "primary_emotions": (100, 100),
    "progressive_opinion": (100, 100),
    "progressive_stance": (100, 100),
    "us_economic_performance": (100, 20),
    "customer_complaints": (20, 20),
    "news_aggregator": (20, 20),
    "sms_spam": (50, 20),
}

# Open in the paper: the grid of full fine-tuning on GLUE is that of BERT's authors.
_FULL_GLUE = Arm(FULL, {"learning_rate": (2e-5, 3e-5, 5e-5), "num_train_epochs": (3.0,)})
_ADAPTERS_GLUE = Arm(
    ADAPTERS,
    {
        "learning_rate": (3e-5, 3e-4, 3e-3),
        "num_train_epochs": (3.0, 20.0),
        "adapter_size": (8, 64, 256),
    },
)
_RATES_OF_TABLE_2 = (1e-5, 3e-5, 1e-4, 3e-3)
_RATES_OF_FIGURE_7 = (2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3)
_POWERS = tuple(2**i for i in range(10))
_VARIANTS: dict[str, Values] = {
    "houlsby": {},
    "layer_norm_inside": {"adapter_layer_norm": True},
    "two_layers": {"adapter_hidden_layers": 2},
    "relu": {"adapter_activation": "relu"},
    "tanh": {"adapter_activation": "tanh"},
    "attention_only": {"adapter_sites": ("attention",)},
    "feed_forward_only": {"adapter_sites": ("feed_forward",)},
    "parallel": {"adapter_parallel": True},
    "multiplicative": {"adapter_multiplicative": True},
    # As many parameters as two adapters of 64 in a layer.
    "pfeiffer": {"adapter_design": "pfeiffer", "adapter_size": 128},
}


def _variants(**grid: Sequence[Any]) -> tuple[Arm, ...]:
    return tuple(
        Arm(name, grid, {"tuning": "adapters", **fixed}) for name, fixed in _VARIANTS.items()
    )


PAPER = {
    "glue": Experiment(
        "Table 1: GLUE",
        GLUE_TASKS,
        _LARGE,
        (_FULL_GLUE, _ADAPTERS_GLUE),
        seeds=(0, 1, 2, 3, 4),
        of_tasks=_SCORED_WITH,
    ),
    "additional": Experiment(
        "Table 2: 17 further tasks",
        tuple(_EPOCHS),
        _BASE,
        (
            Arm(FULL, {"learning_rate": _RATES_OF_TABLE_2}),
            Arm(TOP_K, {"learning_rate": _RATES_OF_TABLE_2, "top_k": (1, 2, 3, 5, 7, 9, 11, 12)}),
            Arm(
                ADAPTERS,
                {"learning_rate": _RATES_OF_TABLE_2, "adapter_size": (2, 4, 8, 16, 32, 64)},
            ),
            Arm(NO_BERT, search=Search({**SPACE, "module": tuple(HUB_MODULES)}, trials=10_000)),
        ),
        # Open in the paper: three seeds, of which one searches.
        searched_with=1,
        epochs={
            task: {FULL: full, TOP_K: full, ADAPTERS: adapters}
            for task, (full, adapters) in _EPOCHS.items()
        },
        tests=True,
    ),
    # The rates are open in the paper: those that we found to suit each method.
    "tradeoff": Experiment(
        "Figures 1, 3 and 4: score and trained parameters",
        GLUE_TASKS,
        _BASE,
        (
            Arm(FULL),
            Arm(TOP_K, {"top_k": tuple(range(1, 13))}),
            Arm(LAYER_NORM),
            Arm(ADAPTERS, {"adapter_size": _POWERS}),
        ),
        of_tasks=_SCORED_WITH,
    ),
    # The sizes and layers are open in the paper.
    "squad": Experiment(
        "Figure 5: SQuAD v1.1",
        (SQUAD,),
        _BASE,
        (
            Arm(FULL, {"learning_rate": (3e-5, 5e-5, 1e-4), "num_train_epochs": (2.0, 3.0, 5.0)}),
            Arm(
                TOP_K,
                {
                    "learning_rate": (3e-5, 5e-5, 1e-4),
                    "num_train_epochs": (2.0, 3.0, 5.0),
                    "top_k": (1, 3, 6, 9, 12),
                },
            ),
            Arm(
                ADAPTERS,
                {
                    "learning_rate": (3e-5, 1e-4, 3e-4, 1e-3),
                    "num_train_epochs": (3.0, 10.0, 20.0),
                    "adapter_size": (2, 8, 64, 256),
                },
            ),
        ),
        searched_with=1,
        apart=("adapter_size", "top_k"),
    ),
    "ablation": Experiment(
        "Figure 6, left and centre: spans of layers without adapters",
        _TWO,
        _BASE,
        (Arm(ADAPTERS, {"adapter_size": (64,)}),),
        seeds=(0,),
    ),
    "init_scale": Experiment(
        "Figure 6, right: deviation of the initial values",
        _TWO,
        _BASE,
        (Arm(ADAPTERS, {"adapter_init_scale": tuple(10.0**i for i in range(-7, 1))}),),
    ),
    # Open in the paper: the rates between the ends that it gives, and what else is tried at each.
    # Here that is what Table 1 has, and the grid is searched with one of the seeds.
    "learning_rate": Experiment(
        "Figure 7: learning rates",
        _TWO,
        _BASE,
        (
            Arm(FULL, {"learning_rate": _RATES_OF_FIGURE_7, "num_train_epochs": (3.0, 20.0)}),
            Arm(ADAPTERS, {**_ADAPTERS_GLUE.grid, "learning_rate": _RATES_OF_FIGURE_7}),
        ),
        searched_with=1,
        apart=("learning_rate",),
    ),
    "size": Experiment(
        "The size study: one size for all tasks",
        _EIGHT,
        _LARGE,
        (_ADAPTERS_GLUE,),
        seeds=(0, 1, 2, 3, 4),
        fixed=_ACCURACY,
    ),
    # Tasks and seeds are open in the paper.
    "variants": Experiment("Variants of the adapter", _TWO, _BASE, _variants()),
}

# The small profile: the same on the embedded base, an hour at most on 2 cores.
_ONE_SEED = (0,)
_SHORT = {"num_train_epochs": 3.0, "max_train_examples": 1500}
# Small batches: as many examples make more steps, which adapters need.
_MORE_STEPS = {"num_train_epochs": 3.0, "max_train_examples": 1500, "train_batch_size": 8}
# Its rows are short.
_ONE_TASK = ("SST-2",)
_FIVE = ("CoLA", "SST-2", "MRPC", "STS-B", "RTE")
_ADDITIONAL_SMALL = ("sms_spam", "airline", "corporate_messaging", "global_warming")

SMALL = {
    "glue": dataclasses.replace(
        PAPER["glue"],
        tasks=_FIVE,
        bert=_SMALL,
        arms=(
            Arm(FULL, {"learning_rate": (5e-5,)}),
            Arm(ADAPTERS, {"learning_rate": (1e-3,), "adapter_size": (8, 64)}),
        ),
        seeds=(0, 1),
        fixed=_MORE_STEPS,
    ),
    "additional": dataclasses.replace(
        PAPER["additional"],
        tasks=_ADDITIONAL_SMALL,
        bert=_SMALL,
        arms=(
            Arm(FULL, {"learning_rate": (5e-5,)}),
            Arm(TOP_K, {"learning_rate": (1e-4,), "top_k": (3,)}),
            Arm(ADAPTERS, {"learning_rate": (3e-4, 5e-4, 1e-3), "adapter_size": (64,)}),
            # 40 trials, as the program has by default, would take longer than all others together.
            Arm(NO_BERT, search=Search(SPACE, trials=10)),
        ),
        epochs={},
        fixed=_MORE_STEPS,
    ),
    "tradeoff": dataclasses.replace(
        PAPER["tradeoff"],
        tasks=_FIVE,
        bert=_SMALL,
        arms=(
            Arm(FULL, {"learning_rate": (5e-5,)}),
            Arm(TOP_K, {"learning_rate": (1e-4,), "top_k": (1, 3)}),
            Arm(LAYER_NORM, {"learning_rate": (3e-3,)}),
            Arm(ADAPTERS, {"learning_rate": (5e-4,), "adapter_size": (2, 16, 64)}),
        ),
        seeds=_ONE_SEED,
        fixed=_MORE_STEPS,
    ),
    "squad": dataclasses.replace(
        PAPER["squad"],
        bert=_SMALL,
        arms=(
            Arm(FULL, {"learning_rate": (3e-5, 1e-4), "num_train_epochs": (2.0, 4.0, 8.0)}),
            Arm(
                ADAPTERS,
                {
                    "learning_rate": (5e-4, 1e-3),
                    "num_train_epochs": (4.0, 8.0),
                    "adapter_size": (64,),
                },
            ),
        ),
        seeds=_ONE_SEED,
        fixed={
            "max_train_examples": 1000,
            "train_batch_size": 8,
            "max_predict_examples": 500,
            "predict_batch_size": 64,
        },
    ),
    "ablation": dataclasses.replace(
        PAPER["ablation"],
        tasks=("SST-2", "STS-B"),
        bert=_SMALL,
        arms=(Arm(ADAPTERS, {"adapter_size": (64,), "learning_rate": (5e-4,)}),),
        fixed=_MORE_STEPS,
    ),
    "init_scale": dataclasses.replace(
        PAPER["init_scale"],
        tasks=_ONE_TASK,
        bert=_SMALL,
        arms=(Arm(ADAPTERS, {"learning_rate": (1e-3,), **PAPER["init_scale"].arms[0].grid}),),
        fixed=_SHORT,
    ),
    "learning_rate": dataclasses.replace(
        PAPER["learning_rate"],
        tasks=_ONE_TASK,
        bert=_SMALL,
        arms=tuple(
            Arm(method, {"learning_rate": (2e-5, 5e-5, 1e-4, 3e-4, 1e-3, 3e-3)})
            for method in (FULL, ADAPTERS)
        ),
        fixed=_SHORT,
    ),
    "size": dataclasses.replace(
        PAPER["size"],
        tasks=("CoLA", "SST-2", "MRPC", "RTE"),
        bert=_SMALL,
        arms=(Arm(ADAPTERS, {"learning_rate": (3e-4, 1e-3), "adapter_size": (8, 64, 256)}),),
        seeds=_ONE_SEED,
        fixed={**_MORE_STEPS, **_ACCURACY},
    ),
    "variants": dataclasses.replace(
        PAPER["variants"],
        tasks=_ONE_TASK,
        bert=_SMALL,
        arms=_variants(learning_rate=(1e-3,)),
        seeds=(0, 1),
        fixed=_SHORT,
    ),
}

PROFILES = {"paper": PAPER, "small": SMALL}
EXPERIMENTS = tuple(PAPER)
# A grid from the command line.
SWEEP = "sweep"
# The search for a baseline without BERT, which has a program of its own.
BASELINE = "baseline"
