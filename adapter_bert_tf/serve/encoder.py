"""The encoder of many tasks."""

from collections.abc import Mapping

import tensorflow as tf
import tf_keras
from official.nlp.modeling import layers

from adapter_bert_tf.encoder.adapter_config import AdapterConfig
from adapter_bert_tf.encoder.block import AdapterEncoderBlock
from adapter_bert_tf.encoder.encoder import AdapterBertEncoder
from adapter_bert_tf.serve.adapter import TaskAdapter
from adapter_bert_tf.serve.attention import RowAttention
from adapter_bert_tf.serve.layer_norm import TaskLayerNorm
from adapter_bert_tf.serve.rows import POSITIONS, Batch, Rows
from adapter_bert_tf.serve.table import Table
from adapter_bert_tf.text.inputs import IDS, SEGMENTS


class TaskEncoder(AdapterBertEncoder):
    """`AdapterBertEncoder` in which each row has the LayerNorms and adapters of its task.

    `call()` is Model Garden's, on all tokens as one row. The layers that it calls are replaced
    by such as know where the rows begin, and of which task they are.

    Args:
      tables: What the tasks bring, by path.
      adapter: What their adapters have in common, with every layer and site that one has.
      **kwargs: The arguments of `AdapterBertEncoder`.
    """

    def __init__(self, tables: Mapping[str, Table], adapter: AdapterConfig | None, **kwargs):
        # What Keras tracks can't be set before its own __init__, which asks for the blocks.
        self.__dict__["_batch"], self.__dict__["_tables"] = Batch(), tables
        super().__init__(adapter=adapter, **kwargs)
        self._embedding_norm_layer = task_layer_norm(
            self._embedding_norm_layer, "embeddings/layer_norm", self._batch, tables
        )
        self._position_embedding_layer = _Positions(
            self._batch, **self._position_embedding_layer.get_config()
        )
        self._attention_mask_layer = _NoMask()

    def _block(self, index: int) -> AdapterEncoderBlock:
        return _TaskBlock(self._batch, self._tables, **super()._block(index).get_config())

    def encode(self, rows: Rows) -> dict[str, tf.Tensor]:
        """Returns `sequence_output`, `[tokens, width]`, and `pooled_output`, `[rows, width]`."""
        self._batch.rows = rows
        ids = rows.ids[None]
        encoded = self(
            {"input_word_ids": ids, "input_mask": ids, "input_type_ids": rows.segments[None]}
        )
        tokens = encoded["sequence_output"][0]
        pooled = self.pooler_layer(tf.gather(tokens, rows.starts))
        return {"sequence_output": tokens, "pooled_output": pooled}

    def ensure_built(self) -> None:
        if not self.built:
            token = tf.ragged.constant([[0]], tf.int32)
            names = (IDS, SEGMENTS, POSITIONS)
            self.encode(Rows.line_up(dict.fromkeys(names, token), tf.zeros([1], tf.int32)))


class _TaskBlock(AdapterEncoderBlock):
    """A Transformer layer on rows without padding, with the tasks' own layers."""

    def __init__(self, batch: Batch, tables: Mapping[str, Table], **kwargs):
        super().__init__(**kwargs)
        self._batch, self._tables = batch, tables

    def build(self, input_shape):
        super().build(input_shape)
        self._attention_layer = RowAttention.like(self._attention_layer, batch=self._batch)
        self._attention_layer_norm = self._norm(self._attention_layer_norm)
        self._output_layer_norm = self._norm(self._output_layer_norm)

    def _norm(self, layer: tf_keras.layers.LayerNormalization) -> TaskLayerNorm:
        return task_layer_norm(layer, f"{self.name}/{layer.name}", self._batch, self._tables)

    def _site(self, site: str) -> tf_keras.layers.Layer:
        adapter = self._adapter_at(site)
        if adapter is None:
            return super()._site(site)
        prefix = f"{self.name}/{site}_adapter/"
        tables = {
            path.removeprefix(prefix): table
            for path, table in self._tables.items()
            if path.startswith(prefix)
        }
        return TaskAdapter(self._batch, adapter, tables)


def task_layer_norm(
    layer: tf_keras.layers.LayerNormalization,
    path: str,
    batch: Batch,
    tables: Mapping[str, Table],
) -> TaskLayerNorm:
    """Returns what takes the place of the LayerNorm at that path."""
    return TaskLayerNorm(batch, tables[f"{path}/gamma"], tables[f"{path}/beta"], layer.epsilon)


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
