"""The attention's mask without a copy for each query."""

import tensorflow as tf
import tf_keras
from official.nlp.modeling import layers


@tf_keras.utils.register_keras_serializable(package="adapter_bert_tf")
class KeyMask(layers.SelfAttentionMask):
    """Model Garden's mask as `[batch, 1, length]`: it is the same for all queries of a row."""

    def call(self, inputs: tf.Tensor, to_mask: tf.Tensor) -> tf.Tensor:
        return tf.cast(to_mask[:, tf.newaxis], inputs.dtype)
