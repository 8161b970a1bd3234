"""Does trials, one after another, in one process."""

import contextlib
import dataclasses
import functools
import os
import shutil
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf
import tf_keras

from adapter_bert_tf import internals
from adapter_bert_tf.base.base import Base, Tensors
from adapter_bert_tf.base.load import find_base
from adapter_bert_tf.baseline.space import Design
from adapter_bert_tf.data.task import DEV, TEST
from adapter_bert_tf.encoder import fast
from adapter_bert_tf.errors import DiskError, UserError, file_error, first_line
from adapter_bert_tf.experiment.ablation import Span, ablate, write_ablation
from adapter_bert_tf.experiment.engine import Claim, Engine
from adapter_bert_tf.experiment.places import Places
from adapter_bert_tf.experiment.records import (
    RUNNING,
    WAITING,
    Record,
    in_words,
    read_records,
    write_records,
)
from adapter_bert_tf.experiment.select import choose
from adapter_bert_tf.experiment.storage import LostStorageError, TakenError
from adapter_bert_tf.experiment.table import NO_BERT, SQUAD, Experiment
from adapter_bert_tf.experiment.trials import Asked, Trial, count_trials, searches
from adapter_bert_tf.heads.head import Head
from adapter_bert_tf.pack.pack import read_pack, read_tensors, write_pack
from adapter_bert_tf.run.baseline import TextsOfTasks, run_baseline
from adapter_bert_tf.run.classifier import read_dev, run_classifier
from adapter_bert_tf.run.common import base_arguments, build_model
from adapter_bert_tf.run.folder import RunFolder
from adapter_bert_tf.run.settings import ClassifierSettings, RunSettings, make_settings
from adapter_bert_tf.run.source import find_source, split_names
from adapter_bert_tf.run.squad import run_squad
from adapter_bert_tf.task import load_task
from adapter_bert_tf.tuning.task_model import TaskModel

_LOG = "log.txt"
# Seconds between two looks at what other workers have done.
_PAUSE = 2
# Models that are kept for trials of the same design.
_KEPT = 3


class StoppedError(Exception):
    """A signal has ended a trial, which was saved where it was."""


class _PrunedError(Exception):
    pass


class Models:
    """Makes the models of trials, and uses one again for those of the same design.

    Then the step that was traced and compiled for the first of them serves all. Only the latest
    few are kept: each has a base of its own.
    """

    def __init__(self):
        self._models: dict[str, TaskModel] = {}
        self._bases: dict[tuple, Base] = {}

    def __call__(
        self,
        settings: RunSettings,
        kind: type[Head],
        labels: tuple[str, ...],
        strategy: tf.distribute.Strategy,
    ) -> TaskModel:
        """Returns a model that is as good as new."""
        if fast.is_on() and strategy.num_replicas_in_sync == 1:
            # All dropouts have generators of their own: TensorFlow need not be seeded.
            internals.seed_keras(settings.seed)
        else:
            tf_keras.utils.set_random_seed(settings.seed)
        fresh = build_model(settings, kind, labels, strategy, self._find_base)
        head = fresh.head.kind, fresh.head.settings()
        base = base_arguments(settings)
        key = repr((base, settings.adapter, settings.devices, fresh.tuning, head))
        model = self._models.pop(key, fresh)
        if model is not fresh:
            model.restart(fresh)
        self._models[key] = model
        for old in list(self._models)[:-_KEPT]:
            del self._models[old]
        return model

    def _find_base(self, *arguments: Any) -> Base:
        """Finds a base, which is read and makes its tokenizer once for all trials."""
        if arguments not in self._bases:
            base = find_base(*arguments)
            self._bases = {arguments: dataclasses.replace(base, read=_read_once(base))}
        return self._bases[arguments]


def _read_once(base: Base) -> Callable[[], Tensors]:
    tensors = functools.cache(lambda: list(base.read()))
    return lambda: iter(tensors())


