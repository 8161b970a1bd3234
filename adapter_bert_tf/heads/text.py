"""Heads that answer a whole text: how they get from BERT's outputs to logits."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
import tf_keras

from adapter_bert_tf.checks import SHARE, boolean
from adapter_bert_tf.encoder import fast
from adapter_bert_tf.encoder.activations import get_activation
from adapter_bert_tf.heads.head import Head, output_dense
from adapter_bert_tf.heads.kinds import HIDDEN_LAYERS

_OUTPUT = "output"

Dense = Callable[[tf.Tensor], tf.Tensor]


@dataclasses.dataclass(frozen=True)
class TextForm:
    """The arithmetic of a head on a text.

    Args:
      pooler: Whether it reads the output of BERT's pooler. Otherwise it reads the first token's.
      hidden_layers: Layers of BERT's width in front of the output.
      activation: The activation of these layers.
    """

    pooler: bool = True
    hidden_layers: int = 0
    activation: str = "tanh"

    def __post_init__(self):
        boolean(self.pooler, "pooler")
        HIDDEN_LAYERS(self.hidden_layers, "hidden_layers")
        get_activation(self.activation)

    @property
    def hidden(self) -> list[str]:
        """Names of the hidden layers."""
        return [f"hidden_{number}" for number in range(1, self.hidden_layers + 1)]

    @property
    def layers(self) -> list[str]:
        """Names of all layers."""
        return [*self.hidden, _OUTPUT]

    def logits(
        self,
        pooled: tf.Tensor,
        first: tf.Tensor,
        layers: Mapping[str, Dense],
        drop: Dense = tf.identity,
    ) -> tf.Tensor:
        """Returns the logits, `[rows, outputs]`.

        Args:
          pooled: The pooler's output, `[rows, width]`.
          first: The first token's output.
          layers: The products, by the names of `layers`.
          drop: The dropout in front of each of them.
        """
        x = pooled if self.pooler else first
        for name in self.hidden:
            x = get_activation(self.activation)(layers[name](drop(x)))
        return layers[_OUTPUT](drop(x))

    def settings(self) -> dict[str, Any]:
        """Returns what differs from the default, which is what older packs have."""
        default = TextForm()
        return {
            name: value for name, value in vars(self).items() if value != getattr(default, name)
        }


class TextHead(Head):
    """BERT's first token -> pooler -> hidden layers -> outputs, with dropout in front of each.

    Args:
      outputs: Number of outputs.
      dropout: Rate of the dropout.
      form: What it reads, and its layers.
    """

    def __init__(self, outputs: int, dropout: float, form: TextForm, **kwargs):
        super().__init__(**kwargs)
        self.form = form
        SHARE(dropout, "dropout")
        self.dropout = fast.make_dropout(dropout)
        self.output_layer = output_dense(outputs)
        self.hidden_layers: list[tf_keras.layers.Layer] = []

    def build(self, input_shape):
        width = input_shape["pooled_output"][-1]
        self.hidden_layers = [output_dense(width, name) for name in self.form.hidden]
        super().build(input_shape)

    def logits(self, encoded: dict[str, tf.Tensor]) -> tf.Tensor:
        """Returns the logits for the encoder's outputs."""
        layers = [*self.hidden_layers, self.output_layer]
        return self.form.logits(
            encoded["pooled_output"],
            encoded["sequence_output"][:, 0],
            dict(zip(self.form.layers, layers, strict=True)),
            self.dropout,
        )

    def settings(self) -> dict[str, Any]:
        return {"dropout": self.dropout.rate, **self.form.settings()}
