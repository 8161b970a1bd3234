"""The BERT encoder with adapters."""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf
import tf_keras
from official.nlp.modeling import networks

from adapter_bert_tf import internals
from adapter_bert_tf.encoder import fast
from adapter_bert_tf.encoder.activations import ACTIVATIONS, gelu
from adapter_bert_tf.encoder.adapter import AdapterConfig
from adapter_bert_tf.encoder.block import AdapterEncoderBlock, shareable
from adapter_bert_tf.encoder.variables import is_adapter, variables_by_path
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.text.inputs import IDS, MASK, SEGMENTS

_EPSILON = 1e-12

for _activation in ACTIVATIONS.values():
    tf_keras.utils.register_keras_serializable("adapter_bert_tf")(_activation)


@tf_keras.utils.register_keras_serializable(package="adapter_bert_tf")
class AdapterBertEncoder(networks.BertEncoderV2):
    """Model Garden's BERT encoder with adapters in its Transformer layers.

    Inputs, outputs and base variables, with their names and shapes, are those of `BertEncoderV2`,
    so its checkpoints fit.

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
        norm_epsilon: float = _EPSILON,
        inner_activation=gelu,
        **kwargs,
    ):
        super().__init__(inner_activation=inner_activation, **kwargs)
        self.adapter = AdapterConfig(**adapter) if isinstance(adapter, dict) else adapter
        self.norm_epsilon = norm_epsilon
        config = super().get_config()
        self.num_layers, self.hidden_size = config["num_layers"], config["hidden_size"]
        self._check_layers()
        # The parent hard-codes these layers. Nothing is built before the first call.
        layers = internals.get_encoder_layers(self)
        layers["norm"].epsilon = norm_epsilon
        dropout = fast.make_dropout(config["output_dropout"], name="embedding_dropout")
        replaced = {"dropout": dropout}
        if fast.is_on():
            replaced |= {name: fast.faster(layers[name]) for name in ("norm", "mask")}
        replaced["blocks"] = [self.make_block(i) for i in range(self.num_layers)]
        internals.set_encoder_layers(self, replaced)

    def _check_layers(self) -> None:
        layers = self.adapter.layers if self.adapter else None
        if layers and not 0 <= layers[0] <= layers[-1] < self.num_layers:
            raise UserError(
                f"adapter layers must be from 0 to {self.num_layers - 1}, not {list(layers)}"
            )

    def make_block(self, index: int) -> AdapterEncoderBlock:
        """Returns a new Transformer layer for a place in the encoder."""
        config = super().get_config()
        adapted = self.adapter and index in self.adapter.in_layers(self.num_layers)
        return AdapterEncoderBlock(
            adapter=self.adapter if adapted else None,
            num_attention_heads=config["num_attention_heads"],
            inner_dim=config["inner_dim"],
            inner_activation=tf_keras.activations.get(config["inner_activation"]),
            output_dropout=config["output_dropout"],
            attention_dropout=config["attention_dropout"],
            attention_output_dropout=config["output_dropout"],
            norm_first=config["norm_first"],
            norm_epsilon=self.norm_epsilon,
            return_attention_scores=config["return_attention_scores"],
            kernel_initializer=tf_keras.initializers.get(config["initializer"]),
            name=f"transformer/layer_{index}",
        )

    def call(self, inputs: dict[str, tf.Tensor], output_range: int | None = None):
        """Computes the outputs.

        Args:
          inputs: Ids, mask and segments.
          output_range: How many tokens of each row the last layer computes; by default all.
        """
        with internals.output_range(self, output_range):
            return super().call(inputs)

    def ensure_built(self, given: Mapping[str, tf.Variable | np.ndarray] | None = None) -> None:
        """Creates the variables, if no call has done so yet.

        Args:
          given: By path, variables that are used instead of new ones, or the values that new ones
            start with. A value of another shape is not used.
        """
        if self.built:
            return
        token = tf.zeros([1, 1], tf.int32)
        with tf.variable_creator_scope(_from(given or {})):
            self({IDS: token, MASK: token + 1, SEGMENTS: token})
        variables = variables_by_path(self)
        for path, value in (given or {}).items():
            if isinstance(value, tf.Variable) and variables.get(path) is not value:
                raise ValueError(f"{path} can't be shared: the encoders differ")

    def share_layers(self, other: "AdapterBertEncoder") -> None:
        """Calls another encoder's layers where their variables are this encoder's own already.

        The objects that Keras makes of MiniLM's layers take 1.3 MB, half as much as the variables
        of a task.
        """
        mine, others = (internals.get_encoder_layers(each) for each in (self, other))
        for block, others_block in zip(mine.pop("blocks"), others.pop("blocks"), strict=True):
            block.share_layers(others_block)
        internals.set_encoder_layers(self, shareable(mine, others))

    def adapter_parameters(self) -> int:
        """Returns the number of the adapters' parameters: what they add to the base."""
        variables = variables_by_path(self).items()
        return sum(v.shape.num_elements() for path, v in variables if is_adapter(path))

    def get_build_config(self):
        """Returns nothing: shapes alone would not build the layers in it. See `ensure_built`."""

    def get_config(self):
        config = super().get_config()
        # A plain encoder's configuration is Model Garden's own.
        if self.adapter:
            config["adapter"] = self.adapter.to_dict()
        if self.norm_epsilon != _EPSILON:
            config["norm_epsilon"] = self.norm_epsilon
        return config


def _from(given: Mapping[str, tf.Variable | np.ndarray]):
    """Returns a creator of variables that takes what is given before it makes anything else."""

    def create(next_creator, **arguments):
        name = f"/{tf.get_current_name_scope()}/{arguments['name']}"
        value = next((given[path] for path in given if name.endswith(f"/{path}")), None)
        if isinstance(value, tf.Variable):
            return value
        if value is not None and value.shape == tuple(arguments["shape"]):
            arguments["initial_value"] = value
        return next_creator(**arguments)

    return create
