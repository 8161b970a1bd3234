"""Six tasks in the peers' virtual environment: models, and a loop that answers batches.

The loop reads a batch a line from standard input, `[[task, text, second text], ...]` as JSON, and
answers with the seconds that it took. Rows are grouped by task, and padded by group.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping

import adapters
import numpy as np
import torch
import transformers

MODEL, TASKS, SIZE = sys.argv[1], sys.argv[2].split(","), int(sys.argv[3])

# Takes a task and its rows' inputs, and returns their probabilities.
Answer = Callable[[str, Mapping[str, np.ndarray]], np.ndarray]


def make_model() -> torch.nn.Module:
    """Hugging Face's `adapters` on the base, with an adapter and a head for each task."""
    transformers.logging.set_verbosity_error()
    model = adapters.AutoAdapterModel.from_pretrained(MODEL)
    config = adapters.DoubleSeqBnConfig(reduction_factor=model.config.hidden_size / SIZE)
    for task in TASKS:
        model.add_adapter(task, config=config)
        model.add_classification_head(task, num_labels=2, layers=1)
    return model.eval()


def serve(answer: Answer) -> None:
    """Answers batches until there are no more."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(MODEL)

    def answer_batch(rows: list[list[str]]) -> list[np.ndarray]:
        answers: list = [None] * len(rows)
        for task in TASKS:
            numbers = [i for i, row in enumerate(rows) if row[0] == task]
            if not numbers:
                continue
            pairs = [rows[i][2] for i in numbers]
            inputs = tokenizer(
                [rows[i][1] for i in numbers],
                pairs if any(pairs) else None,
                padding=True,
                truncation=True,
                max_length=128,
                return_tensors="np",
            )
            for i, row in zip(numbers, answer(task, inputs), strict=True):
                answers[i] = row
        return answers

    for line in sys.stdin:
        rows = json.loads(line)
        start = time.perf_counter()
        answer_batch(rows)
        print(time.perf_counter() - start, flush=True)
