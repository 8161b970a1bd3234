"""Serving: exports many tasks on one base as a single SavedModel for TF Serving."""

# The file of an export that describes it. It is named here so that it can be read without
# TensorFlow.
DESCRIPTION_FILE = "assets.extra/adapter_bert_tf.json"
# The file in which TF Serving looks for requests to warm up with.
WARMUP_FILE = "assets.extra/tf_serving_warmup_requests"
# Without it nobody takes a folder for a SavedModel.
GRAPH_FILE = "saved_model.pb"
