"""From texts, or pairs of texts, to BERT's inputs."""

import tensorflow as tf

from adapter_bert_tf.text.tokenizer import Tokenizer

# The names of Model Garden's encoder, from batches to the signatures of an export.
IDS, MASK, SEGMENTS = "input_word_ids", "input_mask", "input_type_ids"


def encode(
    tokenizer: Tokenizer,
    texts: tf.Tensor,
    pairs: tf.Tensor | None,
    max_seq_length: int | tf.Tensor,
) -> dict[str, tf.RaggedTensor]:
    """Returns `[CLS] a [SEP]`, or `[CLS] a [SEP] b [SEP]`, unpadded.

    Args:
      tokenizer: The base's tokenizer.
      texts: The texts, `[rows]`.
      pairs: The second texts, `[rows]`, or None. A row whose second text is empty still
        gets its `[SEP]`.
      max_seq_length: Room for a row, its special tokens included; or an int64 for each row.
    """
    a = tokenizer.tokenize(texts)
    if pairs is None:
        return join(tokenizer, keep(a, max_seq_length - 2), None)
    b = tokenizer.tokenize(pairs)
    room_a, room_b = _shares(a.row_lengths(), b.row_lengths(), max_seq_length - 3)
    return join(tokenizer, keep(a, room_a), keep(b, room_b))


def join(
    tokenizer: Tokenizer, first: tf.RaggedTensor, second: tf.RaggedTensor | None
) -> dict[str, tf.RaggedTensor]:
    """Puts the special tokens around rows of tokens."""
    rows = first.nrows()
    cls = tf.fill([rows, 1], tokenizer.cls_id)
    sep = tf.fill([rows, 1], tokenizer.sep_id)
    head = tf.concat([cls, first, sep], axis=1)
    if second is None:
        return {IDS: head, MASK: tf.ones_like(head), SEGMENTS: tf.zeros_like(head)}
    tail = tf.concat([second, sep], axis=1)
    ids = tf.concat([head, tail], axis=1)
    segments = tf.concat([tf.zeros_like(head), tf.ones_like(tail)], axis=1)
    return {IDS: ids, MASK: tf.ones_like(ids), SEGMENTS: segments}


def pad(inputs: dict[str, tf.RaggedTensor]) -> dict[str, tf.Tensor]:
    """Pads ragged inputs with zeros to the longest row."""
    return {name: values.to_tensor() for name, values in inputs.items()}


def _shares(a: tf.Tensor, b: tf.Tensor, room: int | tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The lengths after cutting the longer text one token at a time; on a tie b is cut."""
    half = (room + 1) // 2
    a = tf.minimum(a, tf.maximum(room - b, half))
    return a, tf.minimum(b, room - a)


def keep(tokens: tf.RaggedTensor, lengths: tf.Tensor | int) -> tf.RaggedTensor:
    """Cuts each row to its length."""
    kept = tf.minimum(tokens.row_lengths(), tf.cast(lengths, tf.int64))
    starts = tokens.row_starts()
    positions = tf.ragged.range(starts, starts + kept)
    return tf.gather(tokens.flat_values, positions)
