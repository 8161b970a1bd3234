"""One Transformer layer with adapters."""

from typing import ClassVar

import tf_keras
from official.nlp.modeling import layers

from adapter_bert_tf.encoder.adapter import Adapter
from adapter_bert_tf.encoder.adapter_config import ATTENTION, FEED_FORWARD, AdapterConfig
from adapter_bert_tf.encoder.dropout import Dropout
from adapter_bert_tf.encoder.flat_dense import FlatDense
from adapter_bert_tf.encoder.layer_norm import LayerNorm
from adapter_bert_tf.encoder.self_attention import SelfAttention


@tf_keras.utils.register_keras_serializable(package="adapter_bert_tf")
class AdapterEncoderBlock(layers.TransformerEncoderBlock):
    """Model Garden's Transformer layer, with an adapter behind each sub-layer.

    The computation is the parent's `call()`. Only the layers that it calls are replaced: the
    dropouts behind the two projections by dropout and adapter, the others by faster ones.

    Args:
      adapter: The adapters' design, or None for a layer without them.
      **kwargs: The arguments of `TransformerEncoderBlock`.

    Attributes:
      compiles: Whether XLA may compile the feed-forward activation.
    """

    compiles: ClassVar[bool] = True

    def __init__(self, *args, adapter: AdapterConfig | dict | None = None, **kwargs):
        super().__init__(*args, **kwargs)
        self.adapter = AdapterConfig(**adapter) if isinstance(adapter, dict) else adapter
        if self.adapter and self.adapter.parallel and self._inner_dropout:
            raise ValueError("inner_dropout and a parallel adapter don't go together")

    def build(self, input_shape):
        super().build(input_shape)
        self._attention_layer = SelfAttention.like(
            self._attention_layer, keeps_input=self._is_parallel(ATTENTION)
        )
        # BERT has the hidden rate here, where Model Garden takes that of the attention.
        self._attention_dropout = self._site(ATTENTION)
        self._intermediate_dense = FlatDense.like(
            self._intermediate_dense,
            activation=self._inner_activation,
            keeps_input=self._is_parallel(FEED_FORWARD),
            compiles=self.compiles,
        )
        self._intermediate_activation_layer = tf_keras.layers.Activation("linear")
        self._inner_dropout_layer = (
            Dropout(self._inner_dropout)
            if self._inner_dropout
            else self._intermediate_activation_layer
        )
        self._output_dense = FlatDense.like(self._output_dense)
        self._output_dropout = self._site(FEED_FORWARD)
        self._replace_layer_norms()

    def _replace_layer_norms(self) -> None:
        if self._use_rms_norm:
            return
        self._attention_layer_norm = LayerNorm.like(self._attention_layer_norm)
        self._output_layer_norm = LayerNorm.like(self._output_layer_norm)
        if not self._diff_q_kv_att_layer_norm:
            self._attention_layer_norm_kv = self._attention_layer_norm

    def call(self, inputs, output_range: int | None = None):
        is_pair = isinstance(inputs, (list, tuple)) and len(inputs) == 2
        if output_range != 1 or not is_pair or self._diff_q_kv_att_layer_norm:
            return super().call(inputs, output_range)
        # Of the parent's slice, which is the same, nobody knows that it holds one token.
        tokens, mask = inputs
        return super().call([tokens[:, 0][:, None], tokens, mask if mask is None else mask[:, :1]])

    def _adapter_at(self, site: str) -> AdapterConfig | None:
        return self.adapter if self.adapter and site in self.adapter.sites else None

    def _is_parallel(self, site: str) -> bool:
        adapter = self._adapter_at(site)
        return adapter is not None and adapter.parallel

    def _site(self, site: str) -> tf_keras.layers.Layer:
        adapter = self._adapter_at(site)
        if adapter is None:
            return Dropout(self._output_dropout_rate)
        return Adapter(adapter, self._output_dropout_rate, name=f"{site}_adapter")

    def get_config(self):
        return {**super().get_config(), "adapter": self.adapter and self.adapter.to_dict()}
