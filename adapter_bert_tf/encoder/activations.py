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


def gelu_10(x: tf.Tensor) -> tf.Tensor:
    """GELU in its exact form, between -10 and 10."""
    import tensorflow as tf

    return tf.clip_by_value(gelu_erf(x), -10.0, 10.0)


def quick_gelu(x: tf.Tensor) -> tf.Tensor:
    """`x * sigmoid(1.702 * x)`."""
    return x * sigmoid(1.702 * x)


def relu2(x: tf.Tensor) -> tf.Tensor:
    """The square of `relu`."""
    import tensorflow as tf

    return tf.square(relu(x))


def relu6(x: tf.Tensor) -> tf.Tensor:
    """`relu`, up to 6."""
    import tensorflow as tf

    return tf.nn.relu6(x)


def leaky_relu(x: tf.Tensor) -> tf.Tensor:
    """`relu` with a slope of 0.01 below 0."""
    import tensorflow as tf

    return tf.nn.leaky_relu(x, alpha=0.01)


def mish(x: tf.Tensor) -> tf.Tensor:
    """`x * tanh(softplus(x))`."""
    import tensorflow as tf

    return x * tanh(tf.nn.softplus(x))


def laplace(x: tf.Tensor) -> tf.Tensor:
    """A normal distribution's share below `x`, which looks like `relu2` near 0."""
    import tensorflow as tf

    return 0.5 * (1 + tf.math.erf((x - 0.707107) / (0.282095 * 2**0.5)))


_FUNCTIONS = (
    *(gelu, gelu_erf, gelu_10, quick_gelu, relu, relu2, relu6, leaky_relu),
    *(tanh, sigmoid, swish, mish, laplace, linear),
)
ACTIVATIONS: dict[str, Activation] = {function.__name__: function for function in _FUNCTIONS}

# The names that Hugging Face's files use. Their "gelu" is the exact form with erf, Google's the
# tanh form.
HUGGING_FACE_NAMES = {
    "gelu": "gelu_erf",
    "gelu_python": "gelu_erf",
    "gelu_new": "gelu",
    "gelu_fast": "gelu",
    "gelu_accurate": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "gelu_python_tanh": "gelu",
    "silu": "swish",
    "leakyrelu": "leaky_relu",
    **{name: name for name in ACTIVATIONS if not name.startswith("gelu")},
    "gelu_10": "gelu_10",
}


def get_activation(name: str) -> Activation:
    """Returns the activation called `name`; an unknown name is a UserError that lists the known."""
    if name not in ACTIVATIONS:
        raise UserError(f"activation {name!r} is unknown; known are {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]
