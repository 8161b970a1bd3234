"""Turns texts, or pairs of texts, into BERT's inputs."""

from collections.abc import Sequence

import tensorflow as tf

from adapter_bert_tf.checks import text
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.text.tokenizer import Tokenizer

# The names that Model Garden's encoder uses. Batches and exported signatures use them too.
IDS, MASK, SEGMENTS = "input_word_ids", "input_mask", "input_type_ids"


def encode(
    tokenizer: Tokenizer,
    texts: tf.Tensor,
    pairs: tf.Tensor | None,
    max_seq_length: int | tf.Tensor,
) -> dict[str, tf.RaggedTensor]:
    """Returns `[CLS] a [SEP]`, or `[CLS] a [SEP] b [SEP]` for pairs, without padding.

    Args:
      tokenizer: The base's tokenizer.
      texts: The texts, `[rows]`.
      pairs: The second texts, `[rows]`, or None. A row whose second text has no tokens is encoded
        as a single text, as in the original.
      max_seq_length: The largest number of tokens in a row, including special tokens. It can
        be a tensor with one int64 per row.
    """
    a = tokenizer.tokenize(texts)
    if pairs is None:
        return join(tokenizer, keep(a, max_seq_length - 2), None)
    b = tokenizer.tokenize(pairs)
    specials = 2 + tf.cast(b.row_lengths() > 0, tf.int64)
    room = tf.cast(max_seq_length, tf.int64) - specials
    room_a, room_b = _shares(a.row_lengths(), b.row_lengths(), room)
    return join(tokenizer, keep(a, room_a), keep(b, room_b))


def join(
    tokenizer: Tokenizer, first: tf.RaggedTensor, second: tf.RaggedTensor | None
) -> dict[str, tf.RaggedTensor]:
    """Adds the special tokens to rows of tokens."""
    rows = first.nrows()
    cls = tf.fill([rows, 1], tokenizer.cls_id)
    sep = tf.fill([rows, 1], tokenizer.sep_id)
    head = tf.concat([cls, first, sep], axis=1)
    if second is None:
        return {IDS: head, MASK: tf.ones_like(head), SEGMENTS: tf.zeros_like(head)}
    tail = tf.concat([second, keep(tf.RaggedTensor.from_tensor(sep), second.row_lengths())], axis=1)
    ids = tf.concat([head, tail], axis=1)
    segments = tf.concat([tf.zeros_like(head), tf.ones_like(tail)], axis=1)
    return {IDS: ids, MASK: tf.ones_like(ids), SEGMENTS: segments}


def pad(inputs: dict[str, tf.RaggedTensor]) -> dict[str, tf.Tensor]:
    """Pads ragged inputs with zeros to the longest row."""
    return {name: values.to_tensor() for name, values in inputs.items()}


def _shares(a: tf.Tensor, b: tf.Tensor, room: int | tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns how many tokens of each text remain.

    The result is that of BERT's own loop, which cuts one token at a time from the longer text,
    and from b if both are equally long.
    """
    half = (room + 1) // 2
    a = tf.minimum(a, tf.maximum(room - b, half))
    return a, tf.minimum(b, room - a)


def keep(tokens: tf.RaggedTensor, lengths: tf.Tensor | int) -> tf.RaggedTensor:
    """Cuts each row to its given length."""
    kept = tf.minimum(tokens.row_lengths(), tf.cast(lengths, tf.int64))
    starts = tokens.row_starts()
    positions = tf.ragged.range(starts, starts + kept)
    return tf.gather(tokens.flat_values, positions)


def check_texts(
    name: str | None,
    takes_pairs: bool | None,
    texts: Sequence[str],
    pairs: Sequence[str] | None,
) -> None:
    """Refuses what a task can't take for its texts.

    Args:
      name: Name of the task.
      takes_pairs: Whether its rows are pairs; None if that is unknown.
      texts: The texts.
      pairs: The second texts.
    """
    if isinstance(texts, str) or isinstance(pairs, str):
        raise UserError("expected a list of texts, not a single one")
    if takes_pairs and pairs is None:
        raise UserError(f"{name}: a task on pairs, it needs the second texts too")
    if takes_pairs is False and pairs is not None:
        raise UserError(f"{name}: a task on single texts, it takes no second texts")
    if pairs is not None and len(pairs) != len(texts):
        raise UserError(f"{len(texts)} texts, but {len(pairs)} second texts")
    for title, column in (("text", texts), ("second text", pairs)):
        for number, each in enumerate(() if column is None else column):
            text(each, f"{title} {number}")
