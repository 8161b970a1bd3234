"""Requests that TF Serving runs before it answers others."""

import os

import tensorflow as tf
from tensorflow_serving.apis import model_pb2, predict_pb2, prediction_log_pb2

from adapter_bert_tf.serve.examples import Examples, as_tensors

FILE = "tf_serving_warmup_requests"


def write_warmup(folder: str, model: str, examples: Examples) -> None:
    """Writes a request for each signature, so that the first user need not wait."""
    with tf.io.TFRecordWriter(os.path.join(folder, FILE)) as writer:
        for signature, inputs in examples.items():
            request = predict_pb2.PredictRequest(
                model_spec=model_pb2.ModelSpec(name=model, signature_name=signature),
                inputs={
                    name: tf.make_tensor_proto(value) for name, value in as_tensors(inputs).items()
                },
            )
            log = prediction_log_pb2.PredictionLog(
                predict_log=prediction_log_pb2.PredictLog(request=request)
            )
            writer.write(log.SerializeToString())
