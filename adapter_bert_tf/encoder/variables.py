"""Variables by readable path: `transformer/layer_0/attention_adapter/down/kernel`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from adapter_bert_tf import internals

if TYPE_CHECKING:
    import tensorflow as tf
    import tf_keras

_ADAPTER = re.compile(r"(^|/)(attention|feed_forward)_adapter/")
_LAYER_NORM = re.compile(r"(^|/)(\w+_)?layer_norm/(gamma|beta)$")
_LAYER = re.compile(r"^transformer/layer_(\d+)/")


def variables_by_path(layer: tf_keras.layers.Layer, prefix: str = "") -> dict[str, tf.Variable]:
    """Returns the variables in a layer, each under the names of the layers that lead to it.

    Unlike `variable.name`, a path does not depend on the scope in which the variable was created.
    For the base it is the name that Model Garden gives.
    """
    return dict(_walk(layer, prefix))


def _walk(layer: tf_keras.layers.Layer, prefix: str) -> Iterator[tuple[str, tf.Variable]]:
    # An adapter has variables with longer names than Keras's layers, and knows them itself.
    named = getattr(layer, "variables_by_name", None)
    if named is None:
        own = internals.own_variables(layer)
        named = {variable.name.split("/")[-1].split(":")[0]: variable for variable in own}
    for name, variable in named.items():
        yield f"{prefix}{name}", variable
    for child in internals.sublayers(layer):
        yield from _walk(child, f"{prefix}{child.name}/")


def is_adapter(path: str) -> bool:
    """Whether the variable at `path` belongs to an adapter."""
    return _ADAPTER.search(path) is not None


def is_layer_norm(path: str) -> bool:
    """Whether `path` is a LayerNorm of the base; one inside an adapter is the adapter's."""
    return _LAYER_NORM.search(path) is not None and not is_adapter(path)


def layer_of(path: str) -> int | None:
    """Returns the Transformer layer that `path` belongs to, or None outside of them."""
    match = _LAYER.match(path)
    return int(match.group(1)) if match else None
