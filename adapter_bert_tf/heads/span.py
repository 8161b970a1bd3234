"""The head for answers in a text."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from adapter_bert_tf.errors import UserError
from adapter_bert_tf.heads.head import Answers, Head, output_dense
from adapter_bert_tf.squad.decoder import Decoding, decode
from adapter_bert_tf.squad.windows import WindowSizes, make_windows, tokenize_contexts
from adapter_bert_tf.text.inputs import MASK
from adapter_bert_tf.text.tokenizer import Tokenizer

QUESTION, CONTEXT = "question", "context"


@tf_keras.utils.register_keras_serializable(package="adapter_bert_tf")
class SpanHead(Head):
    """Sequence output -> logits of the answer's start and end, `[batch, length, 2]`.

    The logits of padding are the lowest number: loss and answers don't depend on how far a batch
    is padded.
    """

    kind = "span"
    tokens_read = None
    signature = "answer"
    request = (QUESTION, CONTEXT)
    metrics = {}  # noqa: RUF012
    default_metrics = ("exact_match", "f1")

    def __init__(self, name: str = "head", **kwargs):
        super().__init__(name=name, **kwargs)
        self.output_layer = output_dense(2)

    @classmethod
    def make(cls, labels: Sequence[str], dropout: float) -> Head:
        return cls()

    def settings(self) -> dict[str, Any]:
        return {}

    def call(self, encoded: dict[str, tf.Tensor]) -> tf.Tensor:
        logits = self.output_layer(encoded["sequence_output"])
        is_token = tf.cast(encoded[MASK], tf.bool)[:, :, None]
        return tf.where(is_token, logits, logits.dtype.min)

    def loss(self, labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Returns the mean cross entropy of start and end; `labels` are positions, `[batch, 2]`."""
        logits = tf.transpose(outputs, [0, 2, 1])
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.cast(labels, tf.int32), logits)
        return tf.reduce_mean(losses, axis=-1)

    @classmethod
    def answerer(
        cls,
        tasks: Sequence[tuple[str, Mapping[str, Any]]],
        tokenizer: Tokenizer,
        logits_of: Callable[..., tf.RaggedTensor],
    ) -> Callable[[dict[str, tf.Tensor], tf.Tensor], Answers]:
        sizes, common = _in_common(tasks)
        decodings = [Decoding.of(inputs) for _, inputs in tasks]
        with_negative = np.array([each.with_negative for each in decodings])
        thresholds = np.array([each.null_threshold for each in decodings], np.float64)

        def answer(request: dict[str, tf.Tensor], task: tf.Tensor) -> Answers:
            # Bytes that are not UTF-8 would have no place in characters.
            texts = tf.strings.unicode_transcode(request[CONTEXT], "UTF-8", "UTF-8")
            contexts = tokenize_contexts(tokenizer, texts)
            rows = tf.range(tf.size(task, tf.int64))
            windows = make_windows(tokenizer, request[QUESTION], contexts, rows, sizes)
            logits = logits_of(windows.inputs, tf.gather(task, windows.question), 2)
            decoding = dataclasses.replace(
                common,
                with_negative=tf.gather(with_negative, task),
                null_threshold=tf.gather(thresholds, task),
            )
            padded = logits.to_tensor(tf.float32.min)
            found = decode(tokenizer, contexts, windows, rows, padded, decoding)
            return {
                "answer": found.text,
                "score": tf.cast(found.score, tf.float32),
                "start": found.start,
                "end": found.end,
            }

        return answer


def _in_common(tasks: Sequence[tuple[str, Mapping[str, Any]]]) -> tuple[WindowSizes, Decoding]:
    """Returns how all tasks cut contexts and choose answers; only thresholds may differ."""
    first, wanted = tasks[0]
    for name, inputs in tasks:
        for kind in (WindowSizes, Decoding):
            ours, theirs = vars(kind.of(inputs)), vars(kind.of(wanted))
            for field in ours.keys() - {"with_negative", "null_threshold"}:
                if ours[field] != theirs[field]:
                    raise UserError(
                        f"{name}: has {field}={ours[field]}, {first} {theirs[field]}; "
                        "they can't be in one export"
                    )
    return WindowSizes.of(wanted), Decoding.of(wanted)
