"""Random task packs on the tiny BERT, and what their models answer."""

import os

import numpy as np
import tensorflow as tf

from adapter_bert_tf.base.load import find_base, load_encoder
from adapter_bert_tf.encoder.adapter import AdapterConfig
from adapter_bert_tf.heads.classification import ClassificationHead
from adapter_bert_tf.heads.regression import RegressionHead
from adapter_bert_tf.pack.model import load_pack, save_pack
from adapter_bert_tf.pack.pack import read_pack
from adapter_bert_tf.serve.model import ServedModel
from adapter_bert_tf.serve.service import read_service
from adapter_bert_tf.serve.signatures import make_signatures
from adapter_bert_tf.text.inputs import encode, pad
from adapter_bert_tf.text.tokenizer import Tokenizer
from adapter_bert_tf.tuning.methods import Tuning
from adapter_bert_tf.tuning.task_model import TaskModel

# A pair for tasks with pairs; for the others it is there to be ignored.
TEXTS = ["w1 w2 w3", "w4", "w5 w6 w7 w8 w9 w10 w11 w12 w13 w14 w15 w16 w17", "w3 w2 w1"]
PAIRS = ["w7 w8", "w9 w9 w9 w9 w9 w9 w9 w9 w9 w9 w9 w9", "w10", "w11 w12"]


def make_pack(
    bert: str,
    folder,
    name: str | None = None,
    adapter: AdapterConfig | None = AdapterConfig(size=4),
    classes: int | None = 2,
    tuning: Tuning = Tuning(),
    seed: int = 0,
    **inputs,
) -> str:
    """Saves a pack of which everything that is tuned is random; without classes for a value."""
    random = np.random.default_rng(seed)
    head = RegressionHead() if classes is None else ClassificationHead(classes)
    model = TaskModel(load_encoder(bert, adapter), head, tuning)
    for path, variable in model.variables_by_path().items():
        if path in tuning.trained(model.variables_by_path()):
            variable.assign_add(random.normal(size=variable.shape, scale=0.3))
    labels = [f"{name}-{i}" for i in range(classes or 0)]
    save_pack(model, folder, task=name, labels=labels, metrics={"f1": 0.5}, inputs=inputs)
    return str(folder)


def expected(bert: str, pack: str, texts=TEXTS, pairs=PAIRS) -> np.ndarray:
    """What the task's own model answers: probabilities, or values."""
    described = read_pack(pack)
    model = load_pack(load_encoder(bert, described.adapter), pack)
    inputs = encode(
        Tokenizer(model.encoder.base.vocabulary),
        tf.constant(texts),
        tf.constant(pairs) if described.inputs.get("pair") else None,
        described.inputs.get("max_seq_length", 128),
    )
    outputs = model(pad(inputs))
    return (tf.nn.softmax(outputs) if described.labels else outputs).numpy()


def serve(bert: str, packs: list[str]) -> dict:
    """The signatures of packs, without a detour over the disk."""
    service = read_service(find_base(bert), packs)
    return make_signatures(service, ServedModel(service))


def ask(signature, **request) -> dict[str, np.ndarray]:
    """Calls a signature with lists."""
    tensors = {
        name: tf.constant(values, tf.string if name in ("text", "text_pair", "task") else tf.int32)
        for name, values in request.items()
    }
    return {name: value.numpy() for name, value in signature(**tensors).items()}


def load(version: str) -> dict:
    """The signatures of an export."""
    return tf.saved_model.load(os.fspath(version)).signatures
