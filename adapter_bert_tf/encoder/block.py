"""One Transformer layer with adapters."""

from typing import ClassVar

import tensorflow as tf
import tf_keras
from official.nlp.modeling import layers

from adapter_bert_tf import internals
from adapter_bert_tf.encoder import fast
from adapter_bert_tf.encoder.adapter import (
    ATTENTION,
    FEED_FORWARD,
    HOULSBY,
    PFEIFFER,
    AdapterConfig,
)
from adapter_bert_tf.encoder.adapter_layer import Adapter, InputOf
from adapter_bert_tf.errors import UserError

Layers = dict[str, tf_keras.layers.Layer]


@tf_keras.utils.register_keras_serializable(package="adapter_bert_tf")
class AdapterEncoderBlock(layers.TransformerEncoderBlock):
    """Model Garden's Transformer layer with an adapter behind each sub-layer.

    The computation is the parent's `call()`. Only layers that it calls are replaced: the dropouts
    behind the two projections by dropout and adapter, and others by faster ones (`fast/`).

    Args:
      adapter: The adapters' design, or None for a layer without adapters.
      attention_output_dropout: Rate of the dropout behind the attention's projection. Model Garden
        takes `attention_dropout` there, which is the default; BERT takes the hidden rate.
      **kwargs: The arguments of `TransformerEncoderBlock`.

    Attributes:
      compiles: Whether XLA may compile the feed-forward activation.
    """

    compiles: ClassVar[bool] = True

    def __init__(
        self,
        *args,
        adapter: AdapterConfig | dict | None = None,
        attention_output_dropout: float | None = None,
        **kwargs,
    ):
        super().__init__(*args, **kwargs)
        self.attention_output_dropout = attention_output_dropout
        self.adapter = AdapterConfig(**adapter) if isinstance(adapter, dict) else adapter
        self.is_fast = fast.is_on()

    def build(self, input_shape):
        with internals.untracked(self):
            super().build(input_shape)
        self.is_fast = self.is_fast and _is_like_berts(input_shape)
        layers = self.replaced(internals.get_block_layers(self))
        internals.set_block_layers(self, layers)
        if self.adapter is not None and self.adapter.design == PFEIFFER:
            shape = input_shape if isinstance(input_shape, tf.TensorShape) else input_shape[0]
            self._build_norms(layers, shape[-1])

    def replaced(self, layers: Layers) -> Layers:
        """Returns the layers to use instead of those that the parent made, all of them unbuilt."""
        if self.is_fast:
            layers = self._faster(layers)
        hidden, attention = layers["output_dropout"].rate, self.attention_output_dropout
        if attention is None:
            attention = layers["attention_dropout"].rate
        layers["attention_dropout"] = self.make_site(
            ATTENTION, layers["attention"], layers["attention_norm"], attention
        )
        layers["output_dropout"] = self.make_site(
            FEED_FORWARD, layers["intermediate"], layers["output_norm"], hidden
        )
        return layers

    def _build_norms(self, layers: Layers, width: int) -> None:
        """Builds the LayerNorms here, because adapters that read them are called before them."""
        if self.get_config()["norm_first"]:
            raise UserError("adapter design pfeiffer needs LayerNorms behind the sub-layers")
        for name in ("attention_norm", "output_norm"):
            with tf.name_scope(layers[name].name):
                layers[name].build([None, None, width])

    def _faster(self, layers: Layers) -> Layers:
        config = self.get_config()
        found = {name: fast.faster(layer) for name, layer in layers.items()}
        if layers["attention_norm_kv"] is layers["attention_norm"]:
            found["attention_norm_kv"] = found["attention_norm"]
        # The activation is fused with the product in front of it.
        found["intermediate"] = fast.faster(
            layers["intermediate"], activation=config["inner_activation"], compiles=self.compiles
        )
        found["activation"] = tf_keras.layers.Activation("linear")
        return found

    def make_site(
        self,
        site: str,
        sublayer: tf_keras.layers.Layer,
        norm: tf_keras.layers.Layer,
        dropout: float,
    ) -> tf_keras.layers.Layer:
        """Returns what stands behind a sub-layer: dropout, and an adapter if the design has one.

        Args:
          site: "attention" or "feed_forward".
          sublayer: The layer whose input an adapter may read.
          norm: The LayerNorm behind the sub-layer, which an adapter may read.
          dropout: Rate of the dropout.
        """
        with fast.switched(self.is_fast):
            if self.adapter is None or site not in self.adapter.sites:
                return fast.make_dropout(dropout)
            source = InputOf(sublayer) if self.adapter.design != HOULSBY else None

            # A function, because Keras would list the LayerNorm among the adapter's layers.
            def normalize(tokens: tf.Tensor) -> tf.Tensor:
                return norm(tokens[None])[0]

            return Adapter(self.adapter, dropout, source, normalize, name=f"{site}_adapter")

    def share_layers(self, other: "AdapterEncoderBlock") -> None:
        """Calls another block's layers where their variables are this block's own already."""
        mine, others = (internals.get_block_layers(each) for each in (self, other))
        internals.set_block_layers(self, shareable(mine, others))
        for name, layer in mine.items():
            if isinstance(layer, Adapter) and isinstance(others[name], Adapter):
                layer.share_dropout(others[name])

    def call(self, inputs, output_range: int | None = None):
        is_pair = isinstance(inputs, (list, tuple)) and len(inputs) == 2
        if output_range == 1 and is_pair and self.is_fast:
            # The parent's slice of the first token has no static length, and so would not tell
            # the attention that there is a single query.
            tokens, mask = inputs
            inputs = [tokens[:, 0][:, None], tokens, mask if mask is None else mask[:, :1]]
            output_range = None
        return super().call(inputs, output_range)

    def get_config(self):
        own = {
            "adapter": self.adapter and self.adapter.to_dict(),
            "attention_output_dropout": self.attention_output_dropout,
        }
        # A plain layer's configuration is Model Garden's own.
        given = {name: value for name, value in own.items() if value is not None}
        return {**super().get_config(), **given}


def shareable(layers: Layers, others: Layers) -> Layers:
    """Returns those of other layers that can be called instead of one's own."""
    return {
        name: others[name]
        for name, layer in layers.items()
        if name in others and _is_same(layer, others[name])
    }


def _is_same(layer: tf_keras.layers.Layer, other: tf_keras.layers.Layer) -> bool:
    # `InputOf` has replaced the `call` of what stands before some adapters.
    if isinstance(layer, Adapter) or any("call" in vars(each) for each in (layer, other)):
        return False
    mine, others = ([id(variable) for variable in each.weights] for each in (layer, other))
    configs = [{**each.get_config(), "name": None} for each in (layer, other)]
    return type(layer) is type(other) and mine == others and configs[0] == configs[1]


def _is_like_berts(input_shape) -> bool:
    """Whether inputs are `[batch, length, width]`, with keys and values as wide as the queries.

    Keras's layers take other inputs too, the fast ones don't.
    """
    several = isinstance(input_shape, (list, tuple)) and not isinstance(input_shape[0], int | None)
    shapes = [tf.TensorShape(shape) for shape in (input_shape if several else [input_shape])]
    # The last of three shapes is the mask's, and so is that of two.
    shapes = shapes[:-1] if len(shapes) > 1 else shapes
    return all(shape.rank == 3 and shape[-1] == shapes[0][-1] for shape in shapes)
