"""The encoder of many tasks."""

import dataclasses

import tensorflow as tf
import tf_keras
from official.nlp.modeling import layers

from adapter_bert_tf.encoder.adapter_config import AdapterConfig
from adapter_bert_tf.encoder.block import AdapterEncoderBlock
from adapter_bert_tf.encoder.encoder import AdapterBertEncoder
from adapter_bert_tf.serve.adapter import Bottlenecks, TaskAdapter
from adapter_bert_tf.serve.attention import Loop, RowAttention
from adapter_bert_tf.serve.base_values import served_width
from adapter_bert_tf.serve.batch import Batch
from adapter_bert_tf.serve.layer_norm import Norms, TaskLayerNorm
from adapter_bert_tf.serve.rows import POSITIONS, Rows
from adapter_bert_tf.serve.values import Values
from adapter_bert_tf.text.inputs import IDS, SEGMENTS


@dataclasses.dataclass(frozen=True)
class _Shared:
    """What the layers have in common: a part of the graph for each of them would be the same."""

    batch: Batch
    norms: Norms
    bottlenecks: Bottlenecks | None
    attention: Loop


class TaskEncoder(AdapterBertEncoder):
    """`AdapterBertEncoder` in which each row has the LayerNorms and adapters of its task.

    `call()` is Model Garden's, on all tokens as one row. The layers that it calls are replaced
    by such as know where the rows begin, and of which task they are.

    Args:
      values: What the tasks bring.
      adapter: What their adapters have in common, with every layer and site that one has.
      hidden_size: Width of the outputs.
      num_attention_heads: Heads of each layer.
      inner_dim: Width between the two feed-forward projections.
      norm_epsilon: Epsilon of every LayerNorm.
      **kwargs: The other arguments of `AdapterBertEncoder`.
    """

    def __init__(
        self,
        values: Values,
        adapter: AdapterConfig | None,
        *,
        hidden_size: int,
        num_attention_heads: int,
        inner_dim: int,
        norm_epsilon: float,
        **kwargs,
    ):
        shared = _Shared(
            Batch(num_attention_heads),
            Norms(values, hidden_size, norm_epsilon),
            Bottlenecks(adapter, values, hidden_size) if adapter else None,
            Loop(),
        )
        # Keras lets nothing be set before its own __init__, which asks for the blocks.
        self.__dict__["_shared"] = shared
        super().__init__(
            adapter=adapter,
            hidden_size=hidden_size,
            num_attention_heads=num_attention_heads,
            inner_dim=served_width(inner_dim),
            norm_epsilon=norm_epsilon,
            **kwargs,
        )
        self._embedding_norm_layer = TaskLayerNorm(
            shared.batch, shared.norms, "embeddings/layer_norm"
        )
        self._position_embedding_layer = _Positions(
            shared.batch, **self._position_embedding_layer.get_config()
        )
        self._attention_mask_layer = _NoMask()

    def _block(self, index: int) -> AdapterEncoderBlock:
        return _TaskBlock(self._shared, **super()._block(index).get_config())

    def encode(self, rows: Rows, output_range: int | None = None) -> tf.Tensor:
        """Returns the tokens' outputs, `[tokens, width]`.

        Args:
          rows: The batch.
          output_range: 1 for those of the rows' first tokens only, `[rows, width]`.
        """
        self._shared.batch.set(rows)
        ids = rows.ids[None]
        inputs = {"input_word_ids": ids, "input_mask": ids, "input_type_ids": rows.segments[None]}
        return self(inputs, output_range=output_range)["sequence_output"][0]

    def pool(self, rows: Rows) -> tf.Tensor:
        """Returns the rows' pooled outputs, `[rows, width]`."""
        return self.pooler_layer(self.encode(rows, output_range=1))

    def ensure_built(self) -> None:
        if not self.built:
            token = tf.ragged.constant([[0]], tf.int32)
            names = (IDS, SEGMENTS, POSITIONS)
            self.pool(Rows.line_up(dict.fromkeys(names, token), tf.zeros([1], tf.int32)))


class _TaskBlock(AdapterEncoderBlock):
    """A Transformer layer on rows without padding, with the tasks' own layers."""

    # A server need not have XLA.
    compiles = False

    def __init__(self, shared: _Shared, **kwargs):
        super().__init__(**kwargs)
        self._shared = shared

    def build(self, input_shape):
        super().build(input_shape)
        self._attention_layer = RowAttention(
            self._attention_layer, input_shape[0][-1], self._shared.batch, self._shared.attention
        )
        self._attention_layer_norm = self._norm(self._attention_layer_norm)
        self._output_layer_norm = self._norm(self._output_layer_norm)

    def call(self, inputs, output_range: int | None = None):
        """As the parent's, but `output_range` is 1, and means the first token of every row."""
        if output_range is None:
            return super().call(inputs)
        tokens, mask = inputs
        firsts = tf.gather(tokens, self._shared.batch.rows.starts, axis=1)
        self._shared.batch.keep_first_tokens()
        return super().call([firsts, tokens, mask])

    def _norm(self, layer: tf_keras.layers.LayerNormalization) -> TaskLayerNorm:
        return TaskLayerNorm(self._shared.batch, self._shared.norms, f"{self.name}/{layer.name}")

    def _site(self, site: str) -> tf_keras.layers.Layer:
        shared = self._shared
        if shared.bottlenecks is None or self._adapter_at(site) is None:
            return super()._site(site)
        return TaskAdapter(shared.batch, shared.bottlenecks, f"{self.name}/{site}_adapter")


class _Positions(layers.PositionEmbedding):
    """Embeds the places that tokens have in their rows."""

    def __init__(self, batch: Batch, **kwargs):
        super().__init__(**kwargs)
        self._batch = batch

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        return tf.gather(self._position_embeddings, self._batch.rows.positions)[None]


class _NoMask(tf_keras.layers.Layer):
    """In place of a mask of all tokens by all tokens: `RowAttention` needs none."""

    def call(self, inputs: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        return tf.ones([1, 1, 1])
