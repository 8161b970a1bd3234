"""Questions as SQuAD asks them, about made-up words, and what Model Garden makes of them."""

import collections
import random
from typing import Any

import numpy as np
from official.nlp.data import squad_lib
from official.nlp.tools import tokenization

from adapter_bert_tf.squad.windows import WindowSizes

# What tokenizers stumble over: accents, capitals, punctuation, other spaces, what is dropped.
ODD = ["É", "ß", "(", ")", "-", "\u00a0", "\u202f", "\u200b", "中", "İ", "'s", "…", "\ufffd", "Ⅳ"]
SPACES = [" ", "  ", "\n", "\t", "\r\n", "\u202f", "\u3000", "\u00a0"]


def articles(
    seed: int, words: list[str], paragraphs: int = 4, negative: bool = False
) -> list[dict[str, Any]]:
    """Random contexts with questions; every third has no answer if `negative`."""
    generator = random.Random(seed)
    return [
        {"paragraphs": [_paragraph(generator, words, number, negative)]}
        for number in range(paragraphs)
    ]


def _paragraph(generator: random.Random, words: list[str], number: int, negative: bool) -> dict:
    context = _text(generator, words, generator.randrange(5, 60))
    questions = []
    for q in range(3):
        start = generator.randrange(len(context))
        text = context[start : start + generator.randrange(1, 20)]
        impossible = negative and q == 0
        question = {
            "id": f"{number}-{q}",
            "question": _text(generator, words, generator.randrange(1, 12)),
            "answers": [] if impossible else [{"text": text, "answer_start": start}],
        }
        if negative:
            question["is_impossible"] = impossible
        questions.append(question)
    return {"context": context, "qas": questions}


def _text(generator: random.Random, words: list[str], count: int) -> str:
    parts = []
    for _ in range(count):
        word = generator.choice(words)
        if generator.random() < 0.3:
            word = f"{generator.choice(ODD)}{word}{generator.choice(ODD)}"
        if generator.random() < 0.3:
            word = word.upper()
        parts += [word, generator.choice(SPACES)]
    return "".join(parts)


def features(path: str, vocab_file: str, sizes: WindowSizes, training: bool, negative: bool):
    """Model Garden's examples and features."""
    examples = squad_lib.read_squad_examples(path, training, negative)
    found: list = []
    squad_lib.convert_examples_to_features(
        examples,
        tokenization.FullTokenizer(vocab_file, do_lower_case=True),
        is_training=training,
        output_fn=lambda feature, is_padding=False: None if is_padding else found.append(feature),
        batch_size=1,
        **vars(sizes),
    )
    return examples, found


def answers(examples, found, logits: np.ndarray, n_best: int, longest: int, negative: bool):
    """Model Garden's predictions, n-best lists and null odds."""
    result = collections.namedtuple("result", ["unique_id", "start_logits", "end_logits"])
    results = [
        result(feature.unique_id, row[:, 0].tolist(), row[:, 1].tolist())
        for feature, row in zip(found, logits, strict=True)
    ]
    return squad_lib.postprocess_output(
        examples, found, results, n_best, longest, True, version_2_with_negative=negative
    )
