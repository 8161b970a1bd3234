"""Rows of six real tasks, and random task packs for them."""

import dataclasses
import os

import numpy as np

from adapter_bert_tf.base.load import load_encoder
from adapter_bert_tf.data.sources import OriginalFiles, find_task
from adapter_bert_tf.encoder.adapter import AdapterConfig
from adapter_bert_tf.heads.classification import ClassificationHead
from adapter_bert_tf.heads.kinds import TEXT_LABELS
from adapter_bert_tf.heads.regression import RegressionHead
from adapter_bert_tf.pack.model import save_pack
from adapter_bert_tf.pack.pack import read_pack, read_tensors, write_pack
from adapter_bert_tf.tuning.task_model import TaskModel

# Their folders below --data_dir.
TASKS = {
    "SST-2": "glue/SST-2",
    "CoLA": "glue/CoLA",
    "MRPC": "glue/MRPC",
    "RTE": "glue/RTE",
    "STS-B": "glue/STS-B",
    "sms_spam": "additional/sms_spam",
}

# Different words of one token each.
WORDS = ("house", "river", "stone", "paper", "green", "seven", "quiet", "after", "north", "money")

Row = tuple[str, str, str]


def read_rows(data_dir: str) -> list[Row]:
    """The tasks' dev rows: task, text and second text, which may be empty."""
    rows = []
    for name, folder in TASKS.items():
        files = OriginalFiles(find_task(name), os.path.join(data_dir, folder), TEXT_LABELS)
        examples = files.read("dev")
        pairs = examples.pairs or [""] * len(examples)
        rows += [(name, *texts) for texts in zip(examples.texts, pairs, strict=True)]
    return rows


def mixed_batches(rows: list[Row], count: int, size: int) -> list[list[Row]]:
    """Batches in which every task is as frequent as the others."""
    random = np.random.default_rng(0)
    by_task = {name: [row for row in rows if row[0] == name] for name in TASKS}
    return [
        [by_task[name][random.integers(len(by_task[name]))] for name in names]
        for names in random.choice(list(TASKS), [count, size])
    ]


def make_packs(bert: str, folder: str, size: int = 64) -> dict[str, str]:
    """Writes a random pack for each task."""
    packs = {}
    for name in TASKS:
        task = find_task(name)
        packs[name] = os.path.join(folder, name)
        head = ClassificationHead(len(task.labels)) if task.labels else RegressionHead()
        model = TaskModel(load_encoder(bert, AdapterConfig(size, init_scale=0.02)), head)
        inputs = {"max_seq_length": 128, "pair": task.pair is not None}
        save_pack(model, packs[name], task=name, labels=task.labels, inputs=inputs)
    return packs


def multiply_pack(pack: str, folder: str, count: int) -> list[str]:
    """Writes packs like one, with other values and names."""
    random = np.random.default_rng(0)
    described, tensors = read_pack(pack), read_tensors(pack, read_pack(pack))
    folders = [os.path.join(folder, f"copy-{i}") for i in range(count)]
    for i, each in enumerate(folders):
        other = {
            path: value * np.float32(random.uniform(0.9, 1.1)) for path, value in tensors.items()
        }
        write_pack(each, dataclasses.replace(described, task=f"copy-{i}"), other)
    return folders
