"""A BERT small enough for a unit test, and what goes into it."""

import json
import os
import pathlib
import random

import numpy as np

from adapter_bert_tf.base.checkpoint import write_checkpoint
from adapter_bert_tf.base.names import google_names

LAYERS, WIDTH, HEADS, INNER, WORDS, LENGTH = 3, 16, 4, 24, 50, 32

ADAPTER = 4

CONFIG = {
    "vocab_size": WORDS,
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": INNER,
    "max_position_embeddings": LENGTH,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "initializer_range": 0.02,
}


def google_tensors(seed: int = 0) -> dict[str, np.ndarray]:
    """Random values for every variable of Google's checkpoint."""
    generator = np.random.default_rng(seed)
    return {
        name: generator.normal(size=_shape(name), scale=0.3).astype(np.float32)
        + (1 if name.endswith("gamma") else 0)
        for name in google_names(LAYERS)
    }


def original_tensors(classes: int = 3) -> dict[str, np.ndarray]:
    """What the original program would save: base, adapters, head."""
    generator = np.random.default_rng(7)
    tensors = google_tensors()
    for i in range(LAYERS):
        for site in ("attention/output", "output"):
            for name, shape in (
                ("weights1", [WIDTH, ADAPTER]),
                ("biases1", [1, ADAPTER]),
                ("weights2", [ADAPTER, WIDTH]),
                ("biases2", [1, WIDTH]),
            ):
                path = f"bert/encoder/layer_{i}/{site}/adapters/{name}"
                tensors[path] = generator.normal(size=shape)
    tensors["output_weights"] = generator.normal(size=[classes, WIDTH])
    tensors["output_bias"] = generator.normal(size=[classes])
    return {name: array.astype(np.float32) for name, array in tensors.items()}


def _shape(name: str) -> tuple[int, ...]:
    if name.endswith("embeddings"):
        rows = {"word": WORDS, "posi": LENGTH, "toke": 2}[name.split("/")[-1][:4]]
        return rows, WIDTH
    inputs = INNER if "/output/dense" in name and "attention" not in name else WIDTH
    outputs = INNER if "/intermediate/" in name else WIDTH
    return (inputs, outputs) if name.endswith("kernel") else (outputs,)


def write_google_bert(folder, seed: int = 0, vocabulary: bool = True, **changes) -> str:
    """Writes a folder in Google's format, and returns its path."""
    os.makedirs(folder, exist_ok=True)
    write_checkpoint(os.path.join(folder, "bert_model.ckpt"), google_tensors(seed))
    write_config(folder, **changes)
    if vocabulary:
        tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(f"w{i}" for i in range(WORDS - 4))]
        with open(os.path.join(folder, "vocab.txt"), "w") as file:
            file.write("\n".join(tokens) + "\n")
    return str(folder)


def write_config(folder, **changes) -> str:
    """Writes a `bert_config.json`, and returns its path."""
    path = os.path.join(folder, "bert_config.json")
    with open(path, "w") as file:
        json.dump({**CONFIG, **changes}, file)
    return path


def inputs(rows: int = 4, length: int = 10, seed: int = 1) -> dict[str, np.ndarray]:
    """A batch with padding and two segments."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(3, length + 1, size=[rows, 1])
    lengths[0] = length
    mask = (np.arange(length) < lengths).astype(np.int32)
    ids = generator.integers(4, WORDS, size=[rows, length]).astype(np.int32)
    segments = (np.arange(length) >= lengths // 2).astype(np.int32)
    return {
        "input_word_ids": ids * mask,
        "input_mask": mask,
        "input_type_ids": segments * mask,
    }


def _sentence(generator: random.Random, label: int) -> str:
    """Words of which the label shows: w0 to w19, or w20 to w39."""
    words = generator.choices(range(20 * label, 20 * label + 20), k=generator.randrange(3, 12))
    return " ".join(f"w{word}" for word in words)


def write_mrpc(folder: pathlib.Path) -> str:
    """Writes MRPC's files with made-up rows that can be learnt, and returns the folder."""
    generator = random.Random(0)
    folder.mkdir()
    for split, rows in (("train", 96), ("dev", 24), ("test", 10)):
        lines = ["Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"]
        for i in range(rows):
            label = i % 2
            first, second = (_sentence(generator, label) for _ in range(2))
            lines.append(f"{label if split != 'test' else i}\t1\t2\t{first}\t{second}")
        if split == "test":
            lines[0] = lines[0].replace("Quality", "index")
        (folder / f"{split}.tsv").write_text("\ufeff" + "\n".join(lines) + "\n")
    return str(folder)


def write_squad(path: pathlib.Path, questions: int) -> str:
    """Writes questions on contexts in which the word behind w0 answers, and returns the path."""
    generator = random.Random(str(path.name))
    paragraphs = []
    for number in range(questions):
        words = [f"w{generator.randrange(3, 40)}" for _ in range(generator.randrange(4, 40))]
        place = generator.randrange(len(words) - 1)
        words[place] = "w0"
        context = " ".join(words)
        start = len(" ".join(words[: place + 1])) + 1
        answers = [{"text": words[place + 1], "answer_start": start}]
        question = {"id": f"{path.stem}-{number}", "question": "w1 w2", "answers": answers}
        paragraphs.append({"context": context, "qas": [question]})
    path.write_text(json.dumps({"version": "1", "data": [{"paragraphs": paragraphs}]}))
    return str(path)
