"""From flags to an experiment: the tables, narrowed by what is given."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from absl import flags

from adapter_bert_tf.baseline.space import narrow as narrow_space
from adapter_bert_tf.data.sources import find_task, task_key
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.experiment.places import Places
from adapter_bert_tf.experiment.table import (
    METHODS,
    NO_BERT,
    PROFILES,
    SQUAD,
    SWEEP,
    Arm,
    Experiment,
    Search,
)
from adapter_bert_tf.flags import define
from adapter_bert_tf.flags import given as given_flags
from adapter_bert_tf.options import Option, options_of
from adapter_bert_tf.run.devices import Devices
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
    "split_seed",
    "kind",
    "regression",
    "name",
)
# Flags of a run that an experiment decides itself.
_OWN = {"output_dir", "pack", "export_dir", "do_train", "do_eval", "do_predict", "data_dir"}
_NOT_TRIED = {"task", "seed", "tuning", "bert"}
# What results are measured by: with several values of it they could not be compared.
_MEASURES = {"metric", "max_predict_examples"}
# Flags of runs that searches have, too.
_OF_SEARCHES = ("max_train_examples",)
_SQUAD_KEYS = {task_key(name) for name in (SQUAD, "SQuAD", "SQuAD v1")}
_TRUE, _FALSE = ("true", "1", "yes"), ("false", "0", "no")
_TRIALS = "Search: how many models without BERT are tried for a task."
_SPACE = "Search: fewer values of some of their choices, as hidden_layers=0,1."


def define_flags() -> None:
    """Defines the flags of runs: those about files as they are, the others with several values."""
    flags.DEFINE_string("data_dir", None, "Data: folder with the tasks' folders in it.")
    for option in _options():
        if option.name in _PLACES:
            define(option)
        else:
            flags.DEFINE_list(option.name, None, f"{option.group}: {option.help}")
    flags.DEFINE_integer("trials", None, _TRIALS, lower_bound=1)
    flags.DEFINE_multi_string("space", None, _SPACE)
    flags.FLAGS["space"].help = _SPACE  # absl adds a second line to it.


def _options() -> Iterator[Option]:
    seen = set(_OWN)
    for owner, prefix in (*option_sets(ClassifierSettings), (SquadSettings, "")):
        for name, option in options_of(owner, prefix).items():
            if name not in seen:
                seen.add(name)
                yield option


def _of_files() -> dict[str, Any]:
    """Returns the values of the flags about files that are given."""
    return given_flags(option for option in _options() if option.name in _PLACES)


def _given() -> dict[str, tuple[Any, ...]]:
    """Returns the values of the other flags that are given."""
    found = {}
    for option in (each for each in _options() if each.name not in _PLACES):
        texts = flags.FLAGS[option.name].value
        if texts is not None:
            if not texts:
                raise UserError(f"--{option.name}=: expected a value")
            # What is given twice is tried once; lists can't be keys themselves.
            values = {repr(each): each for each in (_parse(option, text) for text in texts)}
            found[option.name] = tuple(values.values())
    return found


def _parse(option: Option, text: str) -> Any:
    """Returns a value; one that is a list itself has `+` between its parts, as commas are taken."""
    if option.name == "tuning":  # Experiments have names of their own for it: see `Arm.method`.
        return text
    if option.type is bool:
        if text.lower() not in (*_TRUE, *_FALSE):
            raise UserError(f"--{option.name}={text}: expected true or false")
        return text.lower() in _TRUE
    try:
        parts = [option.type(part) for part in (text.split("+") if option.many else [text])]
    except ValueError:
        raise UserError(f"--{option.name}={text}: expected a number") from None
    return option.check(parts if option.many else parts[0])


def read_places() -> Places:
    """Returns where files are."""
    return Places(flags.FLAGS.output_dir, flags.FLAGS.data_dir, _of_files())


def _single(given: Mapping[str, tuple[Any, ...]], name: str) -> Any:
    if len(given[name]) > 1:
        shown = ",".join(map(str, given[name]))
        raise UserError(f"--{name}={shown}: expected a single value, it can't be varied")
    return given[name][0]


def read_experiment(name: str) -> Experiment:
    """Returns an experiment of the tables or a sweep, narrowed by the flags."""
    given, files = _given(), _of_files()
    found = _sweep(given, files) if name == SWEEP else _of_tables(name, given, files)
    experiment = _narrow_searches(narrow(found, given))
    _refuse_squad(name, experiment, files)
    return experiment


def _of_tables(
    name: str, given: Mapping[str, tuple[Any, ...]], files: Mapping[str, Any]
) -> Experiment:
    experiment = PROFILES[flags.FLAGS.profile][name]
    known = [each.method for each in experiment.arms]
    methods = given.get("tuning", known)
    for each in methods:
        if each not in known:
            raise UserError(f"--tuning={each}: {name} has the methods {', '.join(known)}")
    arms = tuple(each for each in experiment.arms if each.method in methods)
    experiment = dataclasses.replace(experiment, arms=arms)
    if SQUAD in experiment.tasks or "train_file" not in files:
        return experiment
    if name == "ablation" and "dev_file" not in files:
        raise UserError("ablation: expected --dev_file, the rows that it evaluates on")
    return dataclasses.replace(
        experiment,
        tasks=_own_files(given, files),
        of_tasks={},
        tests="test_file" in files,
        fixed={**experiment.fixed, **_one_dev_set(given, files)},
    )


def _own_files(given: Mapping[str, tuple[Any, ...]], files: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the name of one's own files, as that of a task."""
    if "task" in given:
        shown = ",".join(given["task"])
        raise UserError(f"--task={shown}: expected either --task, or --train_file")
    return (files.get("name", "own files"),)


