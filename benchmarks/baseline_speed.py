"""Compares trials of the baseline without BERT with an epoch of adapters, in one process.

    python benchmarks/baseline_speed.py --data_dir=data/additional/corporate_messaging

An epoch of adapters of 64 on MiniLM, then designs that are drawn at random, and their medians.
Seconds are those of the clock; of the processor's, which other programs don't change, there is a
ratio too.
"""

import os
import statistics
import sys
import tempfile
import time
from typing import NamedTuple

import optuna
from absl import app, flags
from timing import load_line

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from adapter_bert_tf.baseline.space import SPACE, Design, narrow
from adapter_bert_tf.experiment.sampling import propose, to_distributions
from adapter_bert_tf.run.baseline import TextsOfTasks, run_baseline
from adapter_bert_tf.run.classifier import run_classifier
from adapter_bert_tf.run.settings import ClassifierSettings, make_settings

flags.DEFINE_string("task", "corporate_messaging", "The task.")
flags.DEFINE_string("data_dir", None, "Folder of the task.", required=True)
flags.DEFINE_integer("trials", 40, "Trials.")
flags.DEFINE_multi_string("space", None, "Fewer values of some choices.")
flags.DEFINE_string("cache_dir", None, "Where embeddings are kept.")
# Training examples of a run that is almost all loading and tracing.
FEW = 32
WANTED = {"frozen": 0.1, "fine-tuned": 0.3}


class Seconds(NamedTuple):
    """Seconds of the clock and of the processor."""

    clock: float
    processor: float

    @classmethod
    def now(cls) -> "Seconds":
        return cls(time.perf_counter(), time.process_time())

    @classmethod
    def since(cls, start: "Seconds") -> "Seconds":
        now = cls.now()
        return cls(now.clock - start.clock, now.processor - start.processor)


def _settings(folder: str, name: str, **more) -> ClassifierSettings:
    values = flags.FLAGS
    cache = values.cache_dir or folder
    given = {"task": values.task, "data_dir": values.data_dir, "cache_dir": cache}
    given["output_dir"] = os.path.join(folder, name)
    return make_settings(ClassifierSettings, {**given, **more})


def main(_):
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        texts, settings = TextsOfTasks(), _settings(folder, "unused")
        epoch = _epoch(folder)
        print(f"epoch of adapters: {epoch.clock:.1f} s; {load_line()}", flush=True)
        distributions = to_distributions(narrow(SPACE, flags.FLAGS.space or ()))
        seconds: dict[str, list[Seconds]] = {kind: [] for kind in WANTED}
        for number in range(flags.FLAGS.trials):
            design = Design(**propose([], distributions, "random", [0, number]))
            texts(settings).features.prepare(design)  # What all trials share is not a trial's.
            start = Seconds.now()
            if not run_baseline(_settings(folder, f"trial{number}"), design, texts):
                return
            seconds["fine-tuned" if design.fine_tune else "frozen"].append(Seconds.since(start))
            if (number + 1) % 5 == 0:
                _print(seconds, epoch)


def _epoch(folder: str) -> Seconds:
    """Returns what an epoch takes, without loading and tracing."""
    seconds = []
    for rows in (FEW, None):
        given = {"num_train_epochs": 1.0, "max_train_examples": rows, "do_train": True}
        start = Seconds.now()
        run_classifier(_settings(folder, f"adapters{rows}", **given))
        seconds.append(Seconds.since(start))
    few, whole = seconds
    return Seconds(whole.clock - few.clock, whole.processor - few.processor)


def _print(seconds: dict[str, list[Seconds]], epoch: Seconds) -> None:
    for kind, found in seconds.items():
        if found:
            clock = statistics.median(each.clock for each in found)
            processor = statistics.median(each.processor for each in found)
            print(
                f"{kind}: {clock / epoch.clock:.3f} of an epoch ({clock:.2f} s, median of "
                f"{len(found)} trials); wanted at most {WANTED[kind]}; "
                f"of the processor {processor / epoch.processor:.3f}",
                flush=True,
            )


if __name__ == "__main__":
    app.run(main)
