"""From the logits of windows to the spans that may be answers."""

import dataclasses

import tensorflow as tf

from adapter_bert_tf.squad.windows import Windows, has_most_context


@dataclasses.dataclass(frozen=True)
class Spans:
    """Spans, the most probable of each question first, and the questions in their order.

    Args:
      question: Number of the question, `[spans]`.
      first_token: First token of the span in the context, `[spans]`.
      last_token: Last token of the span in the context, `[spans]`.
      start_logit: Logit of its first token, `[spans]`.
      end_logit: Logit of its last token, `[spans]`.
    """

    question: tf.Tensor
    first_token: tf.Tensor
    last_token: tf.Tensor
    start_logit: tf.Tensor
    end_logit: tf.Tensor


def find_spans(
    logits: tf.Tensor, windows: Windows, n_best_size: int, max_answer_length: int
) -> Spans:
    """Pairs the best starts and ends of each window, as the original does.

    Args:
      logits: Logits of start and end, `[windows, positions, 2]`.
      windows: The windows.
      n_best_size: How many of the starts and of the ends are tried.
      max_answer_length: Tokens of an answer at the most.
    """
    tried = tf.minimum(n_best_size, tf.shape(logits)[1])
    # Of like logits the first counts.
    start_logits, starts = tf.math.top_k(logits[:, :, 0], tried)
    end_logits, ends = tf.math.top_k(logits[:, :, 1], tried)
    starts, ends = (tf.cast(each, tf.int64) for each in (starts, ends))
    rows = tf.range(tf.shape(logits, tf.int64)[0])[:, tf.newaxis] + tf.zeros_like(starts)
    may_start = _in_context(windows, starts) & has_most_context(windows, rows, starts)
    may_end = _in_context(windows, ends)
    length = ends[:, tf.newaxis, :] - starts[:, :, tf.newaxis] + 1
    fits = (length > 0) & (length <= max_answer_length)
    pairs = tf.where(fits & may_start[:, :, tf.newaxis] & may_end[:, tf.newaxis, :])
    row, start, end = tf.unstack(pairs, axis=1)
    at_start, at_end = tf.stack([row, start], 1), tf.stack([row, end], 1)
    to_token = tf.gather(windows.first - windows.offset, row)
    spans = Spans(
        question=tf.gather(windows.question, row),
        first_token=tf.gather_nd(starts, at_start) + to_token,
        last_token=tf.gather_nd(ends, at_end) + to_token,
        start_logit=tf.gather_nd(start_logits, at_start),
        end_logit=tf.gather_nd(end_logits, at_end),
    )
    return _sorted(spans)


def _in_context(windows: Windows, positions: tf.Tensor) -> tf.Tensor:
    first = windows.offset[:, tf.newaxis]
    return (positions >= first) & (positions < first + windows.length[:, tf.newaxis])


def _sorted(spans: Spans) -> Spans:
    # Double precision, as the original adds Python's numbers: no ties that are none there.
    score = tf.cast(spans.start_logit, tf.float64) + tf.cast(spans.end_logit, tf.float64)
    order = tf.argsort(score, direction="DESCENDING", stable=True)
    by_question = tf.argsort(tf.gather(spans.question, order), stable=True)
    order = tf.gather(order, by_question)
    return Spans(**{name: tf.gather(each, order) for name, each in vars(spans).items()})
