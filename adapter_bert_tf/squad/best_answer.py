"""The best answer to each question, in the graph; `answers.py` lists the n best, in Python."""

import tensorflow as tf

from adapter_bert_tf.squad.spans import Spans
from adapter_bert_tf.squad.windows import Contexts
from adapter_bert_tf.text.inputs import keep
from adapter_bert_tf.text.tokenizer import Tokenizer

_UNIT = "UTF8_CHAR"


def best_answers(
    tokenizer: Tokenizer, contexts: Contexts, spans: Spans, n_best_size: int
) -> dict[str, tf.Tensor]:
    """Words the best span in each context, as the original does.

    Args:
      tokenizer: The base's tokenizer.
      contexts: The contexts; each has one question.
      spans: The spans.
      n_best_size: Spans among which the score is the probability of the best.

    Returns:
      `answer`, `score`, and where it stands in the context: `start` and `end`, in bytes. Without
      a span the answer is "".
    """
    count = contexts.ids.nrows()
    rows = tf.range(count)
    firsts = tf.searchsorted(spans.question, rows, "left", tf.int64)
    counts = tf.searchsorted(spans.question, rows, "right", tf.int64) - firsts
    rows = tf.boolean_mask(rows, counts > 0)
    best = tf.gather(firsts, rows)
    tokens = tf.gather(contexts.ids.row_starts(), rows)
    first = tf.gather(spans.first_token, best) + tokens
    last = tf.gather(spans.last_token, best) + tokens
    answer, start, end = _locate(tokenizer, contexts, rows, first, last)
    found = {
        "answer": answer,
        "score": tf.gather(_scores(spans, counts, n_best_size), rows),
        "start": start,
        "end": end,
    }
    return {
        name: tf.scatter_nd(rows[:, tf.newaxis], values, [count])
        if values.dtype != tf.string
        else tf.tensor_scatter_nd_update(tf.fill([count], ""), rows[:, tf.newaxis], values)
        for name, values in found.items()
    }


def _scores(spans: Spans, counts: tf.Tensor, n_best_size: int) -> tf.Tensor:
    """The probability of each question's best span, among its best ones."""
    logits = tf.RaggedTensor.from_row_lengths(spans.start_logit + spans.end_logit, counts)
    logits = keep(logits, n_best_size)
    highest = tf.repeat(tf.reduce_max(logits, axis=1), logits.row_lengths())
    weights = logits.with_flat_values(tf.exp(logits.flat_values - highest))
    return tf.math.divide_no_nan(1.0, tf.reduce_sum(weights, axis=1))


def _locate(
    tokenizer: Tokenizer, contexts: Contexts, rows: tf.Tensor, first: tf.Tensor, last: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Finds the text of tokens in the words that hold them: see `answers._locate`.

    Args:
      tokenizer: The base's tokenizer.
      contexts: The contexts.
      rows: Numbers of contexts.
      first: First token, counted over all contexts.
      last: Last token, likewise.

    Returns:
      The text, and the bytes at which it starts and ends in the context.
    """
    word = tf.gather(contexts.words.row_starts(), rows)
    first_word = tf.gather(contexts.word_of.flat_values, first) + word
    last_word = tf.gather(contexts.word_of.flat_values, last) + word
    words = tf.gather(contexts.words.flat_values, tf.ragged.range(first_word, last_word + 1))
    joined = tf.strings.reduce_join(words, axis=1, separator=" ")
    split = _single_spaces(tokenizer.split(joined))
    text = _text_of(tokenizer, contexts, first, last)
    found, before = _find(split, text)

    sizes = words.with_flat_values(_characters(words.flat_values))
    total = tf.reduce_sum(sizes, axis=1)
    found &= total == _characters(_without_spaces(split))
    start = tf.where(found, _characters(_without_spaces(before)), 0)
    end = tf.where(found, start + _characters(_without_spaces(text)), total)

    first_in, start_in = _word_at(sizes, start)
    last_in, end_in = _word_at(sizes, end - 1)
    place = start + first_in
    answer = tf.strings.substr(joined, place, end + last_in - place, unit=_UNIT)
    return (
        answer,
        _byte_at(contexts, first_word + tf.cast(first_in, tf.int64), start_in),
        _byte_at(contexts, first_word + tf.cast(last_in, tf.int64), end_in + 1),
    )


def _text_of(
    tokenizer: Tokenizer, contexts: Contexts, first: tf.Tensor, last: tf.Tensor
) -> tf.Tensor:
    """The tokens as text."""
    ids = tf.gather(contexts.ids.flat_values, tf.ragged.range(first, last + 1))
    pieces = tf.gather(tf.constant(tokenizer.vocabulary.tokens), ids)
    text = tf.strings.reduce_join(pieces, axis=1, separator=" ")
    return _single_spaces(tf.strings.regex_replace(text, " ?##", ""))


def _find(texts: tf.Tensor, parts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Whether each part is in its text, and what stands before it."""

    def find(pair: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        text, part = pair
        pieces = tf.strings.split([text], part, maxsplit=1).flat_values
        return (tf.size(pieces) > 1) & (part != ""), tf.concat([pieces, [""]], 0)[0]

    return tf.map_fn(find, (texts, parts), fn_output_signature=(tf.bool, tf.string))


def _word_at(sizes: tf.RaggedTensor, character: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The word that holds a character of the words in a row, and its place in that word."""
    ends = tf.cumsum(sizes.flat_values)
    before_row = tf.gather(tf.concat([[0], ends], 0), sizes.row_starts())
    ends -= tf.repeat(before_row, sizes.row_lengths())
    is_before = ends <= tf.repeat(character, sizes.row_lengths())
    passed = sizes.with_flat_values(tf.where(is_before, sizes.flat_values, 0))
    count = tf.reduce_sum(sizes.with_flat_values(tf.cast(is_before, tf.int32)), axis=1)
    return count, character - tf.reduce_sum(passed, axis=1)


def _byte_at(contexts: Contexts, word: tf.Tensor, character: tf.Tensor) -> tf.Tensor:
    """The byte of the context at which a character of a word starts."""
    before = tf.strings.substr(
        tf.gather(contexts.words.flat_values, word), tf.zeros_like(character), character, unit=_UNIT
    )
    start = tf.gather(contexts.word_starts.flat_values, word)
    return start + tf.cast(tf.strings.length(before), tf.int64)


def _characters(texts: tf.Tensor) -> tf.Tensor:
    return tf.strings.length(texts, unit=_UNIT)


def _without_spaces(texts: tf.Tensor) -> tf.Tensor:
    return tf.strings.regex_replace(texts, " ", "")


def _single_spaces(texts: tf.Tensor) -> tf.Tensor:
    return tf.strings.strip(tf.strings.regex_replace(texts, " +", " "))
