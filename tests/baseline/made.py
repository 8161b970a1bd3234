"""Text modules that are made on the spot, and texts for them."""

import os
import pathlib
import random

import numpy as np
import tensorflow as tf

ROWS, WIDTH = 40, 6
# Texts like those of `texts_and_labels`.
NO, YES = "Word1! Word2! word3 Word4! Word5!", "Word20! word21 Word22! Word23! word18"


def table(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=[ROWS, WIDTH]).astype(np.float32)


def _pool(texts: tf.Tensor, variable: tf.Variable) -> tf.Tensor:
    words = tf.strings.split(texts)
    ids = words.with_values(tf.strings.to_hash_bucket_fast(words.flat_values, ROWS))
    return tf.reduce_sum(
        tf.RaggedTensor.from_row_splits(tf.gather(variable, ids.flat_values), ids.row_splits),
        axis=1,
    )


def expected(texts: list[str]) -> np.ndarray:
    """What both modules return, without TensorFlow's graph."""
    rows = [
        [int(tf.strings.to_hash_bucket_fast(word, ROWS)) for word in text.split()] for text in texts
    ]
    return np.stack([table()[row].sum(axis=0) if row else np.zeros(WIDTH) for row in rows])


class _Second(tf.Module):
    def __init__(self):
        super().__init__()
        self.table = tf.Variable(table())

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def __call__(self, texts):
        return _pool(texts, self.table)


def write_second_format(folder) -> str:
    """Writes a SavedModel of TensorFlow 2."""
    tf.saved_model.save(_Second(), str(folder))
    return str(folder)


def write_first_format(folder, use_resource: bool = True) -> str:
    """Writes a module in TF-Hub's first format, as the paper's five are."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        texts = v1.placeholder(tf.string, [None], "texts")
        variable = v1.get_variable("table", initializer=table(), use_resource=use_resource)
        words = v1.string_split(texts)
        ids = tf.sparse.SparseTensor(
            words.indices, tf.strings.to_hash_bucket_fast(words.values, ROWS), words.dense_shape
        )
        looked_up = v1.nn.embedding_lookup_sparse(variable, ids, None, combiner="sum")
        missing = tf.shape(texts)[0] - tf.shape(looked_up)[0]
        outputs = tf.pad(looked_up, [[0, missing], [0, 0]])
        outputs = tf.ensure_shape(outputs, [None, WIDTH])
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.Builder(str(folder))
        signature = v1.saved_model.predict_signature_def({"text": texts}, {"default": outputs})
        builder.add_meta_graph_and_variables(session, [], {"default": signature})
        builder.add_meta_graph(["train"], {"default": signature})
        builder.save()
    with open(os.path.join(folder, "tfhub_module.pb"), "wb") as file:
        file.write(b"\x08\x03")
    return str(folder)


def texts_and_labels(rows: int, seed: int = 0) -> tuple[list[str], np.ndarray]:
    """Texts of words that tell their label, with capitals and marks."""
    generator = random.Random(seed)
    labels = np.arange(rows) % 2
    texts = []
    for label in labels:
        words = generator.choices(range(12 * label, 12 * label + 12), k=generator.randint(1, 9))
        texts.append(" ".join(f"Word{word}!" if word % 3 else f"word{word}" for word in words))
    return texts, labels


def write_csv(path: pathlib.Path, rows: int, seed: int) -> str:
    texts, labels = texts_and_labels(rows, seed)
    lines = [
        "text,label",
        *(f"{t},{'yes' if y else 'no'}" for t, y in zip(texts, labels, strict=True)),
    ]
    path.write_text("\n".join(lines) + "\n")
    return str(path)
