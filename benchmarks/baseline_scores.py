"""Scores TF-IDF with logistic regression on the splits of our tasks, beside found baselines.

    python benchmarks/baseline_scores.py --data_dir=data --found=baselines sms_spam airline

`--found` is a folder with the output folders of `python -m adapter_bert_tf.baseline`, named after
their tasks. Settings of scikit-learn are its defaults, and it trains on the same rows.
"""

import os
import sys

from absl import app, flags

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from adapter_bert_tf.data.task import TEST, TRAIN
from adapter_bert_tf.experiment.places import Places
from adapter_bert_tf.experiment.records import read_records
from adapter_bert_tf.experiment.select import choose
from adapter_bert_tf.run.settings import ClassifierSettings, make_settings
from adapter_bert_tf.run.source import find_source

flags.DEFINE_string("data_dir", None, "Folder with the tasks' folders.", required=True)
flags.DEFINE_string("found", None, "Folder with the searches' folders.", required=True)
flags.DEFINE_integer("max_train_examples", None, "Train on so many examples, as the search did.")


def main(arguments):
    places = Places("", flags.FLAGS.data_dir)
    print("| task | TF-IDF, test | no BERT, test | module | trials | minutes |")
    print("|-|-|-|-|-|-|")
    for task in arguments[1:]:
        given = {**places.of_task(task), "output_dir": "unused"}
        source = find_source(make_settings(ClassifierSettings, given))
        train, test = source.read(TRAIN), source.read(TEST)
        train = train.take(_rows(len(train)))
        model = make_pipeline(TfidfVectorizer(), LogisticRegression())
        model.fit(train.texts, train.labels)
        theirs = np.mean(model.predict(test.texts) == np.array(test.labels))
        records = read_records(os.path.join(flags.FLAGS.found, task))
        best = next(iter(choose(records).values())).first
        minutes = sum(each.seconds or 0 for each in records) / 60
        ours = "-" if best.test is None else f"{100 * best.test:.1f}"
        print(
            f"| {task} | {100 * theirs:.1f} | {ours} | {best.settings['module']} "
            f"| {len(records)} | {minutes:.1f} |"
        )


def _rows(total: int) -> list[int]:
    from adapter_bert_tf.data.batches import chosen_rows

    return chosen_rows(total, flags.FLAGS.max_train_examples).tolist()


if __name__ == "__main__":
    app.run(main)
