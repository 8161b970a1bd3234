"""The encoder that computes rows of different tasks in one batch."""

import dataclasses
from collections.abc import Sequence

import tensorflow as tf
import tf_keras
from official.nlp.modeling import layers

from adapter_bert_tf import internals
from adapter_bert_tf.encoder import fast
from adapter_bert_tf.encoder.adapter import ATTENTION, FEED_FORWARD, AdapterConfig
from adapter_bert_tf.encoder.adapter_layer import InputOf
from adapter_bert_tf.encoder.block import AdapterEncoderBlock
from adapter_bert_tf.encoder.encoder import AdapterBertEncoder
from adapter_bert_tf.serve.attention import Attention, RowAttention
from adapter_bert_tf.serve.forks import Forks
from adapter_bert_tf.serve.layers import Site, Sites
from adapter_bert_tf.serve.rows import Batch, Texts
from adapter_bert_tf.serve.values import Values, served_width
from adapter_bert_tf.text.inputs import IDS, MASK, SEGMENTS


@dataclasses.dataclass(frozen=True)
class _Shared:
    """What the layers of the encoder share."""

    batch: Batch
    sites: Sites
    attention: Attention


class TaskEncoder(AdapterBertEncoder):
    """An `AdapterBertEncoder` in which each row has the LayerNorms and adapters of its task.

    `call()` is Model Garden's. It is given the tokens of all rows as if they were a single row. The
    layers that it calls are replaced by layers that know the rows and their tasks: see `Batch`.

    Args:
      values: The values of the tasks' variables.
      adapter: The layers and sites at which some task has an adapter.
      forms: The forms of the adapters.
      form_of_task: Which of the forms each task has.
      forks: Where tasks on one text, which are computed once until then, part.
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
        forms: Sequence[AdapterConfig],
        form_of_task: Sequence[int],
        forks: Forks,
        *,
        hidden_size: int,
        num_attention_heads: int,
        inner_dim: int,
        norm_epsilon: float,
        **kwargs,
    ):
        sites = Sites(forms, form_of_task, values, hidden_size, norm_epsilon)
        shared = _Shared(Batch(num_attention_heads, forks), sites, Attention())
        # Keras allows no attribute to be set before its own __init__, which calls `make_block`.
        self.__dict__["_shared"] = shared
        with fast.switched(on=True):
            super().__init__(
                adapter=adapter,
                hidden_size=hidden_size,
                num_attention_heads=num_attention_heads,
                inner_dim=served_width(inner_dim),
                norm_epsilon=norm_epsilon,
                **kwargs,
            )
        norm = Site(shared.batch, sites, sites.at("embeddings/layer_norm"))
        positions = internals.get_encoder_layers(self)["positions"].get_config()
        replaced = {
            "norm": norm,
            "positions": _Positions(shared.batch, **positions),
            "mask": _NoMask(),
        }
        internals.set_encoder_layers(self, replaced)

    def make_block(self, index: int) -> AdapterEncoderBlock:
        return _TaskBlock(self._shared, index + 1, **super().make_block(index).get_config())

    def encode(
        self,
        texts: Texts,
        tasks: tf.Tensor,
        row_texts: tf.Tensor,
        output_range: int | None = None,
    ) -> tf.Tensor:
        """Returns the tokens' outputs, `[tokens, width]`.

        Args:
          texts: The texts of the batch.
          tasks: Number of each row's task, `[rows]`, sorted.
          row_texts: Number of each row's text, `[rows]`.
          output_range: 1 to compute only the first token of each row, `[rows, width]`.
        """
        batch = self._shared.batch
        first = batch.start(texts, tasks, row_texts)
        ids = first.ids[None]
        inputs = {IDS: ids, MASK: ids, SEGMENTS: first.segments[None]}
        outputs = self(inputs, output_range=output_range)["sequence_output"][0]
        return batch.fork(self.num_layers + 1, outputs)

    def encode_firsts(
        self, texts: Texts, tasks: tf.Tensor, row_texts: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the pooled outputs of the rows, `[rows, width]`, and those of first tokens."""
        firsts = self.encode(texts, tasks, row_texts, output_range=1)
        return self.pooler_layer(firsts), firsts

    def ensure_built(self, shared=None) -> None:
        if not self.built:
            zero, one = tf.zeros([1], tf.int32), tf.ones([1], tf.int32)
            self.encode_firsts(Texts(zero, zero, zero, one), zero, zero)


class _TaskBlock(AdapterEncoderBlock):
    """A Transformer layer for rows without padding, with the adapters and LayerNorms of tasks."""

    # A server may have been built without XLA.
    compiles = False

    def __init__(self, shared: _Shared, point: int, **kwargs):
        super().__init__(**kwargs)
        self._shared, self._point = shared, point

    def replaced(self, layers):
        shared, attention = self._shared, layers["attention"].get_config()
        layers = super().replaced(
            {
                **layers,
                "attention": RowAttention(
                    attention["num_heads"],
                    attention["key_dim"],
                    shared.batch,
                    shared.attention,
                    name=layers["attention"].name,
                ),
            }
        )
        for site, sublayer, dropout, norm in (
            (ATTENTION, "attention", "attention_dropout", "attention_norm"),
            (FEED_FORWARD, "intermediate", "output_dropout", "output_norm"),
        ):
            layers[norm] = self._make_norm(site, layers[norm], layers[dropout], layers[sublayer])
        return layers

    def make_site(self, site, sublayer, norm, dropout):
        # The adapter is computed with the LayerNorm, which takes only the sum of both branches.
        with fast.switched(self.is_fast):
            return fast.make_dropout(dropout)

    def _make_norm(self, site: str, norm, dropout, sublayer) -> Site:
        sites, path = self._shared.sites, f"{self.name}/{norm.name}"
        if self.adapter is None or site not in self.adapter.sites:
            return Site(self._shared.batch, sites, sites.at(path))
        numbers = sites.at(path, f"{self.name}/{site}_adapter")
        source = InputOf(sublayer) if sites.read_inputs else None
        return Site(self._shared.batch, sites, numbers, InputOf(dropout), source)

    def call(self, inputs, output_range: int | None = None):
        """Calls the layer. An `output_range` of 1 means the first token of every row."""
        tokens, mask = inputs
        batch = self._shared.batch
        tokens = batch.fork(self._point, tokens[0])[None]
        if output_range is None:
            return super().call([tokens, mask])
        firsts = tf.gather(tokens, batch.rows.starts, axis=1)
        batch.keep_first_tokens()
        return super().call([firsts, tokens, mask])


class _Positions(layers.PositionEmbedding):
    """Position embeddings for concatenated rows: positions count from the start of each row."""

    def __init__(self, batch: Batch, **kwargs):
        super().__init__(**kwargs)
        self._batch = batch

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        table = internals.position_embeddings(self)
        return tf.gather(table, self._batch.positions)[None]


class _NoMask(tf_keras.layers.Layer):
    """Replaces the mask of all tokens by all tokens, which `RowAttention` does not need."""

    def call(self, inputs: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        return tf.ones([1, 1, 1])
