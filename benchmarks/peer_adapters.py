"""Six tasks with Hugging Face's `adapters`, in its own virtual environment.

Reads a batch a line from standard input, `[[task, text, second text], ...]` as JSON, and answers
with the seconds that it took: rows are grouped by task, and the adapter is switched for each group.
"""

import json
import sys
import time

import adapters
import torch
import transformers

MODEL, TASKS, SIZE = sys.argv[1], sys.argv[2].split(","), int(sys.argv[3])

transformers.logging.set_verbosity_error()
tokenizer = transformers.AutoTokenizer.from_pretrained(MODEL)
model = adapters.AutoAdapterModel.from_pretrained(MODEL)
config = adapters.DoubleSeqBnConfig(reduction_factor=model.config.hidden_size / SIZE)
for task in TASKS:
    model.add_adapter(task, config=config)
    model.add_classification_head(task, num_labels=2, layers=1)
model.eval()


def answer(rows: list[list[str]]) -> list[torch.Tensor]:
    """The probabilities of each row."""
    answers: list = [None] * len(rows)
    for task in TASKS:
        numbers = [i for i, row in enumerate(rows) if row[0] == task]
        if not numbers:
            continue
        texts = [rows[i][1] for i in numbers]
        pairs = [rows[i][2] for i in numbers]
        inputs = tokenizer(
            texts,
            pairs if any(pairs) else None,
            padding=True,
            truncation=True,
            max_length=128,
            return_tensors="pt",
        )
        model.set_active_adapters(task)
        model.active_head = task
        for i, row in zip(numbers, torch.softmax(model(**inputs).logits, dim=-1), strict=True):
            answers[i] = row
    return answers


with torch.inference_mode():
    for line in sys.stdin:
        rows = json.loads(line)
        start = time.perf_counter()
        answer(rows)
        print(time.perf_counter() - start, flush=True)
