"""Activations by the names that our configurations use."""

from collections.abc import Callable

import tensorflow as tf
import tf_keras

from adapter_bert_tf.errors import UserError

Activation = Callable[[tf.Tensor], tf.Tensor]


@tf_keras.utils.register_keras_serializable(package="adapter_bert_tf")
def gelu(x: tf.Tensor) -> tf.Tensor:
    """GELU in its tanh form, as Google's BERT and the adapters compute it."""
    return tf.nn.gelu(x, approximate=True)


@tf_keras.utils.register_keras_serializable(package="adapter_bert_tf")
def gelu_erf(x: tf.Tensor) -> tf.Tensor:
    """GELU in its exact form, as most Hugging Face checkpoints were trained."""
    return tf.nn.gelu(x, approximate=False)


ACTIVATIONS: dict[str, Activation] = {
    "gelu": gelu,
    "gelu_erf": gelu_erf,
    "relu": tf_keras.activations.relu,
    "tanh": tf_keras.activations.tanh,
    "sigmoid": tf_keras.activations.sigmoid,
    "swish": tf_keras.activations.swish,
    "linear": tf_keras.activations.linear,
}


def get_activation(name: str) -> Activation:
    """Returns the activation called `name`, or raises a UserError with the known names."""
    if name not in ACTIVATIONS:
        raise UserError(f"activation {name!r} is unknown; known are {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]
