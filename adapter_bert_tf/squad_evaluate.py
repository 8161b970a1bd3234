"""Scores a file of predictions for SQuAD v1.1 or v2.0, in percent.

    python -m adapter_bert_tf.squad_evaluate dev-v1.1.json predictions.json

With --null_odds=null_odds.json it also finds the best threshold for questions without an answer.
"""

import json

from absl import flags

from adapter_bert_tf import entry
from adapter_bert_tf.checks import NUMBER, Check, named, text
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.files import read_json


def _main(data: str, predictions: str) -> None:
    from adapter_bert_tf.squad.metrics import has_answers, questions_of, score
    from adapter_bert_tf.squad.questions import read_squad

    articles = read_squad(data)
    if not has_answers(articles):
        raise UserError(f"{data}: has no answers to score with")
    found = _read(predictions, text)
    asked = [question["id"] for question in questions_of(articles)]
    missing = sum(name not in found for name in asked)
    if missing == len(asked):
        raise UserError(f"{predictions}: no prediction for any question of {data}")
    odds = _read(flags.FLAGS.null_odds, NUMBER) if flags.FLAGS.null_odds else None
    if odds is not None and found.keys() - odds.keys():
        raise UserError(f"{flags.FLAGS.null_odds}: lacks questions of {predictions}")
    scores = score(articles, found, odds)
    if missing:
        scores["missing"] = missing
    print(json.dumps(scores, indent=2))


def _read(path: str, check: Check) -> dict:
    """Reads an object of texts, or of numbers, by the names of questions."""
    return named(check)(read_json(path), f"{path}:")


def main() -> None:
    """Runs the program."""
    flags.DEFINE_string("null_odds", None, "Score: scores of no answer, from a v2.0 run.")
    entry.run(_main, ("data.json", "predictions.json"))


if __name__ == "__main__":
    main()