def work(experiment: Experiment, engine: Engine, places: Places) -> None:
    """Does trials until none is left, and waits for those that other workers do."""
    models, texts = Models(), TextsOfTasks()
    last: Trial | None = None
    while True:
        records = engine.records()
        asked = Asked(experiment, records)
        engine.add(asked.trials)
        for each in searches(experiment):
            engine.search(*each)
        claim = engine.claim(asked.has, last)
        if claim is not None:
            last = claim.trial
            print(_progress(experiment, filter(asked.has, records)), end=" ")
            try:
                _do(claim, places, models, texts)
            except TakenError:
                claim.drop()
                print("  was silent for too long: others do it again", flush=True)
            records = engine.records()
            write_records(places.folder, records)
            _drop_worse(places, records, claim.trial)
        # What others have ended in between may ask for more trials: those of `records` may not.
        elif _are_over(filter(asked.has, records)) and _are_over(
            filter(asked.has, engine.records())
        ):
            break
        else:
            time.sleep(_PAUSE)


def _are_over(records: Iterable[Record]) -> bool:
    return all(each.state not in (WAITING, RUNNING) for each in records)


def _progress(experiment: Experiment, records: Iterable[Record]) -> str:
    """Says how many trials are over, and how long the others may take."""
    total = sum(count_trials(experiment).values())
    over = [each for each in records if each.state not in (WAITING, RUNNING)]
    seconds = [each.seconds for each in over if each.seconds]
    done = f"{len(over)} of {total} done"
    if not seconds:
        return f"[{done}]"
    minutes = statistics.fmean(seconds) * (total - len(over)) / 60
    return f"[{done}, about {minutes:.0f} min]"


def _do(claim: Claim, places: Places, models: Models, texts: TextsOfTasks) -> None:
    trial = claim.trial
    folder = places.run_folder(trial)
    settings = in_words({**trial.settings, "seed": trial.seed})
    print(f"{trial.task} {trial.method} {settings}", flush=True)
    try:
        results = _run(trial, places, models, texts, claim)
    except _PrunedError:
        claim.prune()
    except StoppedError:
        claim.put_back()
        raise
    except (LostStorageError, TakenError):
        raise
    except Exception as error:
        told = _as_disk_error(error, folder)
        if told is not None:  # The next trial would not fare better.
            claim.put_back()
            raise told from None
        _fail(claim, error, folder)
    else:
        print(f"  {results['metric']} {results['value']:.4f}", flush=True)
        claim.complete(results.pop("value"), folder=places.relative(folder), **results)


def _as_disk_error(error: Exception, folder: str) -> UserError | None:
    """Returns what is wrong with the disk; None if it is something else."""
    if isinstance(error, OSError):
        return file_error(folder, error)
    told = file_error(folder, error) if isinstance(error, tf.errors.OpError) else error
    return told if isinstance(told, DiskError) else None


def _fail(claim: Claim, error: Exception, folder: str) -> None:
    reason = first_line(error)
    if not isinstance(error, UserError | MemoryError | tf.errors.OpError):
        reason = f"{type(error).__name__}: {reason}"
        with _log(folder):
            traceback.print_exception(error, file=sys.stdout)
    print(f"  failed: {reason}", flush=True)
    claim.fail(reason)


def _drop_worse(places: Places, records: list[Record], trial: Trial) -> None:
    """Removes the packs of a search that are not the best: there may be thousands of them."""
    if trial.method != NO_BERT:
        return
    of_search = [each for each in records if (each.task, each.method) == (trial.task, NO_BERT)]
    for best in choose(of_search).values():
        for record in of_search:
            if record.is_complete and record is not best.first:
                shutil.rmtree(places.pack(record), ignore_errors=True)


