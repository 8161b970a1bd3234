"""SQuAD from TFDS, which downloads it on first use."""

from typing import Any

from adapter_bert_tf.errors import UserError, first_line


def read_squad_tfds(training: bool, with_negative: bool) -> list[dict[str, Any]]:
    """Returns a split of SQuAD v1.1 or v2.0 as articles, in the form of its files."""
    # Here, as it takes a second to import and files do without it.
    import tensorflow_datasets as tfds

    name = "squad/v2.0" if with_negative else "squad/v1.1"
    split = "train" if training else "validation"
    try:
        rows = list(tfds.load(name, split=split).as_numpy_iterator())
    except Exception as error:  # Its downloader raises whatever its transport does.
        reason = first_line(error)
        raise UserError(
            f"TFDS has no {name}, {split}: {reason}; or give --train_file and --predict_file"
        ) from None
    paragraphs: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        questions = paragraphs.setdefault(row["context"].decode(), [])
        questions.append(_question(row))
    return [
        {"paragraphs": [{"context": context, "qas": questions}]}
        for context, questions in paragraphs.items()
    ]


def _question(row: dict[str, Any]) -> dict[str, Any]:
    answers = row["answers"]
    question = {
        "id": row["id"].decode(),
        "question": row["question"].decode(),
        "answers": [
            {"text": text.decode(), "answer_start": int(start)}
            for text, start in zip(answers["text"], answers["answer_start"], strict=True)
        ],
    }
    if "is_impossible" in row:
        question["is_impossible"] = bool(row["is_impossible"])
    return question
