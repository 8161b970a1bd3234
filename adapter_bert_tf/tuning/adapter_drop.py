"""AdapterDrop: tuning that lets a task do without the adapters of its lowest layers.

In each step of a training, the adapters and LayerNorms of the lowest layers fall back to the base,
of as many layers as are drawn for the step (Rücklé et al., EMNLP 2021). Tasks that are served
without them share the base's lowest layers: a text is computed there once for all of them.
"""

import contextlib
import threading
from collections.abc import Iterator

import numpy as np
import tensorflow as tf
import tf_keras

from adapter_bert_tf import internals
from adapter_bert_tf.encoder.adapter_layer import Adapter
from adapter_bert_tf.encoder.arithmetic import layer_norm
from adapter_bert_tf.encoder.encoder import AdapterBertEncoder
from adapter_bert_tf.encoder.variables import is_layer_norm, layer_of


class AdapterDrop:
    """Lets the lowest layers of an encoder fall back to the base, as many as each step draws.

    Args:
      encoder: The encoder, from `load_encoder`.
      most: The largest number of layers that fall back.

    Attributes:
      seed: What is drawn follows from this and from the number of the step, so that a resumed
        training draws the same.
    """

    def __init__(self, encoder: AdapterBertEncoder, most: int):
        base = getattr(encoder, "base", None)
        if base is None:
            raise ValueError(
                "adapter_drop needs the base: the encoder has to come from load_encoder"
            )
        self.seed = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.most = most
        # Devices trace their steps in threads of their own.
        self._local = threading.local()
        norms = {
            path: array
            for path, array in base.read()
            if is_layer_norm(path) and (layer_of(path) or 0) < most
        }
        layers = internals.get_encoder_layers(encoder)
        self._wrap_norm(layers["norm"], "embeddings/layer_norm", 0, norms)
        for number, block in enumerate(layers["blocks"][:most]):
            for name, layer in internals.get_block_layers(block).items():
                if isinstance(layer, Adapter):
                    layer.gate = lambda number=number: self._keeps(number)
                elif name in ("attention_norm", "output_norm"):
                    self._wrap_norm(layer, f"{block.name}/{layer.name}", number, norms)

    @contextlib.contextmanager
    def dropping(self, step: tf.Tensor) -> Iterator[None]:
        """Lets layers fall back in the calls of the encoder inside of the context.

        Args:
          step: Number of the step.
        """
        seed = tf.stack([self.seed, tf.cast(step, tf.int64)])
        self._local.dropped = tf.random.stateless_uniform(
            [], seed, 0, self.most + 1, dtype=tf.int32
        )
        try:
            yield
        finally:
            self._local.dropped = None

    def _keeps(self, number: int) -> tf.Tensor | None:
        """Returns whether a layer keeps its variables, or None outside of a step."""
        dropped = getattr(self._local, "dropped", None)
        return None if dropped is None else dropped <= number

    def _wrap_norm(
        self,
        norm: tf_keras.layers.LayerNormalization,
        path: str,
        number: int,
        base: dict[str, np.ndarray],
    ) -> None:
        """Lets a LayerNorm fall back. Keras has no hooks, so its `call` is wrapped."""
        call = norm.call

        def call_or_fall_back(inputs: tf.Tensor, *args, **kwargs) -> tf.Tensor:
            keeps = self._keeps(number)
            if keeps is None:
                return call(inputs, *args, **kwargs)
            gamma, beta = (
                tf.where(keeps, getattr(norm, name), base[f"{path}/{name}"])
                for name in ("gamma", "beta")
            )
            return layer_norm(tf.cast(inputs, norm.compute_dtype), gamma, beta, norm.epsilon)

        norm.call = call_or_fall_back
