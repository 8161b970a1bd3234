"""The adapter as a Keras layer."""

import threading
from collections.abc import Callable, Mapping

import tensorflow as tf
import tf_keras

from adapter_bert_tf.encoder import fast
from adapter_bert_tf.encoder.activations import get_activation
from adapter_bert_tf.encoder.adapter import AdapterConfig, change


class InputOf:
    """Hands the input of one layer to another one that is called later, in the same call.

    An adapter stands behind a sub-layer, but may read the sub-layer's input. Keras has no hooks,
    so the sub-layer's `call` is wrapped.

    Args:
      layer: The layer whose input is wanted.
    """

    def __init__(self, layer: tf_keras.layers.Layer):
        call = layer.call
        # Several threads may trace or compute at the same time.
        self._local = threading.local()

        def remember(inputs, *args, **kwargs):
            self._local.inputs = inputs
            return call(inputs, *args, **kwargs)

        layer.call = remember

    def take(self) -> tf.Tensor:
        """Returns the input of the last call, and forgets it."""
        inputs, self._local.inputs = self._local.inputs, None
        return inputs


@tf_keras.utils.register_keras_serializable(package="adapter_bert_tf")
class Adapter(tf_keras.layers.Layer):
    """Dropout, then a bottleneck with a skip connection: `x + up(gelu(down(x)))`.

    It replaces the dropout behind a sub-layer's output projection, so the residual connection and
    the LayerNorm follow it.

    Args:
      config: An `AdapterConfig`, or its dictionary.
      dropout: Rate of the dropout on the sub-layer's output.
      source: Where it gets the sub-layer's input from, if its design reads it and its caller does
        not give it.
      norm: The LayerNorm behind the sub-layer, if its design reads it.

    Attributes:
      gate: Says whether the adapter adds anything in a call, as a tensor; or None, if it does
        without a question. See `tuning/adapter_drop.py`.

    Example:
      `Adapter(AdapterConfig(size=8))(tf.zeros([2, 16, 48]))`

    Reference:
      [Parameter-Efficient Transfer Learning for NLP](https://arxiv.org/abs/1902.00751)
    """

    def __init__(
        self,
        config: AdapterConfig | dict,
        dropout: float = 0.0,
        source: InputOf | None = None,
        norm: Callable[[tf.Tensor], tf.Tensor] | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.config = AdapterConfig(**config) if isinstance(config, dict) else config
        self.dropout = fast.make_dropout(dropout)
        self.source, self.norm = source, norm
        self.gate: Callable[[], tf.Tensor | None] = lambda: None
        self._activation = get_activation(self.config.activation)
        self.is_fast = fast.is_on()

    def build(self, input_shape):
        kernel = tf_keras.initializers.TruncatedNormal
        self.variables_by_name = {
            name: self.add_weight(
                name=name,
                shape=shape,
                initializer=kernel(stddev=self.config.init_scale)
                if name.endswith("kernel")
                else "ones"
                if name.endswith("gamma")
                else "zeros",
                experimental_autocast=not name.startswith("layer_norm/"),
            )
            for name, shape in self.config.shapes(input_shape[-1]).items()
        }
        super().build(input_shape)

    def call(self, output, source=None, training=None):
        if source is None and self.source is not None:
            source = self.source.take()
        output = self.dropout(output, training=training)
        width = output.shape[-1]
        flat = tf.reshape(output, [-1, width])
        adapted = flat + change(
            self.config,
            flat,
            None if source is None else tf.reshape(tf.cast(source, output.dtype), [-1, width]),
            self._gated(),
            fast.activation(self._activation, training) if self.is_fast else None,
            self.norm,
        )
        return tf.ensure_shape(tf.reshape(adapted, tf.shape(output)), output.shape)

    def _gated(self) -> Mapping[str, tf.Variable | tf.Tensor]:
        """Returns the variables, those of the last product as zeros if the gate is closed."""
        is_open = self.gate()
        if is_open is None:
            return self.variables_by_name
        return {
            name: variable * tf.cast(is_open, variable.dtype)
            if name.startswith("up/")
            else variable
            for name, variable in self.variables_by_name.items()
        }

    def share_dropout(self, other: "Adapter") -> None:
        """Calls another adapter's dropout, if it is of the same rate."""
        if self.dropout.rate == other.dropout.rate:
            self.dropout = other.dropout

    def get_config(self):
        return {
            **super().get_config(),
            "config": self.config.to_dict(),
            "dropout": self.dropout.rate,
        }