def _has_search(experiment: Experiment) -> bool:
    return any(arm.search is not None for arm in experiment.arms)


def _refuse_squad(name: str, experiment: Experiment, files: Mapping[str, Any]) -> None:
    if SQUAD not in experiment.tasks:
        return
    if name in ("ablation", "additional"):
        raise UserError(f"--task={SQUAD}: {name} is for tasks with classes or values")
    if "train_file" in files and "predict_file" not in files:
        raise UserError("expected --predict_file, the questions that settings are chosen by")


def narrow(experiment: Experiment, given: Mapping[str, tuple[Any, ...]]) -> Experiment:
    """Returns the experiment with the values of flags in the place of its own."""
    # TensorFlow can't change where and how precisely it computes from one trial to the next.
    for flag in {*options_of(Devices), *_MEASURES} & given.keys():
        _single(given, flag)
    devices = {flag: _single(given, flag) for flag in options_of(Devices) if flag in given}
    tried = {flag: each for flag, each in given.items() if flag not in {*_NOT_TRIED, *devices}}
    # A single value replaces what all trials share; it counts for searches too, as grids do not.
    common = {*experiment.fixed, *(_OF_SEARCHES if _has_search(experiment) else ())}
    shared = {flag: tried.pop(flag)[0] for flag in common if len(tried.get(flag, ())) == 1}
    changes: dict[str, Any] = {"fixed": {**experiment.fixed, **shared, **devices}}
    if "task" in given:
        changes["tasks"] = tuple(map(_task_name, given["task"]))
    if "bert" in given:
        changes["bert"] = _single(given, "bert")
    if "seed" in given:
        changes["seeds"] = given["seed"]
    changes["arms"] = tuple(_narrow_arm(arm, tried) for arm in experiment.arms)
    for flag, values in tried.items():
        if not any(flag in arm.grid for arm in changes["arms"]):
            shown = ",".join(map(str, values))
            raise UserError(f"--{flag}={shown}: none of the methods has it")
    return dataclasses.replace(experiment, **changes)


def _task_name(name: str) -> str:
    """Returns the name of a task in its usual spelling."""
    return SQUAD if task_key(name) in _SQUAD_KEYS else find_task(name).name


def _narrow_arm(arm: Arm, tried: Mapping[str, tuple[Any, ...]]) -> Arm:
    """Returns the method with other values, of the flags that it has."""
    tuning = {**METHODS.get(arm.method, {}), **arm.fixed}.get("tuning")
    grid = dict(arm.grid)
    if arm.search is not None:  # It has a space of its own, not flags of runs.
        return arm
    for flag, values in tried.items():
        is_other = flag.startswith("adapter_") and tuning != "adapters"
        # What makes the method is not varied.
        if not is_other and not (flag == "top_k" and tuning != "top_k") and flag not in arm.fixed:
            grid[flag] = values
    return dataclasses.replace(arm, grid=grid)


def _narrow_searches(experiment: Experiment) -> Experiment:
    """Returns the experiment with another number of trials, and another space, of its searches."""
    trials, space = flags.FLAGS.trials, flags.FLAGS.space
    if trials is None and space is None:
        return experiment
    if not _has_search(experiment):
        flag = "space" if trials is None else "trials"
        raise UserError(f"--{flag}: expected with the method {NO_BERT}, which is searched for")

    def narrowed(search: Search) -> Search:
        return dataclasses.replace(
            search,
            trials=search.trials if trials is None else trials,
            space=narrow_space(search.space, space or ()),
        )

    arms = (
        each if each.search is None else dataclasses.replace(each, search=narrowed(each.search))
        for each in experiment.arms
    )
    return dataclasses.replace(experiment, arms=tuple(arms))


def _sweep(given: Mapping[str, tuple[Any, ...]], files: Mapping[str, Any]) -> Experiment:
    if ("task" in given) == ("train_file" in files):
        raise UserError("expected either --task, or files of your own such as --train_file")
    methods = given.get("tuning", ("adapters",))
    for each in methods:
        if each not in METHODS:
            raise UserError(f"--tuning={each}: expected one of {', '.join(METHODS)}")
    return Experiment(
        "A sweep",
        given["task"] if "task" in given else _own_files(given, files),
        "minilm",
        tuple(Arm(each) for each in methods),
        seeds=(0,),
        fixed=_one_dev_set(given, files),
        tests="test_file" in files or "task" in given,
    )


def _one_dev_set(given: Mapping[str, tuple[Any, ...]], files: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what makes all seeds draw the same dev set, where there is no file of one."""
    is_drawn = "train_file" in files and not {"dev_file", "split_seed"} & set(files)
    return {"split_seed": given.get("seed", (0,))[0]} if is_drawn else {}
