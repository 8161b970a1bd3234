"""A worker: our model. Its argument is a `Case`."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# As in our programs: see entry.py.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")

import numpy as np
import tensorflow as tf
from pipe import serve
from sizes import Case

from adapter_bert_tf import (
    AdapterBertEncoder,
    AdapterConfig,
    ClassificationHead,
    TaskModel,
    Tuning,
    create_optimizer,
)
from adapter_bert_tf.data.batches import Batches
from adapter_bert_tf.data.records import LABELS
from adapter_bert_tf.encoder.activations import gelu, gelu_erf
from adapter_bert_tf.text.inputs import IDS, SEGMENTS


def make_model(case: Case) -> TaskModel:
    encoder = AdapterBertEncoder(
        vocab_size=case.words,
        hidden_size=case.width,
        num_layers=case.layers,
        num_attention_heads=case.heads,
        inner_dim=4 * case.width,
        max_sequence_length=max(512, case.length),
        type_vocab_size=2,
        inner_activation=gelu_erf if case.erf else gelu,
        adapter=AdapterConfig(size=case.adapter) if case.adapter else None,
    )
    tuning = Tuning("adapters" if case.adapter else "full")
    model = TaskModel(encoder, ClassificationHead(2), tuning)
    model.compile(optimizer=create_optimizer(1e-4, 1000, 100), loss=model.head.loss)
    return model


def make_batches(case: Case) -> Batches:
    """One batch without padding, whose length the graph does not know, as in a run."""
    ids = np.random.default_rng(0).integers(1000, case.words, [case.rows, case.length])
    rows = tf.RaggedTensor.from_tensor(tf.constant(ids, tf.int32))
    labels = tf.range(case.rows, dtype=tf.int64) % 2
    columns = {IDS: rows, SEGMENTS: tf.zeros_like(rows), LABELS: labels}
    return Batches(columns, case.rows, [case.length, case.length + 1])


def main() -> None:
    case = Case.from_argument()
    model, batches = make_model(case), make_batches(case)
    endless = iter(batches.dataset(batches.by_length()).repeat())
    train = model.make_train_function()
    inputs = next(endless)[0]
    forward = tf.function(
        lambda inputs: model(inputs, training=False),
        input_signature=[{name: tf.TensorSpec([None, None], tf.int32) for name in inputs}],
    )
    serve(
        {
            "step": lambda: train(endless)["loss"].numpy(),
            "forward": lambda: forward(inputs).numpy(),
        },
        trained=model.tuning.count(model.variables_by_path())[0],
    )


if __name__ == "__main__":
    main()
