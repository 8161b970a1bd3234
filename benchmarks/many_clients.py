"""Many clients of one export at once, with bad rows among the good ones.

    python benchmarks/many_clients.py --minutes=5 --clients=30

Three classification tasks, one on pairs, and a question-answering one, on MiniLM with random packs.
Each client asks batches of 1 to 8 rows of `serving_default`, and at times a question. Wanted:
every good row gets the answer that it gets alone, every bad row an error of its own, and memory is
level after the first minute. Ends with exit code 1 if not.
"""

import os
import tempfile
import threading
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# As in our programs: see entry.py.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")

import numpy as np
from absl import app, flags, logging
from memory import held
from serving_rows import WORDS
from timing import load_line

from adapter_bert_tf.base.load import find_base, load_encoder
from adapter_bert_tf.encoder.adapter import AdapterConfig
from adapter_bert_tf.heads.classification import ClassificationHead
from adapter_bert_tf.heads.span import SpanHead
from adapter_bert_tf.pack.model import save_pack
from adapter_bert_tf.serve.export import export_packs
from adapter_bert_tf.serve.loaded import LoadedExport, load_export
from adapter_bert_tf.tuning.task_model import TaskModel

_BERT = flags.DEFINE_string("bert", "minilm", "The base.")
_CLIENTS = flags.DEFINE_integer("clients", 30, "Threads.")
_MINUTES = flags.DEFINE_float("minutes", 5.0, "How long they ask.")
# What the memory may grow by after the first minute.
_LEVEL = 1.05

_SINGLE, _PAIR, _ASKS = "single", "pair", "asks"
_CLOSE = 1e-5


def _export(folder: str) -> LoadedExport:
    packs = []
    for name, head in (
        (_SINGLE, ClassificationHead(2)),
        ("other", ClassificationHead(3)),
        (_PAIR, ClassificationHead(2)),
        (_ASKS, SpanHead()),
    ):
        model = TaskModel(load_encoder(_BERT.value, AdapterConfig(16, init_scale=0.05)), head)
        labels = [f"class {i}" for i in range(getattr(head, "classes", 0))]
        inputs = {"max_seq_length": 128}
        if labels:
            inputs["pair"] = name == _PAIR
        packs.append(f"{folder}/{name}")
        save_pack(model, packs[-1], task=name, labels=labels, inputs=inputs)
    export_packs(find_base(_BERT.value), packs, f"{folder}/export")
    return load_export(f"{folder}/export")


def _good_rows() -> list[tuple[str, str, str]]:
    """Rows of classification tasks."""
    random = np.random.default_rng(0)
    texts = [" ".join(random.choice(WORDS, random.integers(1, 60))) for _ in range(20)]
    rows = [(task, text, "") for task in (_SINGLE, "other") for text in texts]
    return rows + [(_PAIR, text, " ".join(reversed(text.split()))) for text in texts]


# An unknown task, none, one that answers questions, a pair without its second text, bytes that are
# not UTF-8.
_BAD_ROWS = [
    ("unknown", "a house", ""),
    ("", "a house", ""),
    (_ASKS, "a house", ""),
    (_PAIR, "a house", ""),
    (b"\xff\xfe", "a house", ""),
]


class _Clients:
    """Threads that ask, and what they found wrong."""

    def __init__(self, export: LoadedExport):
        self._export = export
        self._rows = _good_rows()
        self._expected = {row: self._ask([row])["probabilities"][0] for row in self._rows}
        question = {"task": [_ASKS], "question": ["which house"], "context": ["the green house"]}
        self._question, self._answer = question, export.ask("answer", question)
        self._lock = threading.Lock()
        self.rows, self.bad, self.wrong = 0, 0, []

    def _ask(self, rows) -> dict[str, np.ndarray]:
        columns = zip(*rows, strict=True)
        return self._export.ask(
            "serving_default", dict(zip(("task", "text", "text_pair"), columns, strict=True))
        )

    def run(self, seed: int, end: float) -> None:
        """Asks until the time is over."""
        random = np.random.default_rng(seed)
        while time.monotonic() < end and not self.wrong:
            try:
                wrong = self._question_round() if random.random() < 0.1 else self._round(random)
            except Exception as error:  # No request may fail.
                wrong = [repr(error)]
            with self._lock:
                self.wrong += wrong

    def _question_round(self) -> list[str]:
        answers = self._export.ask("answer", self._question)
        same = answers["answer"][0] == self._answer["answer"][0]
        return [] if same else [f"answered {answers['answer'][0]}"]

    def _round(self, random: np.random.Generator) -> list[str]:
        rows = [self._rows[i] for i in random.integers(len(self._rows), size=random.integers(1, 6))]
        bad = [_BAD_ROWS[i] for i in random.integers(len(_BAD_ROWS), size=random.integers(0, 4))]
        asked = [(row, row in self._expected) for row in rows + bad]
        random.shuffle(asked)
        answers = self._ask([row for row, _ in asked])
        with self._lock:
            self.rows, self.bad = self.rows + len(rows), self.bad + len(bad)
        wrong = []
        for (row, is_good), error, found in zip(
            asked, answers["error"], answers["probabilities"], strict=True
        ):
            if is_good and error:
                wrong.append(f"{row}: {error}")
            elif not is_good and not error:
                wrong.append(f"{row}: no error")
            elif is_good:
                expected = self._expected[row]
                width = min(len(found), len(expected))
                if np.abs(found[:width] - expected[:width]).max() > _CLOSE:
                    wrong.append(f"{row}: {found}, alone {expected}")
        return wrong


def main(_):
    logging.set_verbosity(logging.WARNING)
    print(f"{_BERT.value}, {_CLIENTS.value} clients; {load_line()}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        clients = _Clients(_export(folder))
        start = time.monotonic()
        end = start + 60 * _MINUTES.value
        threads = [
            threading.Thread(target=clients.run, args=(i, end)) for i in range(_CLIENTS.value)
        ]
        for thread in threads:
            thread.start()
        memory: list[float] = []
        while any(thread.is_alive() for thread in threads):
            time.sleep(min(20, max(1, end - time.monotonic())))
            memory.append(held())
            passed = time.monotonic() - start
            print(
                f"{passed:4.0f} s: {clients.rows:,} good rows, {clients.bad:,} bad ones, "
                f"{memory[-1]:.0f} MB",
                flush=True,
            )
    for line in clients.wrong[:5]:
        print(f"wrong: {line}")
    later = memory[3:] or memory
    print(f"wrong: {len(clients.wrong)}; memory after the first minute: ", end="")
    print(f"{min(later):.0f} to {max(later):.0f} MB")
    if clients.wrong or max(later) > _LEVEL * later[0]:
        raise SystemExit(1)


if __name__ == "__main__":
    app.run(main)