def _run(
    trial: Trial, places: Places, models: Models, texts: TextsOfTasks, claim: Claim
) -> dict[str, Any]:
    """Does the run of a trial, or what is left of it, and returns its results."""
    settings = places.settings(trial)
    start = time.monotonic()

    def watch(epoch: int, value: float) -> None:
        if claim.report(epoch, value):
            raise _PrunedError

    with _log(settings.output_dir):
        run: Callable = run_classifier if isinstance(settings, ClassifierSettings) else run_squad
        if trial.method == NO_BERT and isinstance(settings, ClassifierSettings):
            done = run_baseline(settings, Design(**trial.settings), texts, watch)
        else:
            done = run(settings, make=models, watch=watch) is not None
    if not done:
        raise StoppedError
    found = RunFolder(settings.output_dir).results()
    metric = "f1" if run is run_squad else next(iter(found["metrics"]), None)
    if metric not in found["metrics"]:
        raise UserError("it was not scored: expected a dev set with answers or labels")
    return {
        "value": found["metrics"][metric],
        "metric": metric,
        "trained": found["trained_parameters"],
        "total": found["total_parameters"],
        "steps": found["steps"],
        "seconds": round(time.monotonic() - start, 1),
    }


@contextlib.contextmanager
def _log(folder: str):
    """Writes what a run prints to a file of its own."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, _LOG)
    with open(path, "a", encoding="utf-8") as file, contextlib.redirect_stdout(file):
        yield


def score_tests(experiment: Experiment, engine: Engine, places: Places) -> None:
    """Scores what was chosen by validation on the test sets, and nothing else."""
    if not experiment.tests:
        return
    for point in choose(engine.records()).values():
        for record in point.records:
            # SQuAD keeps its test set to itself.
            if record.task != SQUAD and record.test is None and _is_here(record, places):
                print(f"{record.task} {record.method} seed={record.seed}: test", flush=True)
                value = _test(record, places)
                if value is not None:
                    engine.note_test(record, value)


def _is_here(record: Record, places: Places) -> bool:
    """Whether a trial's pack is on this machine: others may have folders of their own."""
    is_here = os.path.isdir(places.pack(record))
    if not is_here:
        print(f"{places.pack(record)}: not on this machine, so what it gives is left to others")
    return is_here


def _test(record: Record, places: Places) -> float | None:
    """Returns a trial's score on its test set; None if that has no labels."""
    # A search has its modules from the command line.
    task = load_task(places.pack(record), trust_module=True)
    values = places.of_task(record.task)
    own = values.pop("test_file", None)
    split, asked = TEST, {"do_predict": True}
    if own is not None:
        # The test set of a run is only predicted, so this one is read as a set to evaluate on.
        split, asked = DEV, {"do_eval": True}
        values |= {"dev_file": own, "train_file": None}
    values |= {**asked, "output_dir": os.path.dirname(places.pack(record))}
    settings = make_settings(ClassifierSettings, values)
    try:
        source = find_source(settings, task.head.kind, task.labels)
        read = source.read(split_names(settings, source, split)[0])
    except UserError as error:
        print(f"  not scored on the test set: {error}", flush=True)
        return None
    if read.labels is None:
        print("  its test set has no labels", flush=True)
        return None
    return task.score(read)[record.metric]


def keep_best(folder: str, place: str) -> None:
    """Copies the pack that a search chose, with its score on the test set.

    Args:
      folder: Folder of the experiment, which has one task and one method.
      place: Folder of the copy.
    """
    (point,) = choose(read_records(folder)).values()
    found = Places(folder).pack(point.first)
    if not os.path.isdir(found):
        raise UserError(f"{found}: the best one was trained elsewhere, and is kept there")
    pack, test = read_pack(found), point.first.test
    tested = {} if test is None else {f"test_{point.first.metric}": test}
    kept = dataclasses.replace(pack, metrics={**pack.metrics, **tested})
    write_pack(place, kept, read_tensors(found, pack))


def ablate_all(experiment: Experiment, engine: Engine, places: Places) -> None:
    """Scores the chosen models without the adapters of every span of layers."""
    spans: list[Span] = []
    for point in choose(engine.records()).values():
        record = point.first
        if not _is_here(record, places):
            continue
        print(f"{record.task}: spans of layers without adapters", flush=True)
        folder = os.path.dirname(places.pack(record))
        values = {**places.of_task(record.task), "output_dir": folder, "do_eval": True}
        settings = make_settings(ClassifierSettings, {**values, "bert": experiment.bert})
        batches = read_dev(settings)
        task = load_task(places.pack(record))
        spans += ablate(task, batches, record.metric)
    write_ablation(places.folder, spans)
