"""Scores TF-IDF with logistic regression on the splits of our tasks, beside found baselines.

    python benchmarks/baseline_scores.py --data_dir=data --found=baselines \\
        --adapters=experiments/six sms_spam airline

`--found` is a folder with the output folders of `python -m adapter_bert_tf.baseline`, named after
their tasks; `--adapters` that of the experiment `additional`. Settings of scikit-learn are its
defaults, and it trains on the same rows as the search.
"""

import os
import sys

from absl import app, flags

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from adapter_bert_tf.data.batches import chosen_rows
from adapter_bert_tf.data.task import TEST, TRAIN
from adapter_bert_tf.experiment.places import Places
from adapter_bert_tf.experiment.records import RUNNING, WAITING, Record, read_records
from adapter_bert_tf.experiment.select import choose
from adapter_bert_tf.run.settings import ClassifierSettings, make_settings
from adapter_bert_tf.run.source import find_source

flags.DEFINE_string("data_dir", None, "Folder with the tasks' folders.", required=True)
flags.DEFINE_string("found", None, "Folder with the searches' folders.", required=True)
flags.DEFINE_integer("max_train_examples", None, "Train on so many examples, as the search did.")
flags.DEFINE_string("adapters", None, "Folder of the experiment with adapters.")


def main(arguments):
    places = Places("", flags.FLAGS.data_dir)
    tuned = _tuned(flags.FLAGS.adapters)
    print("| task | TF-IDF | no BERT | its module | trials | minutes | adapters | minutes |")
    print("|-|-|-|-|-|-|-|-|")
    for task in arguments[1:]:
        given = {**places.of_task(task), "output_dir": "unused"}
        source = find_source(make_settings(ClassifierSettings, given))
        records = read_records(os.path.join(flags.FLAGS.found, task))
        records = [each for each in records if each.state not in (RUNNING, WAITING)]
        best = next(iter(choose(records).values())).first
        train, test = source.read(TRAIN), source.read(TEST)
        train = train.take(chosen_rows(len(train), flags.FLAGS.max_train_examples).tolist())
        model = make_pipeline(TfidfVectorizer(), LogisticRegression())
        model.fit(train.texts, train.labels)
        theirs = float(np.mean(model.predict(test.texts) == np.array(test.labels)))
        print(
            f"| {task} | {_percent(theirs)} | {_percent(best.test)} | {best.settings['module']} "
            f"| {len(records)} | {_minutes(records)} | {tuned.get(task, '- | -')} |",
            flush=True,
        )


def _tuned(folder: str | None) -> dict[str, str]:
    """The cells of tuned adapters, by task."""
    records = read_records(folder) if folder else []
    return {
        point.first.task: f"{_percent(point.first.test)} | {_minutes([point.first])}"
        for point in choose(records).values()
    }


def _percent(score: float | None) -> str:
    return "-" if score is None else f"{100 * score:.1f}"


def _minutes(records: list[Record]) -> str:
    return f"{sum(each.seconds or 0 for each in records) / 60:.1f}"


if __name__ == "__main__":
    app.run(main)
