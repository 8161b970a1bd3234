"""A classifier run, from a text file to a tuned, scored task."""

import tensorflow as tf
import tf_keras

from adapter_bert_tf.data.batches import Batches
from adapter_bert_tf.data.records import LABELS
from adapter_bert_tf.data.task import CLASSIFICATION, DEV, TEST, TRAIN
from adapter_bert_tf.errors import UserError, some
from adapter_bert_tf.heads.classification import ClassificationHead
from adapter_bert_tf.heads.head import Head
from adapter_bert_tf.heads.regression import RegressionHead
from adapter_bert_tf.pack.pack import read_pack
from adapter_bert_tf.run.classifier_settings import ClassifierSettings
from adapter_bert_tf.run.devices import is_tpu
from adapter_bert_tf.run.metrics import compute_metrics
from adapter_bert_tf.run.outputs import compute_outputs
from adapter_bert_tf.run.run import Evaluate, Run, TaskDescription
from adapter_bert_tf.run.submission import write_submission
from adapter_bert_tf.run.task_data import TaskData, check_splits, find_source, split_names
from adapter_bert_tf.text.inputs import encode, pad


class ClassifierRun(Run):
    """A run for a task of classes or values.

    Args:
      settings: What to do.
      strategy: Where to compute.
    """

    def __init__(self, settings: ClassifierSettings, strategy: tf.distribute.Strategy):
        super().__init__(settings, strategy)
        self.settings: ClassifierSettings = self.with_pack(settings)
        self.source = find_source(self.settings)
        check_splits(self.settings, self.source)
        task = self.source.task
        inputs = {"max_seq_length": self.settings.max_seq_length, "pair": task.pair is not None}
        self.task = TaskDescription(task.name, task.kind, self.source.labels, inputs)
        self._check_labels()
        self.model = self.make_model(self.settings)
        self.data = TaskData(
            self.settings, self.source, self.model.encoder.base, is_tpu(self.strategy)
        )

    def run(self) -> bool:
        """Does what the settings ask; False if a signal ended it early."""
        settings = self.settings
        if settings.do_train and not self.train(settings):
            return False
        if settings.do_eval and not settings.do_train:
            self.finish(settings, self._evaluate(self._dev_batches()))
        if settings.do_predict:
            self._predict()
        self.export(settings)
        return True

    def classify(self, texts: list[str]) -> list[tuple[str, float]]:
        """Returns the most probable label of each text, and its probability."""
        inputs = encode(self.data.tokenizer, tf.constant(texts), None, self.settings.max_seq_length)
        probabilities = tf.nn.softmax(self.model(pad(inputs))).numpy()
        best = probabilities.argmax(axis=-1)
        return [
            (self.source.labels[label], float(row[label]))
            for label, row in zip(best, probabilities, strict=True)
        ]

    def _check_labels(self) -> None:
        folder = self.settings.pack
        theirs = read_pack(folder).labels if folder else []
        if theirs and tuple(theirs) != self.source.labels:
            ours = some(self.source.labels)
            raise UserError(f"{folder}: has the labels {some(theirs)}; the task has {ours}")

    def make_head(self, dropout: float) -> Head:
        if self.task.kind == CLASSIFICATION:
            return ClassificationHead(len(self.task.labels), dropout)
        return RegressionHead(dropout)

    def training_batches(self) -> Batches:
        return self.data.batches(TRAIN, self.settings.train_batch_size)

    def training_metrics(self) -> list[tf_keras.metrics.Metric]:
        classes = self.task.kind == CLASSIFICATION
        return [tf_keras.metrics.SparseCategoricalAccuracy("accuracy")] if classes else []

    def evaluation(self) -> tuple[Evaluate | None, str | None]:
        dev = self._dev_batches()
        if not dev:
            return None, None
        metric = self.source.task.metrics[0]
        first = next(iter(dev))
        return lambda: self._evaluate(dev), metric if len(dev) < 2 else f"{first}_{metric}"

    def _dev_batches(self) -> dict[str, Batches]:
        names = split_names(self.settings, self.source, DEV)
        return {name: self.data.batches(name, self.settings.eval_batch_size) for name in names}

    def _evaluate(self, dev: dict[str, Batches]) -> dict[str, float]:
        metrics: dict[str, float] = {}
        for name, batches in dev.items():
            labels = batches.columns[LABELS].numpy()
            outputs = compute_outputs(self.model, batches)
            values = compute_metrics(self.source.task.metrics, labels, outputs)
            prefix = f"{name}_" if len(dev) > 1 else ""
            metrics |= {f"{prefix}{metric}": value for metric, value in values.items()}
        return metrics

    def _predict(self) -> None:
        task = self.source.task
        for name in split_names(self.settings, self.source, TEST):
            batches = self.data.batches(name, self.settings.predict_batch_size)
            outputs = compute_outputs(self.model, batches)
            probabilities = tf.nn.softmax(outputs).numpy() if outputs.ndim > 1 else outputs[:, None]
            lines = ["\t".join(str(value) for value in row) + "\n" for row in probabilities]
            suffix = name.removeprefix(TEST)
            self.folder.write(f"test_results{suffix}.tsv", "".join(lines))
            if name in task.submission:
                write_submission(self.folder, task, name, outputs)
