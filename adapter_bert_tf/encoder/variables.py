"""Variables by readable path: `transformer/layer_0/attention_adapter/down/kernel`."""

import re
from collections.abc import Iterator

import tensorflow as tf
import tf_keras

_ADAPTER = re.compile(r"(^|/)(attention|feed_forward)_adapter/")
_LAYER_NORM = re.compile(r"(^|/)(\w+_)?layer_norm/(gamma|beta)$")
_LAYER = re.compile(r"^transformer/layer_(\d+)/")


def variables_by_path(layer: tf_keras.layers.Layer) -> dict[str, tf.Variable]:
    """Returns the variables below `layer`, each under the names of the layers that lead to it.

    Other than `variable.name`, a path does not depend on the scope in which it was built.
    For the base it is the name that Model Garden gives.
    """
    return {
        path: variable for _, variables in leaves(layer) for path, variable in variables.items()
    }


def leaves(
    layer: tf_keras.layers.Layer, prefix: str = ""
) -> Iterator[tuple[tf_keras.layers.Layer, dict[str, tf.Variable]]]:
    """Yields the layers that own variables, each with these variables by path."""
    own = layer._trainable_weights + layer._non_trainable_weights
    if own:
        yield layer, {f"{prefix}{variable.name.split('/')[-1][:-2]}": variable for variable in own}
    for child in layer._flatten_layers(recursive=False, include_self=False):
        yield from leaves(child, f"{prefix}{child.name}/")


def is_adapter(path: str) -> bool:
    """Whether the variable at `path` belongs to an adapter."""
    return _ADAPTER.search(path) is not None


def is_layer_norm(path: str) -> bool:
    """Whether `path` is a LayerNorm of the base; one inside an adapter is the adapter's."""
    return _LAYER_NORM.search(path) is not None and not is_adapter(path)


def layer_of(path: str) -> int | None:
    """The Transformer layer that `path` belongs to, or None outside of them."""
    match = _LAYER.match(path)
    return int(match.group(1)) if match else None
