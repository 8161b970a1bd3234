"""Answers a question about a text, with a task pack of run_squad.py.

python -m adapter_bert_tf.answer --pack=runs/squad/pack --context=text.txt "Who was it?"
"""

from absl import flags

from adapter_bert_tf import entry
from adapter_bert_tf.errors import UserError, file_error
from adapter_bert_tf.files import open_text
from adapter_bert_tf.pack.pack import read_description


def _main(question: str) -> None:
    values = flags.FLAGS
    context = _read(values.context)
    if not question.strip():
        raise UserError("the question is empty")
    read_description(values.pack)

    # Imported here, so that mistakes in files are reported before TensorFlow is loaded.
    from adapter_bert_tf.task import load_task

    task = load_task(
        values.pack,
        values.bert,
        bert_config_file=values.bert_config_file,
        vocab_file=values.vocab_file,
    )
    best = task.answer(question, context)
    if not best.text:
        print("no answer")
        return
    line = context.count("\n", 0, best.start) + 1
    print(f"answer  {best.text}")
    print(f"score   {best.score:.4f}")
    print(f"place   characters {best.start:,} to {best.end:,} of {values.context}, line {line:,}")


def _read(path: str) -> str:
    try:
        with open_text(path, newline="") as file:
            context = file.read()
    except OSError as error:
        raise file_error(path, error) from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 at byte {error.start}") from None
    if not context.strip():
        raise UserError(f"{path}: is empty")
    return context


if __name__ == "__main__":
    flags.DEFINE_string("pack", None, "Task: a task pack of run_squad.py.", required=True)
    flags.DEFINE_string(
        "context", None, "Task: a file with the text that the question is about.", required=True
    )
    flags.DEFINE_string("bert", None, "Base: the BERT, if it is not where the pack says.")
    flags.DEFINE_string(
        "bert_config_file", None, "Base: bert_config.json, if it is not beside the checkpoint."
    )
    flags.DEFINE_string("vocab_file", None, "Base: vocab.txt, if it is not beside the checkpoint.")
    entry.run(_main, ('"question"',))
