"""The texts of spans of tokens, as they are written in their context.

Tokens may be lower-cased and without accents, but an answer has to be written as in the context.
The original takes the words that the tokens belong to, splits them as the tokenizer does, and looks
for the text of the tokens in the result. Then it counts characters to find the same place in the
words as they are written. If the counts differ, as they do for dropped accents, it takes whole
words.

Here, this is done for many spans at once: the characters of all contexts are laid out one after
the other, and places are numbers of characters in that layout. Nothing is kept for each pair of a
span and a character, so that even a word of 100,000 characters takes little memory.
"""

import dataclasses
import functools

import numpy as np
import tensorflow as tf

from adapter_bert_tf.squad.windows import Contexts
from adapter_bert_tf.text.ragged import row_of
from adapter_bert_tf.text.tokenizer import Tokenizer

_SPACE = ord(" ")
# Above all code points: marks characters that follow a space.
_AFTER_SPACE = 1 << 21


# Columns of the same length. Spans have `question`, `start_logit`, `end_logit` and others.
Columns = dict[str, tf.Tensor]


def take_rows(table: Columns, rows: tf.Tensor) -> Columns:
    """Returns some rows of a table."""
    return {name: tf.gather(column, rows) for name, column in table.items()}


def stack_rows(above: Columns, below: Columns) -> Columns:
    """Puts one table below another; the columns are those of the upper one."""
    return {name: tf.concat([column, below[name]], 0) for name, column in above.items()}


def row_splits(question: tf.Tensor, questions: tf.Tensor) -> tf.Tensor:
    """Returns where the rows of each question start in a table sorted by question.

    The shape is `[questions + 1]`; the last one is the number of rows.
    """
    return tf.searchsorted(question, tf.range(questions + 1), "left", tf.int64)


