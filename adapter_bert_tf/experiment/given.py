"""From flags to an experiment: the tables, narrowed by what is given."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from absl import flags

from adapter_bert_tf.errors import UserError
from adapter_bert_tf.experiment.places import Places
from adapter_bert_tf.experiment.table import METHODS, PROFILES, Arm, Experiment
from adapter_bert_tf.options import Option, options_of
from adapter_bert_tf.run.settings import ClassifierSettings, SquadSettings, option_sets

# Flags that say where files are, and how to read them: they are no part of a trial.
_PLACES = (
    "train_file",
    "dev_file",
    "test_file",
    "predict_file",
    "cache_dir",
    "vocab_file",
    "bert_config_file",
    "text_column",
    "text_pair_column",
    "label_column",
    "label_separator",
    "skip_unlabelled",
    "encoding",
    "delimiter",
    "kind",
    "regression",
    "name",
)
# Flags of a run that an experiment decides itself.
_OWN = {"output_dir", "pack", "export_dir", "do_train", "do_eval", "do_predict", "data_dir"}
_NOT_TRIED = {"task", "seed", "tuning", "bert", *_PLACES}
_TRUE, _FALSE = ("true", "1", "yes"), ("false", "0", "no")


def define_flags() -> None:
    """Defines the flags of runs, each with several values."""
    flags.DEFINE_string("data_dir", None, "Data: folder with the tasks' folders in it.")
    for option in _options():
        flags.DEFINE_list(option.name, None, f"{option.group}: {option.help}")


def _options() -> Iterator[Option]:
    seen = set(_OWN)
    for owner, prefix in (*option_sets(ClassifierSettings), (SquadSettings, "")):
        for name, option in options_of(owner, prefix).items():
            if name not in seen:
                seen.add(name)
                yield option


def _given() -> dict[str, tuple[Any, ...]]:
    """Returns the values of the flags that are given."""
    return {
        option.name: tuple(_parse(option, text) for text in flags.FLAGS[option.name].value)
        for option in _options()
        if flags.FLAGS[option.name].value is not None
    }


def _parse(option: Option, text: str) -> Any:
    if option.type is bool:
        if text.lower() not in (*_TRUE, *_FALSE):
            raise UserError(f"--{option.name}={text}: expected true or false")
        return text.lower() in _TRUE
    try:
        value = option.type(text)
    except ValueError:
        raise UserError(f"--{option.name}={text}: expected a number") from None
    return option.check(value)


def read_places() -> Places:
    """Returns where files are."""
    given = _given()
    values = {
        name: given[name] if name == "label_column" else given[name][0]
        for name in _PLACES
        if name in given
    }
    return Places(flags.FLAGS.output_dir, flags.FLAGS.data_dir, values)


def read_experiment(name: str) -> Experiment:
    """Returns an experiment of the tables or a sweep, narrowed by the flags."""
    given = _given()
    if name == "sweep":
        experiment = _sweep(given)
    else:
        experiment = PROFILES[flags.FLAGS.profile][name]
        methods = given.get("tuning")
        arms = [each for each in experiment.arms if not methods or each.method in methods]
        if not arms:
            raise UserError(f"--tuning={','.join(methods or ())}: {name} has no such method")
        experiment = dataclasses.replace(experiment, arms=tuple(arms))
    changes: dict[str, Any] = {}
    if "task" in given:
        changes["tasks"] = given["task"]
    if "bert" in given:
        changes["bert"] = given["bert"][0]
    if "seed" in given:
        changes["seeds"] = given["seed"]
    tried = {flag: values for flag, values in given.items() if flag not in _NOT_TRIED}
    changes["arms"] = tuple(_narrow(arm, tried) for arm in experiment.arms)
    return dataclasses.replace(experiment, **changes)


def _narrow(arm: Arm, tried: Mapping[str, tuple[Any, ...]]) -> Arm:
    """Returns the method with other values, of the flags that it has."""
    tuning = {**METHODS.get(arm.method, {}), **arm.fixed}.get("tuning")
    grid = dict(arm.grid)
    for flag, values in tried.items():
        is_other = flag.startswith("adapter_") and tuning != "adapters"
        if not is_other and not (flag == "top_k" and tuning != "top_k"):
            grid[flag] = values
    return dataclasses.replace(arm, grid=grid)


def _sweep(given: Mapping[str, tuple[Any, ...]]) -> Experiment:
    if ("task" in given) == ("train_file" in given):
        raise UserError("expected either --task, or files of your own such as --train_file")
    methods = given.get("tuning", ("adapters",))
    tasks = given.get("task", given.get("name", ("own files",)))
    return Experiment("A sweep", tasks, "minilm", tuple(Arm(each) for each in methods), seeds=(0,))
