"""Our Transformer layer against Model Garden's: the same weights, the same batch.

    python benchmarks/block_speed.py

Prints the ratio of the times, forward and for a training step in which the products' weights
are frozen and the LayerNorms and the input are differentiated, with dropout. Then the same for
the two operations that we compute in another way: the product of a dense layer, and dropout.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# As in our programs: see entry.py.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")

import tensorflow as tf
import tf_keras
from absl import app, flags
from official.nlp.modeling import layers
from timing import fastest, load_line

from adapter_bert_tf.encoder.activations import gelu
from adapter_bert_tf.encoder.block import AdapterEncoderBlock
from adapter_bert_tf.encoder.fast.dense import FlatDense
from adapter_bert_tf.encoder.fast.dropout import Dropout
from adapter_bert_tf.encoder.variables import is_layer_norm, variables_by_path

_BATCH = flags.DEFINE_integer("batch", 16, "Rows.")
_LENGTH = flags.DEFINE_integer("length", 128, "Tokens in a row.")
_WIDTH = flags.DEFINE_integer("width", 768, "Width of the layer; heads are 64 wide.")
_ROUNDS = flags.DEFINE_integer("rounds", 25, "Calls of each, of which the fastest counts.")


def _forward(block, inputs):
    return tf.function(lambda: block(inputs, training=False))


def _step(block, inputs):
    norms = [v for path, v in variables_by_path(block).items() if is_layer_norm(path)]

    @tf.function
    def step():
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch([inputs[0], norms])
            loss = tf.reduce_mean(tf.square(block(inputs, training=True)))
        return tape.gradient(loss, [inputs[0], norms])

    return step


def _products(inputs):
    dense = tf_keras.layers.EinsumDense("abc,cd->abd", (None, 4 * _WIDTH.value), bias_axes="d")
    layers_by_name = {"model_garden": dense, "ours": FlatDense.from_config(dense.get_config())}
    return {name: _forward(layer, inputs[0]) for name, layer in layers_by_name.items()}


def _dropouts(inputs):
    layers_by_name = {"model_garden": tf_keras.layers.Dropout(0.1), "ours": Dropout(0.1)}
    return {
        name: tf.function(lambda layer=layer: layer(inputs[0], training=True))
        for name, layer in layers_by_name.items()
    }


def main(_):
    width = _WIDTH.value
    settings = {
        "num_attention_heads": width // 64,
        "inner_dim": 4 * width,
        "inner_activation": gelu,
        "output_dropout": 0.1,
        "attention_dropout": 0.1,
        "kernel_initializer": "glorot_uniform",
    }
    inputs = [
        tf.random.normal([_BATCH.value, _LENGTH.value, width]),
        tf.ones([_BATCH.value, _LENGTH.value, _LENGTH.value]),
    ]
    blocks = {
        "ours": AdapterEncoderBlock(**settings),
        "model_garden": layers.TransformerEncoderBlock(**settings),
    }
    outputs = {name: block(inputs) for name, block in blocks.items()}
    theirs = variables_by_path(blocks["model_garden"])
    for path, variable in variables_by_path(blocks["ours"]).items():
        variable.assign(theirs[path])
    difference = tf.reduce_max(tf.abs(blocks["ours"](inputs) - outputs["model_garden"]))
    print(f"{_BATCH.value} x {_LENGTH.value} tokens, {width} wide; {load_line()}")
    print(f"largest difference of the outputs: {difference:.1e}")
    compared = {
        "forward": {name: _forward(block, inputs) for name, block in blocks.items()},
        "step": {name: _step(block, inputs) for name, block in blocks.items()},
        "one product": _products(inputs),
        "one dropout": _dropouts(inputs),
    }
    for title, candidates in compared.items():
        times = fastest(candidates, _ROUNDS.value)
        ratio = times["ours"] / times["model_garden"]
        milliseconds = ", ".join(f"{name} {1000 * t:.1f} ms" for name, t in times.items())
        print(f"{title}: ours / Model Garden {ratio:.2f} ({milliseconds})")


if __name__ == "__main__":
    app.run(main)
