"""A frozen BERT as a sentence encoder."""

import tensorflow as tf

from adapter_bert_tf.base.load import load_encoder
from adapter_bert_tf.baseline.modules import BERT
from adapter_bert_tf.baseline.text_module import TextModule
from adapter_bert_tf.text.inputs import MASK, encode, pad

_LONGEST = 128
# Texts that go through the encoder together.
_TOGETHER = 256


class SentenceEncoder(TextModule):
    """The mean of a BERT's outputs, scaled so that a number of it has the mean square 1.

    The mean is what `minilm`, all-MiniLM-L6-v2, was trained for.
    """

    def __init__(self, name: str):
        super().__init__(name)
        self._encoder = load_encoder(name.removeprefix(BERT), None)
        base = self._encoder.base
        self._tokenizer = base.tokenizer
        self._length = min(_LONGEST, base.config.max_sequence_length)
        self.width = self._encoder.hidden_size

    @property
    def fingerprint(self) -> str:
        return self._encoder.base.fingerprint

    def as_read(self, texts: tf.Tensor) -> tf.Tensor:
        lower = self._tokenizer.vocabulary.lower_case
        return tf.strings.lower(texts, "utf-8") if lower else texts

    def embed(self, texts: tf.Tensor) -> tf.Tensor:
        # The encoder takes no empty batch, and a text without words has none to embed.
        count = tf.size(texts)
        texts = tf.concat([texts, tf.fill([tf.cast(count == 0, tf.int32)], "")], axis=0)
        # Similar lengths together: one long word would pad the thousands of a batch's words.
        order = tf.argsort(tf.strings.length(texts), stable=True)
        starts = tf.range(0, tf.size(texts), _TOGETHER)
        parts = tf.RaggedTensor.from_row_starts(tf.gather(texts, order), starts, validate=False)
        spec = tf.RaggedTensorSpec([None, self.width], tf.float32, ragged_rank=0)
        vectors = tf.map_fn(self._embed, parts, fn_output_signature=spec).values
        return tf.gather(vectors, tf.argsort(order)[:count])

    def _embed(self, texts: tf.Tensor) -> tf.Tensor:
        inputs = pad(encode(self._tokenizer, texts, None, self._length))
        outputs = self._encoder(inputs, training=False)["sequence_output"]
        weights = tf.cast(inputs[MASK], tf.float32)[:, :, None]
        total = tf.reduce_sum(outputs * weights, axis=1)
        return tf.math.l2_normalize(total, axis=1) * self.width**0.5
