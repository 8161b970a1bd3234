"""The signature that tells what is served."""

import numpy as np
import tensorflow as tf

from adapter_bert_tf.serve.requests import TASK
from adapter_bert_tf.serve.service import Service

REQUEST, LABELS = "request", "labels"


def list_tasks(service: Service) -> tf.types.experimental.ConcreteFunction:
    """Answers each row of `request`, whatever it is, with all tasks and their labels.

    An answer for each row of an input, because TF Serving's batching knows nothing else.
    """
    names = np.array([task.name for task in service.tasks])
    labels = service.label_table()

    @tf.function(autograph=False)
    def tasks(**request: tf.Tensor) -> dict[str, tf.Tensor]:
        rows = tf.shape(request[REQUEST])[0]
        return {
            TASK: tf.tile(names[None], [rows, 1]),
            LABELS: tf.tile(labels[None], [rows, 1, 1]),
        }

    return tasks.get_concrete_function(**{REQUEST: tf.TensorSpec([None], tf.string, REQUEST)})
