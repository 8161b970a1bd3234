"""The bottleneck adapter (Houlsby et al., ICML 2019, figure 2)."""

import tensorflow as tf
import tf_keras

from adapter_bert_tf.encoder.activations import get_activation
from adapter_bert_tf.encoder.adapter_config import AdapterConfig
from adapter_bert_tf.encoder.dropout import Dropout
from adapter_bert_tf.encoder.flat_dense import FlatDense
from adapter_bert_tf.encoder.layer_norm import LayerNorm

# Of the LayerNorm in an adapter.
INNER_EPSILON = 1e-12


@tf_keras.utils.register_keras_serializable(package="adapter_bert_tf")
class Adapter(tf_keras.layers.Layer):
    """Dropout, then a bottleneck with a skip around it: `x + up(gelu(down(x)))`.

    It takes the place of the dropout behind a sub-layer's output projection, so that the
    residual connection and the LayerNorm follow it. A parallel adapter is given a pair, the
    sub-layer's output and its input, and feeds the bottleneck with the input.

    Args:
      config: An `AdapterConfig`, or its dictionary.
      dropout: Rate of the dropout on the sub-layer's output.

    Example:
      `Adapter(AdapterConfig(size=8))(tf.zeros([2, 16, 48]))`

    Reference:
      [Parameter-Efficient Transfer Learning for NLP](https://arxiv.org/abs/1902.00751)
    """

    def __init__(self, config: AdapterConfig | dict, dropout: float = 0.0, **kwargs):
        super().__init__(**kwargs)
        self.config = AdapterConfig(**config) if isinstance(config, dict) else config
        self.dropout = Dropout(dropout)

    def build(self, input_shape):
        shape = tf.TensorShape(input_shape[0] if self.config.parallel else input_shape)
        self._layer_norm = None
        if self.config.layer_norm:
            # In front of the bottleneck: behind it, it would scale the small start up to 1.
            self._layer_norm = LayerNorm(epsilon=INNER_EPSILON, name="layer_norm", dtype=tf.float32)
        activation = get_activation(self.config.activation)
        names = self.config.narrow_layers()
        self._narrow = [self._dense(name, self.config.size, activation) for name in names]
        self._up = self._dense("up", shape[-1], None)
        super().build(input_shape)

    def _dense(self, name: str, width: int, activation) -> FlatDense:
        return FlatDense(
            "abc,cd->abd",
            output_shape=(None, width),
            bias_axes="d",
            activation=activation,
            kernel_initializer=tf_keras.initializers.TruncatedNormal(stddev=self.config.init_scale),
            name=name,
            compiles=activation is not None,
        )

    def call(self, inputs):
        output, source = inputs if self.config.parallel else (inputs, None)
        output = self.dropout(output)
        update = self._bottleneck(output if source is None else source)
        return output * (1 + update) if self.config.multiplicative else output + update

    def _bottleneck(self, x: tf.Tensor) -> tf.Tensor:
        if self._layer_norm is not None:
            x = self._layer_norm(x)
        for dense in self._narrow:
            x = dense(x)
        return self._up(x)

    def get_config(self):
        return {
            **super().get_config(),
            "config": self.config.to_dict(),
            "dropout": self.dropout.rate,
        }