def different_texts(
    tokenizer: Tokenizer, contexts: Contexts, spans: Columns, questions: tf.Tensor, count: int
) -> Columns:
    """Finds the texts of the best spans of each question, without repetitions.

    Most questions have enough texts after the first round. Those with many spans of the same
    text need more rounds, of twice as many spans each.

    Args:
      tokenizer: The base's tokenizer.
      contexts: The contexts.
      spans: Spans, sorted by question and score. `first` and `last` are their tokens, counted
        over all contexts.
      questions: Number of questions.
      count: How many texts a question needs.

    Returns:
      At least as many spans of each question, or all of them; those of a question are sorted by
      score. They have a `text`, and bytes of the context at which they `start` and `end`.
    """
    layout = _lay_out(tokenizer, contexts)
    splits = row_splits(spans["question"], questions)
    lengths = splits[1:] - splits[:-1]

    def lacks(found: Columns) -> tf.Tensor:
        ones = tf.ones_like(found["question"])
        return tf.math.unsorted_segment_sum(ones, found["question"], questions) < count

    def goes_on(done: tf.Tensor, step: tf.Tensor, found: Columns) -> tf.Tensor:
        return tf.reduce_any(lacks(found) & (lengths > done))

    def add(
        done: tf.Tensor, step: tf.Tensor, found: Columns
    ) -> tuple[tf.Tensor, tf.Tensor, Columns]:
        first = splits[:-1] + tf.minimum(done, lengths)
        end = splits[:-1] + tf.minimum(done + tf.where(lacks(found), step, 0), lengths)
        row = tf.ragged.range(first, tf.maximum(first, end)).flat_values
        new = _with_texts(take_rows(spans, row), layout)
        found = stack_rows(found, new)
        _, text = tf.unique(found["text"], tf.int64)
        return done + step, 2 * step, take_rows(found, _firsts(found["question"], text))

    first_step = tf.constant(count + count // 4, tf.int64)
    none = {name: spans[name][:0] for name in ("question", "start_logit", "end_logit")}
    none |= {"text": tf.zeros([0], tf.string), "start": splits[:0], "end": splits[:0]}
    invariants = (first_step.shape, first_step.shape, dict.fromkeys(none, tf.TensorShape([None])))
    *_, found = tf.while_loop(goes_on, add, (first_step * 0, first_step, none), invariants)
    return found


def _with_texts(spans: Columns, layout: "_Layout") -> Columns:
    """Adds the texts of spans. Of several spans at the same place only the first is kept.

    Without that, thousands of spans in a long word with accents would each get a copy of it.
    """
    first, end = layout.locate(spans["first"], spans["last"])
    rows = _firsts(spans["question"], first, end)
    text, start, end = layout.texts(tf.gather(first, rows), tf.gather(end, rows))
    kept = {name: spans[name] for name in ("question", "start_logit", "end_logit")}
    return {**take_rows(kept, rows), "text": text, "start": start, "end": end}


def _firsts(*columns: tf.Tensor) -> tf.Tensor:
    """Returns the numbers of the rows that have no equal row before them."""
    unique = group = columns[0]
    for column in columns[1:]:
        # There are no more groups than rows, so this can't overflow.
        unique, group = tf.unique(group * (tf.reduce_max(column) + 1) + column, tf.int64)
    rows = tf.range(tf.size(group, tf.int64))
    return tf.math.unsorted_segment_min(rows, group, tf.size(unique))


@dataclasses.dataclass(frozen=True)
class _Layout:
    """Where words and tokens are among the characters of all contexts.

    *Split characters* are those of the split words without spaces; *characters* are those of the
    words as they are written.

    Args:
      words: The words, `[words]`.
      word_of: The word of each token, `[tokens]`.
      token_starts: The first split character of each token, `[tokens]`.
      token_ends: The split character after its last one, `[tokens]`.
      unknown: Number of unknown tokens before each token, `[tokens + 1]`.
      split: The split characters, marked if they follow a space.
      same_first: For each split character, the first one in its word that is the same.
      same_next: For each split character, the next one in its word that is the same.
      split_starts: The first split character of each word, `[words + 1]`.
      starts: The first character of each word, `[words + 1]`.
      bytes: The first byte of each character in the words end to end, `[characters + 1]`.
      to_context: What has to be added to it for the byte in the context, `[words]`.
    """

    words: tf.Tensor
    word_of: tf.Tensor
    token_starts: tf.Tensor
    token_ends: tf.Tensor
    unknown: tf.Tensor
    split: tf.Tensor
    same_first: tf.Tensor
    same_next: tf.Tensor
    split_starts: tf.Tensor
    starts: tf.Tensor
    bytes: tf.Tensor
    to_context: tf.Tensor

    def locate(self, first: tf.Tensor, last: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Finds the texts of spans in the words that their tokens belong to.

        Args:
          first: The first token of each span.
          last: The last token of each span.

        Returns:
          The first character of each text, and the one after its last.
        """
        first_word, last_word = tf.gather(self.word_of, first), tf.gather(self.word_of, last)
        start, end = tf.gather(self.starts, first_word), tf.gather(self.starts, last_word + 1)
        split_start = tf.gather(self.split_starts, first_word)
        split_end = tf.gather(self.split_starts, last_word + 1)
        is_known = tf.gather(self.unknown, first) == tf.gather(self.unknown, last + 1)
        is_known &= end - start == split_end - split_start

        own = tf.gather(self.token_starts, first)
        length = tf.gather(self.token_ends, last) - own
        found = self._first_occurrence(own, tf.where(is_known, length, 0)) - split_start + start
        return tf.where(is_known, found, start), tf.where(is_known, found + length, end)

    def _first_occurrence(self, own: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
        """Finds the first occurrence of texts, from the start of their first words on.

        A known text occurs at least at its own place, so that only the characters of the same
        word before it have to be tried. These are compared one by one, but only from places with
        the same first character on; most words have none.

        Args:
          own: The split character at which each text starts.
          length: Its number of characters; 0 for texts that are not looked for.
        """
        place = tf.gather(self.same_first, own)
        rows = tf.where((place < own) & (length > 0))
        place, own_place, length = (tf.gather_nd(each, rows) for each in (place, own, length))

        def is_searching(place: tf.Tensor, same: tf.Tensor) -> tf.Tensor:
            return (place < own_place) & (same < length)

        def goes_on(place: tf.Tensor, same: tf.Tensor) -> tf.Tensor:
            return tf.reduce_any(is_searching(place, same))

        def compare(place: tf.Tensor, same: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            """Compares one more character; if it differs, goes to the next place."""
            searching = is_searching(place, same)
            offset = tf.where(searching, same, 0)
            theirs = tf.gather(self.split, place + offset)
            equal = theirs == tf.gather(self.split, own_place + offset)
            place = tf.where(searching & ~equal, tf.gather(self.same_next, place), place)
            return place, tf.where(searching, tf.where(equal, same + 1, 1), same)

        place, _ = tf.while_loop(goes_on, compare, (place, tf.ones_like(place)))
        return tf.tensor_scatter_nd_update(own, rows, place)

    def texts(self, start: tf.Tensor, end: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns the texts from one character to another.

        Returns:
          Their words with single spaces between them, and the bytes of the contexts at which
          they start and end.
        """
        first_word = tf.searchsorted(self.starts, start, "right", tf.int64) - 1
        last_word = tf.searchsorted(self.starts, end - 1, "right", tf.int64) - 1
        rows = tf.ragged.range(first_word, last_word + 1)
        joined = tf.strings.unsorted_segment_join(
            tf.gather(self.words, rows.flat_values), row_of(rows.row_splits), rows.nrows(), " "
        )
        start_byte, end_byte = tf.gather(self.bytes, start), tf.gather(self.bytes, end)
        before = start_byte - tf.gather(self.bytes, tf.gather(self.starts, first_word))
        texts = tf.strings.substr(joined, before, end_byte - start_byte + last_word - first_word)
        return (
            texts,
            start_byte + tf.gather(self.to_context, first_word),
            end_byte + tf.gather(self.to_context, last_word),
        )


def _lay_out(tokenizer: Tokenizer, contexts: Contexts) -> _Layout:
    tokens = contexts.tokens.values
    """Lays out the words, split words and tokens of all contexts."""
    # With a space before each word, it looks like any other part that the tokenizer split off.
    spaced = tf.strings.join([" ", contexts.split.flat_values])
    split = tf.strings.unicode_decode(spaced, "UTF-8")
    is_space = split.flat_values == _SPACE
    characters = tf.where(~is_space)[:, 0]
    split_starts = tf.gather(_running(~is_space), split.row_splits)
    codes = tf.gather(split.flat_values, characters)
    is_first = tf.gather(is_space, characters - 1)
    part_splits = tf.gather(_running(is_first), split_starts)
    word_of = row_of(split_starts)
    # A span that starts inside of a word is in a word with several tokens.
    inside = tf.where(tf.gather(tokens.row_lengths() > 1, word_of))
    key = tf.cast(codes, tf.int64) + word_of * _AFTER_SPACE
    same_first, same_next = _like(tf.gather_nd(key, inside))
    own = tf.range(tf.size(codes, tf.int64))
    return _Layout(
        split=tf.where(is_first, codes + _AFTER_SPACE, codes),
        same_first=tf.tensor_scatter_nd_update(own, inside, tf.gather(inside[:, 0], same_first)),
        same_next=tf.tensor_scatter_nd_update(own, inside, tf.gather(inside[:, 0], same_next)),
        split_starts=split_starts,
        **_lay_out_tokens(tokenizer, tokens, tf.where(is_first)[:, 0], part_splits),
        **_lay_out_words(contexts),
    )


def _running(values: tf.Tensor) -> tf.Tensor:
    """Returns the sum of the values before each of them, and of all."""
    return tf.concat([[0], tf.cumsum(tf.cast(values, tf.int64))], 0)


def _like(keys: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the first and the next row with the same key; the last has any row as its next."""
    rows = tf.range(tf.size(keys, tf.int64))
    unique, group = tf.unique(keys, tf.int64)
    first = tf.gather(tf.math.unsorted_segment_min(rows, group, tf.size(unique)), group)
    order = tf.argsort(group, stable=True)[:, tf.newaxis]
    following = tf.cast(tf.roll(order[:, 0], -1, 0), tf.int64)
    return first, tf.scatter_nd(order, following, tf.shape(keys))


def _lay_out_words(contexts: Contexts) -> dict[str, tf.Tensor]:
    words = contexts.words.flat_values
    all_bytes = tf.io.decode_raw(tf.strings.reduce_join(words), tf.uint8)
    # In UTF-8, all bytes of a character but the first are 0b10xxxxxx.
    is_first = tf.bitwise.bitwise_and(all_bytes, 0xC0) != 0x80
    word_bytes = _running(tf.strings.length(words))
    return {
        "words": words,
        "starts": tf.gather(_running(is_first), word_bytes),
        "bytes": tf.concat([tf.where(is_first)[:, 0], word_bytes[-1:]], 0),
        "to_context": contexts.word_starts.flat_values - word_bytes[:-1],
    }


def _lay_out_tokens(
    tokenizer: Tokenizer, tokens: tf.RaggedTensor, parts: tf.Tensor, part_splits: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Lays out tokens, which follow each other without a gap in each part of a word.

    Args:
      tokenizer: The tokenizer.
      tokens: Ids of the tokens, `[words, (tokens)]`.
      parts: The first split character of each part of a word, `[parts]`.
      part_splits: The first part of each word, `[words + 1]`.
    """
    ids, word_of = tokens.flat_values, row_of(tokens.row_splits)
    lengths, continues = (tf.gather(each, ids) for each in _pieces(tokenizer.vocabulary.tokens))
    part = _running(~continues)
    found = tf.gather(part, tokens.row_splits)
    in_word = part[1:] - 1 - tf.gather(found, word_of)
    # `Tokenizer.split` and the tokenizer of tf-text know different versions of Unicode. If they
    # disagree about the parts of a word, its tokens count as unknown.
    agree = found[1:] - found[:-1] == part_splits[1:] - part_splits[:-1]
    is_known = (ids != tokenizer.vocabulary.index("[UNK]")) & tf.gather(agree, word_of)

    part_of = tf.where(is_known, tf.gather(part_splits, word_of) + in_word, 0)
    before = _running(lengths)[:-1]
    first_tokens = tf.where(~continues)[:, 0]
    in_part = before - tf.gather(before, tf.gather(first_tokens, part[1:] - 1))
    starts = tf.where(is_known, tf.gather(parts, part_of) + in_part, 0)
    return {
        "word_of": word_of,
        "token_starts": starts,
        "token_ends": starts + lengths,
        "unknown": _running(~is_known),
    }


@functools.lru_cache(maxsize=4)
def _pieces(tokens: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the length of each token of a vocabulary, and whether it continues a word."""
    lengths = [len(token.removeprefix("##")) for token in tokens]
    return np.array(lengths, np.int64), np.array([token.startswith("##") for token in tokens])
