"""Answers a question about a text.

python -m adapter_bert_tf.answer --pack=runs/squad/pack --context=text.txt "Who was it?"
"""

from absl import flags

from adapter_bert_tf import entry
from adapter_bert_tf.errors import UserError, file_error


def _main(question: str) -> None:
    path = flags.FLAGS.context
    context = _read(path)
    if not question.strip():
        raise UserError("the question is empty")

    # Here, so that wrong files are told before TensorFlow is loaded.
    from adapter_bert_tf.run.answering import load_answerer

    values = flags.FLAGS
    answerer = load_answerer(values.pack, values.bert, values.bert_config_file, values.vocab_file)
    best = answerer(question, context)
    place = best.place(context)
    if place is None:
        print("no answer")
        return
    line = context.count("\n", 0, place[0]) + 1
    print(f"answer  {best.text}")
    print(f"score   {best.probability:.4f}")
    print(f"place   characters {place[0]:,} to {place[1]:,} of {path}, line {line:,}")


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            context = file.read()
    except OSError as error:
        raise file_error(path, error) from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 at byte {error.start}") from None
    if not context.strip():
        raise UserError(f"{path}: is empty")
    return context


if __name__ == "__main__":
    flags.DEFINE_string("pack", None, "Answer: a task pack of run_squad.py.", required=True)
    flags.DEFINE_string("context", None, "Answer: a file with the text.", required=True)
    flags.DEFINE_string("bert", "minilm", "Answer: the base that the pack was tuned on.")
    flags.DEFINE_string("bert_config_file", None, "Answer: its bert_config.json, if elsewhere.")
    flags.DEFINE_string("vocab_file", None, "Answer: its vocab.txt, if elsewhere.")
    entry.run(_main, ('"question"',))
