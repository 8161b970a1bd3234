"""Activations by the names that our configurations use.

TensorFlow is imported when one is called, so that flags are checked without it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from adapter_bert_tf.errors import UserError

if TYPE_CHECKING:
    import tensorflow as tf

Activation = Callable[["tf.Tensor"], "tf.Tensor"]


def gelu(x: tf.Tensor) -> tf.Tensor:
    """GELU in its tanh form, as Google's BERT and the adapters compute it."""
    import tensorflow as tf

    return tf.nn.gelu(x, approximate=True)


def gelu_erf(x: tf.Tensor) -> tf.Tensor:
    """GELU in its exact form, as most Hugging Face checkpoints were trained."""
    import tensorflow as tf

    return tf.nn.gelu(x, approximate=False)


def relu(x: tf.Tensor) -> tf.Tensor:
    """The larger of `x` and 0."""
    import tensorflow as tf

    return tf.nn.relu(x)


def tanh(x: tf.Tensor) -> tf.Tensor:
    """The hyperbolic tangent."""
    import tensorflow as tf

    return tf.math.tanh(x)


def sigmoid(x: tf.Tensor) -> tf.Tensor:
    """The logistic function."""
    import tensorflow as tf

    return tf.math.sigmoid(x)


def swish(x: tf.Tensor) -> tf.Tensor:
    """`x * sigmoid(x)`."""
    import tensorflow as tf

    return tf.nn.silu(x)


def linear(x: tf.Tensor) -> tf.Tensor:
    """`x` itself."""
    return x


ACTIVATIONS: dict[str, Activation] = {
    function.__name__: function for function in (gelu, gelu_erf, relu, tanh, sigmoid, swish, linear)
}


def get_activation(name: str) -> Activation:
    """Returns the activation called `name`; an unknown name is a UserError that lists the known."""
    if name not in ACTIVATIONS:
        raise UserError(f"activation {name!r} is unknown; known are {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]
