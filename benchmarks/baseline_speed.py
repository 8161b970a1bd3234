"""Compares trials of the baseline without BERT with an epoch of adapters, in one process.

    python benchmarks/baseline_speed.py --data_dir=data/additional/corporate_messaging

An epoch of adapters of 64 on MiniLM, then designs that are drawn at random, then their medians.
"""

import os
import statistics
import sys
import tempfile
import time

from absl import app, flags

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from adapter_bert_tf.baseline.space import SPACE, Design, narrow
from adapter_bert_tf.data.task import TRAIN
from adapter_bert_tf.experiment.sampling import propose, to_distributions
from adapter_bert_tf.experiment.worker import Models
from adapter_bert_tf.run.baseline import TextsOfTasks, run_baseline
from adapter_bert_tf.run.classifier import run_classifier
from adapter_bert_tf.run.folder import RunFolder
from adapter_bert_tf.run.settings import ClassifierSettings, make_settings

flags.DEFINE_string("task", "corporate_messaging", "The task.")
flags.DEFINE_string("data_dir", None, "Folder of the task.", required=True)
flags.DEFINE_integer("trials", 40, "Trials.")
flags.DEFINE_multi_string("space", None, "Fewer values of some choices.")
flags.DEFINE_string("cache_dir", None, "Where embeddings are kept.")
# Training examples that an epoch is measured with.
PART = 480
WANTED = {"frozen": 0.1, "fine-tuned": 0.3}


def _settings(folder: str, name: str, **more) -> ClassifierSettings:
    values = flags.FLAGS
    cache = values.cache_dir or folder
    given = {"task": values.task, "data_dir": values.data_dir, "cache_dir": cache}
    given["output_dir"] = os.path.join(folder, name)
    return make_settings(ClassifierSettings, {**given, **more})


def main(_):
    with tempfile.TemporaryDirectory() as folder:
        texts, settings = TextsOfTasks(), _settings(folder, "unused")
        rows = len(texts(settings).labels[TRAIN])
        epoch = _epoch(folder, rows)
        print(f"epoch of adapters: {epoch:.1f} s", flush=True)
        distributions = to_distributions(narrow(SPACE, flags.FLAGS.space or ()))
        seconds: dict[str, list[float]] = {kind: [] for kind in WANTED}
        for number in range(flags.FLAGS.trials):
            design = Design(**propose([], distributions, "random", [0, number]))
            texts(settings).features.prepare(design)  # What all trials share is not a trial's.
            start = time.monotonic()
            run_baseline(_settings(folder, f"trial{number}"), design, texts)
            seconds["fine-tuned" if design.fine_tune else "frozen"].append(time.monotonic() - start)
            if (number + 1) % 5 == 0:
                _print(seconds, epoch)


def _epoch(folder: str, rows: int) -> float:
    """Returns the seconds of an epoch, from those of a part of it, without loading and tracing."""
    some = {"num_train_epochs": 1.0, "max_train_examples": PART, "do_eval": False}
    seconds = []
    models = Models()  # The second run uses the step that the first one traced.
    for number in range(2):
        settings = _settings(folder, f"adapters{number}", **some, do_train=True, seed=number)
        run_classifier(settings, make=models)
        seconds.append(RunFolder(settings.output_dir).results()["seconds"])
    return seconds[-1] * rows / PART


def _print(seconds: dict[str, list[float]], epoch: float) -> None:
    for kind, found in seconds.items():
        if found:
            median = statistics.median(found)
            print(
                f"{kind}: {median / epoch:.3f} of an epoch ({median:.2f} s, median of {len(found)} "
                f"trials); wanted at most {WANTED[kind]}",
                flush=True,
            )


if __name__ == "__main__":
    app.run(main)
