"""The BERT encoder with adapters."""

import tensorflow as tf
import tf_keras
from official.nlp.modeling import networks

from adapter_bert_tf.encoder.activations import gelu
from adapter_bert_tf.encoder.adapter_config import AdapterConfig
from adapter_bert_tf.encoder.block import AdapterEncoderBlock
from adapter_bert_tf.encoder.dropout import Dropout
from adapter_bert_tf.encoder.key_mask import KeyMask
from adapter_bert_tf.encoder.layer_norm import LayerNorm
from adapter_bert_tf.encoder.variables import is_adapter, variables_by_path
from adapter_bert_tf.errors import UserError


@tf_keras.utils.register_keras_serializable(package="adapter_bert_tf")
class AdapterBertEncoder(networks.BertEncoderV2):
    """Model Garden's BERT encoder with adapters in its Transformer layers.

    Inputs, outputs and base variables, their names and shapes among them, are those of
    `BertEncoderV2`, so its checkpoints fit.

    Args:
      adapter: The adapters' design, or None for the plain base.
      norm_epsilon: Epsilon of every LayerNorm.
      **kwargs: The arguments of `BertEncoderV2`.

    Example:
      `AdapterBertEncoder(vocab_size=30522, adapter=AdapterConfig(size=64))`
    """

    def __init__(
        self,
        *,
        adapter: AdapterConfig | dict | None = None,
        norm_epsilon: float = 1e-12,
        inner_activation=gelu,
        **kwargs,
    ):
        super().__init__(inner_activation=inner_activation, **kwargs)
        self.adapter = AdapterConfig(**adapter) if isinstance(adapter, dict) else adapter
        self.norm_epsilon = norm_epsilon
        self._check_layers()
        # The parent fixes these; nothing is built before the first call.
        self._embedding_norm_layer.epsilon = norm_epsilon
        self._embedding_norm_layer = LayerNorm.like(self._embedding_norm_layer)
        self._embedding_dropout = Dropout(self._config["output_dropout"], name="embedding_dropout")
        self._attention_mask_layer = KeyMask(name="self_attention_mask")
        self._transformer_layers = [self._block(i) for i in range(self._num_layers)]

    def _check_layers(self) -> None:
        layers = self.adapter.layers if self.adapter else None
        if layers and not 0 <= layers[0] <= layers[-1] < self._num_layers:
            raise UserError(
                f"adapter layers must be from 0 to {self._num_layers - 1}, not {list(layers)}"
            )

    def _block(self, index: int) -> AdapterEncoderBlock:
        config = self._config
        adapted = self.adapter and index in self.adapter.in_layers(self._num_layers)
        return AdapterEncoderBlock(
            adapter=self.adapter if adapted else None,
            num_attention_heads=config["num_attention_heads"],
            inner_dim=config["inner_dim"],
            inner_activation=tf_keras.activations.get(config["inner_activation"]),
            output_dropout=config["output_dropout"],
            attention_dropout=config["attention_dropout"],
            norm_first=config["norm_first"],
            norm_epsilon=self.norm_epsilon,
            return_attention_scores=config["return_attention_scores"],
            kernel_initializer=tf_keras.initializers.get(config["initializer"]),
            name=f"transformer/layer_{index}",
        )

    @property
    def num_layers(self) -> int:
        """Number of Transformer layers."""
        return self._num_layers

    @property
    def hidden_size(self) -> int:
        """Width of the outputs."""
        return self._config["hidden_size"]

    def call(self, inputs: dict[str, tf.Tensor], output_range: int | None = None):
        """Computes the outputs, the last layer's for the first `output_range` tokens only.

        The parent has this in its constructor; here each use of one encoder can have its own.
        """
        configured = self._output_range
        self._output_range = output_range or configured
        try:
            return super().call(inputs)
        finally:
            self._output_range = configured

    def ensure_built(self) -> None:
        """Creates the variables, if no call has done so yet."""
        if not self.built:
            token = tf.zeros([1, 1], tf.int32)
            self({"input_word_ids": token, "input_mask": token + 1, "input_type_ids": token})

    def adapter_parameters(self) -> int:
        """Number of the adapters' parameters: what they add to the base."""
        variables = variables_by_path(self).items()
        return sum(v.shape.num_elements() for path, v in variables if is_adapter(path))

    def get_config(self):
        return {
            **super().get_config(),
            "adapter": self.adapter and self.adapter.to_dict(),
            "norm_epsilon": self.norm_epsilon,
        }
