"""Answers questions with a model."""

from collections.abc import Callable

import numpy as np

from adapter_bert_tf.base.load import load_encoder
from adapter_bert_tf.data.batches import Batches, bucket_lengths
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.heads.span import SpanHead
from adapter_bert_tf.pack.model import load_pack
from adapter_bert_tf.pack.pack import read_pack
from adapter_bert_tf.run.outputs import compute_outputs
from adapter_bert_tf.run.task_data import tokenizer_for
from adapter_bert_tf.squad.answers import Answer, Decoding, Prediction, find_answers
from adapter_bert_tf.squad.questions import Questions
from adapter_bert_tf.squad.windows import SpanWindows, WindowSizes, to_windows
from adapter_bert_tf.text.tokenizer import Tokenizer
from adapter_bert_tf.tuning.task_model import TaskModel

_BATCH_SIZE = 8


def answer(
    model: TaskModel,
    spans: SpanWindows,
    tokenizer: Tokenizer,
    decoding: Decoding,
    batch_size: int,
    lengths: list[int],
    fixed_rows: bool = False,
) -> list[Prediction]:
    """Returns what the model answers to each question.

    Args:
      model: A model with a span head.
      spans: The questions, in windows.
      tokenizer: The base's tokenizer.
      decoding: How logits become answers.
      batch_size: Windows of a batch.
      lengths: What windows are padded to: see `Batches`.
      fixed_rows: Whether all batches have to be of one size, as on a TPU.
    """
    logits = np.zeros([0, 1, 2], np.float32)
    if spans.windows.question.shape[0]:
        batches = Batches(spans.windows.inputs, batch_size, lengths, fixed_rows)
        logits = compute_outputs(model, batches)
    return find_answers(spans, logits, tokenizer, decoding)


def load_answerer(
    pack_folder: str, bert: str, config_file: str | None = None, vocab_file: str | None = None
) -> Callable[[str, str], Answer]:
    """Loads a pack of a SQuAD run; returns what answers a question about a context."""
    pack = read_pack(pack_folder)
    if pack.head["kind"] != SpanHead.kind:
        raise UserError(f"{pack_folder}: is a {pack.head['kind']}, expected a {SpanHead.kind}")
    lower_case = (pack.vocabulary or {}).get("lower_case")
    encoder = load_encoder(
        bert, pack.adapter, config_file=config_file, vocab_file=vocab_file, lower_case=lower_case
    )
    model = load_pack(encoder, pack_folder)
    sizes, decoding = WindowSizes.of(pack.inputs), Decoding.of(pack.inputs)
    tokenizer = tokenizer_for(encoder.base, sizes.max_seq_length)

    def answer_one(question: str, context: str) -> Answer:
        questions = Questions(["question"], [question], [context], [0])
        spans = to_windows(questions, tokenizer, sizes)
        lengths = bucket_lengths(sizes.max_seq_length)
        prediction = answer(model, spans, tokenizer, decoding, _BATCH_SIZE, lengths)[0]
        return next(best for best in prediction.n_best if best.text == prediction.text)

    return answer_one
