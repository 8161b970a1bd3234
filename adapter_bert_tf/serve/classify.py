"""The signatures for classes and numbers."""

import tensorflow as tf

from adapter_bert_tf.heads.regression import RegressionHead
from adapter_bert_tf.serve.model import ServedModel
from adapter_bert_tf.serve.requests import Requests
from adapter_bert_tf.serve.rows import Rows
from adapter_bert_tf.serve.service import Service

LABEL, SCORE, PROBABILITIES, VALUE = "label", "score", "probabilities", "value"


class Classify:
    """Answers `text` with the label of each row, or with its value.

    Args:
      service: What is served.
      model: Its model.
      requests: Reads its requests.
    """

    def __init__(self, service: Service, model: ServedModel, requests: Requests):
        self._model, self._requests = model, requests
        self._is_value = [task.kind == RegressionHead.kind for task in service.tasks]
        self._labels = service.label_table()

    def signatures(self) -> dict[str, tf.types.experimental.ConcreteFunction]:
        """The signatures by name."""

        @tf.function(autograph=False)
        def texts(**request: tf.Tensor) -> dict[str, tf.Tensor]:
            return self._answers(self._requests.rows_of_texts(request))

        @tf.function(autograph=False)
        def tokens(**request: tf.Tensor) -> dict[str, tf.Tensor]:
            return self._answers(self._requests.rows_of_tokens(request))

        return {
            "serving_default": texts.get_concrete_function(**self._requests.text_specs()),
            "tokens": tokens.get_concrete_function(**self._requests.token_specs()),
        }

    def _answers(self, rows: Rows) -> dict[str, tf.Tensor]:
        classes = self._labels.shape[1]

        def probabilities_and_value(task: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
            # Over the classes of the task, so that no other can have a share.
            found = tf.nn.softmax(logits)[:, :classes]
            missing = classes - tf.shape(found)[1]
            return tf.concat([tf.pad(found, [[0, 0], [0, missing]]), logits[:, :1]], axis=1)

        found = self._model.outputs(
            rows, "pooled_output", probabilities_and_value, width=classes + 1
        )
        found, tasks = rows.in_order(found), rows.in_order(rows.tasks)
        is_value = tf.gather(self._is_value, tasks)
        answers = {}
        if classes:
            probabilities = tf.where(is_value[:, None], 0.0, found[:, :classes])
            best = tf.argmax(probabilities, axis=1, output_type=tf.int32)
            answers = {
                LABEL: tf.gather_nd(self._labels, tf.stack([tasks, best], axis=1)),
                SCORE: tf.reduce_max(probabilities, axis=1),
                PROBABILITIES: probabilities,
            }
        if any(self._is_value):
            answers[VALUE] = tf.where(is_value, found[:, classes], 0.0)
        return answers
