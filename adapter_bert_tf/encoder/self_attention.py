"""Keras's multi-head attention on 2-D products."""

import tf_keras

from adapter_bert_tf.encoder.dropout import Dropout
from adapter_bert_tf.encoder.flat_dense import FlatDense


@tf_keras.utils.register_keras_serializable(package="adapter_bert_tf")
class SelfAttention(tf_keras.layers.MultiHeadAttention):
    """`MultiHeadAttention` with `FlatDense` projections and the fast `Dropout`.

    With `keeps_input` it answers `(output, query)`: see `FlatDense`.
    """

    def __init__(self, *args, keeps_input: bool = False, **kwargs):
        super().__init__(*args, **kwargs)
        self.keeps_input = keeps_input

    @classmethod
    def like(cls, layer: tf_keras.layers.MultiHeadAttention, **changes) -> "SelfAttention":
        """Returns an unbuilt layer with the configuration of the unbuilt `layer` and `changes`."""
        config = {**layer.get_config(), **changes}
        for shape in ("query_shape", "key_shape", "value_shape"):
            config.pop(shape)
        return cls(**config)

    def _build_from_signature(self, query, value, key=None):
        super()._build_from_signature(query, value, key)
        self._query_dense = FlatDense.like(self._query_dense)
        self._key_dense = FlatDense.like(self._key_dense)
        self._value_dense = FlatDense.like(self._value_dense)
        self._output_dense = FlatDense.like(self._output_dense)
        self._dropout_layer = Dropout(self._dropout, dtype=self._dtype_policy)

    def call(self, query, value, **kwargs):
        outputs = super().call(query, value, **kwargs)
        if not self.keeps_input:
            return outputs
        if isinstance(outputs, tuple):
            output, scores = outputs
            return (output, query), scores
        return outputs, query

    def get_config(self):
        return {**super().get_config(), "keeps_input": self.keeps_input}
