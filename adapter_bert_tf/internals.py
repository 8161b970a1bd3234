"""The private attributes of other libraries that we use, all in one file.

None of them has a public way to do what is done here, so an upgrade may break it.
`tests/test_internals.py` checks that no other module of the package touches such attributes.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tensorflow as tf
    import tf_keras

# Where `TransformerEncoderBlock.call()` finds the layers that it calls. Replacing these layers
# inserts adapters without copying `call()`.
_BLOCK_LAYERS = {
    "attention": "_attention_layer",
    "attention_dropout": "_attention_dropout",
    "attention_norm": "_attention_layer_norm",
    "attention_norm_kv": "_attention_layer_norm_kv",
    "intermediate": "_intermediate_dense",
    "activation": "_intermediate_activation_layer",
    "inner_dropout": "_inner_dropout_layer",
    "output": "_output_dense",
    "output_dropout": "_output_dropout",
    "output_norm": "_output_layer_norm",
    "low_rank": "_lowrank_kv_projection",
}

# The same for `BertEncoderV2.call()`.
_ENCODER_LAYERS = {
    "words": "_embedding_layer",
    "positions": "_position_embedding_layer",
    "types": "_type_embedding_layer",
    "norm": "_embedding_norm_layer",
    "dropout": "_embedding_dropout",
    "mask": "_attention_mask_layer",
    "pooler": "_pooler_layer",
    "blocks": "_transformer_layers",
}


def get_block_layers(block: tf_keras.layers.Layer) -> dict[str, tf_keras.layers.Layer]:
    """Returns the layers that a built `TransformerEncoderBlock` calls; some may be missing."""
    return {
        name: getattr(block, attribute)
        for name, attribute in _BLOCK_LAYERS.items()
        if hasattr(block, attribute)
    }


def set_block_layers(
    block: tf_keras.layers.Layer, layers: dict[str, tf_keras.layers.Layer]
) -> None:
    """Sets the layers that a `TransformerEncoderBlock` calls."""
    for name, layer in layers.items():
        setattr(block, _BLOCK_LAYERS[name], layer)


def get_encoder_layers(encoder: tf_keras.layers.Layer) -> dict[str, tf_keras.layers.Layer]:
    """Returns the layers that a `BertEncoderV2` calls, its blocks as a list."""
    return {name: getattr(encoder, attribute) for name, attribute in _ENCODER_LAYERS.items()}


def set_encoder_layers(encoder: tf_keras.layers.Layer, layers: dict) -> None:
    """Replaces layers, or the list of blocks, that a `BertEncoderV2` calls."""
    for name, layer in layers.items():
        setattr(encoder, _ENCODER_LAYERS[name], layer)


@contextlib.contextmanager
def untracked(layer: tf_keras.layers.Layer) -> Iterator[None]:
    """Lets attributes be set without Keras tracking them.

    A checkpoint that is restored before a block is built waits for the block's layers. Keras
    hands the values to the first layer that takes a name. Layers that we replace right away
    must not take it, or the values are lost.
    """
    layer._self_setattr_tracking = False
    try:
        yield
    finally:
        layer._self_setattr_tracking = True


@contextlib.contextmanager
def output_range(encoder: tf_keras.layers.Layer, tokens: int | None) -> Iterator[None]:
    """Lets a `BertEncoderV2` compute only the first tokens in its last layer, for one call.

    Model Garden takes this number in the constructor only, but each use of one encoder needs
    its own.
    """
    configured = encoder._output_range
    encoder._output_range = tokens or configured
    try:
        yield
    finally:
        encoder._output_range = configured


def own_variables(layer: tf_keras.layers.Layer) -> list[tf.Variable]:
    """Returns the variables of a layer itself, without those of the layers in it.

    `layer.weights` would include those of the layers in it.
    """
    return layer._trainable_weights + layer._non_trainable_weights


def sublayers(layer: tf_keras.layers.Layer, recursive: bool = False) -> list[tf_keras.layers.Layer]:
    """Returns the layers in a layer, also those in lists and dictionaries."""
    return list(layer._flatten_layers(recursive=recursive, include_self=False))


def dropout_generator(layer: tf_keras.layers.Dropout) -> tf.random.Generator:
    """Returns the generator of a dropout layer that was made with `rng_type="stateful"`.

    A run saves its state, so that a resumed run draws the same masks. Layers inside of Keras's
    attention have none: None is returned for them.
    """
    layer._random_generator._maybe_init()
    return layer._random_generator._generator


def seed_keras(seed: int) -> None:
    """Seeds Python, NumPy and Keras, as Keras's `set_random_seed` does, but not TensorFlow.

    When TensorFlow is seeded, it forgets all kernels: the next step and the next evaluation of a
    model that is used again take a second longer.
    """
    import numpy as np
    from tf_keras.src import backend

    random.seed(seed)
    np.random.seed(seed)
    backend._SEED_GENERATOR.generator = random.Random(seed)


def position_embeddings(layer: tf_keras.layers.Layer) -> tf.Variable:
    """Returns the table of Model Garden's `PositionEmbedding`, to look up any positions in it."""
    return layer._position_embeddings


def adam_moments(
    optimizer: tf_keras.optimizers.Adam, variable: tf.Variable
) -> tuple[tf.Variable, tf.Variable]:
    """Returns Adam's running means of a variable's gradient and of its square."""
    index = optimizer._index_dict[optimizer._var_key(variable)]
    return optimizer._momentums[index], optimizer._velocities[index]


def schedule_of(optimizer: tf_keras.optimizers.Optimizer):
    """Returns the learning rate's schedule. The public attribute is the current value."""
    return optimizer._learning_rate


def trial_id(trial) -> int:
    """Returns what Optuna's storages call a trial; only its number within a study is public."""
    return trial._trial_id


def clear_kernel_cache() -> None:
    """Makes TensorFlow forget the kernels of operations that ran eagerly.

    It keeps one for each variable that was made, which nothing will ask for again: 4 MB for
    MiniLM with adapters, twice as much as the adapters. Graphs that are called next are prepared
    again, which takes half a second. Only `clear_session` does it publicly, and forgets more.
    """
    from tensorflow.python.eager import context

    context.context().clear_kernel_cache()
