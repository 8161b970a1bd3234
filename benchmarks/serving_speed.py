"""One export of many tasks: its speed and memory, each as a ratio.

    python benchmarks/serving_speed.py --data_dir=../shared/data

Batches of 32 rows of six tasks, drawn from the tasks' dev sets, on MiniLM with adapters of 64:

- mixed / single: the export of six tasks against that of one, on the same tokens.
- 200 / 6: an export of 200 tasks against that of six, likewise.
- ours / HF adapters: rows per second of the export of six, against Hugging Face's `adapters` with
  PyTorch, which switches adapters for each group of rows; raw text in, probabilities out.
- ours / ONNX Runtime: the same against six sessions of ONNX Runtime, whose rows are grouped by task
  and padded by group. PEER_PYTHON names a Python that has both; without, `.venv-peer` is built.
- memory: what a process holds after loading and answering a row: six tasks in one export against
  six exports; and what 199 more tasks add, against the size of their packs.
"""

import json
import os
import subprocess
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# As in our programs: see entry.py. TF Serving's own default is 1 on newer CPUs.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  Its operations are in the exports.
from absl import app, flags, logging
from environments import peer_python
from memory import held, megabytes
from serving_rows import TASKS, Row, make_packs, mixed_batches, multiply_pack, read_rows
from timing import fastest, load_line

from adapter_bert_tf.base.load import find_base
from adapter_bert_tf.base.presets import locate
from adapter_bert_tf.serve.export import export_packs
from adapter_bert_tf.text.inputs import IDS, MASK, SEGMENTS, encode
from adapter_bert_tf.text.tokenizer import Tokenizer

_DATA = flags.DEFINE_string("data_dir", "../shared/data", "Folder with the tasks' folders.")
_BERT = flags.DEFINE_string("bert", "minilm", "The base; the peer needs a Hugging Face folder.")
_BATCHES = flags.DEFINE_integer("batches", 8, "Batches of 32 rows.")
_ROUNDS = flags.DEFINE_integer("rounds", 3, "Calls for each batch, of which the fastest counts.")
_MANY = flags.DEFINE_integer("many", 200, "Tasks in the large export.")
_FOLDER = flags.DEFINE_string("folder", None, "Keeps the exports there, for another run.")
_MEMORY = flags.DEFINE_list("memory", None, "Only prints what loading these exports takes.")

_ROWS, _SIZE = 32, 64


def _load(version: str):
    return tf.saved_model.load(version).signatures


def _texts(batch: list[Row]) -> dict[str, tf.Tensor]:
    columns = zip(*batch, strict=True)
    return dict(zip(("task", "text", "text_pair"), map(tf.constant, columns), strict=True))


def _tokens(tokenizer: Tokenizer, batch: list[Row]) -> dict[str, tf.Tensor]:
    """The batch as tokens, each row as its task has it."""
    rows = []
    for _, text, pair in batch:
        pairs = tf.constant([pair]) if pair else None
        rows.append(encode(tokenizer, tf.constant([text]), pairs, 128))
    return {
        name: tf.concat([row[name] for row in rows], axis=0).to_tensor()
        for name in (IDS, MASK, SEGMENTS)
    }


class _Peer:
    """A peer's process."""

    def __init__(self, program: str, model: str):
        script = os.path.join(os.path.dirname(__file__), program)
        self._process = subprocess.Popen(
            [peer_python(), script, model, ",".join(TASKS), str(_SIZE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> "_Peer":
        return self

    def __exit__(self, *_) -> None:
        self._process.communicate()  # Closes its input, which ends it.

    def seconds(self, batch: list[Row]) -> float:
        """What it takes for a batch, as it says."""
        print(json.dumps(batch), file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())


def _memory(versions: list[str]) -> float:
    """What a new process grows by, in MB."""
    command = [sys.executable, __file__, f"--memory={','.join(versions)}"]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _print_memory(versions: list[str]) -> None:
    # A small graph first, so that what any model needs is not counted.
    tf.function(lambda x: tf.matmul(x, x))(tf.zeros([64, 64]))
    before = held()
    loaded = [_load(version) for version in versions]
    for version, signatures in zip(versions, loaded, strict=True):
        with open(os.path.join(version, "README.md"), encoding="utf-8") as file:
            line = next(line for line in file if "curl -d" in line)
        inputs = json.loads(line.split("'")[1])["inputs"]
        signatures["serving_default"](
            **{name: tf.constant(values[:1]) for name, values in inputs.items()}
        )
    print(held() - before)


def _compare(title: str, candidates, batches, wanted: str) -> None:
    totals = dict.fromkeys(candidates, 0.0)
    for batch in batches:
        calls = {
            name: lambda call=call, batch=batch: call(batch) for name, call in candidates.items()
        }
        for name, seconds in fastest(calls, _ROUNDS.value).items():
            totals[name] += 1000 * seconds / len(batches)
    first, second = totals
    told = ", ".join(f"{name} {time:.1f} ms" for name, time in totals.items())
    print(f"{title}: {totals[first] / totals[second]:.2f} ({told}); wanted {wanted}", flush=True)


def main(_):
    if _MEMORY.value:
        _print_memory(_MEMORY.value)
        return
    logging.set_verbosity(logging.WARNING)
    with tempfile.TemporaryDirectory() as temporary:
        _run(_FOLDER.value or temporary)


def _export(folder: str) -> None:
    """Exports each task, the six together, and many."""
    base = find_base(_BERT.value)
    packs = make_packs(_BERT.value, f"{folder}/packs", _SIZE)
    copies = multiply_pack(packs["SST-2"], f"{folder}/packs", _MANY.value)
    for name, pack in packs.items():
        export_packs(base, [pack], f"{folder}/{name}")
    export_packs(base, list(packs.values()), f"{folder}/six")
    export_packs(base, copies, f"{folder}/many")


def _run(folder: str) -> None:
    if not os.path.exists(f"{folder}/many"):
        _export(folder)
    six, many = f"{folder}/six/1", f"{folder}/many/1"
    singles = [f"{folder}/{name}/1" for name in TASKS]
    copies = [f"{folder}/packs/copy-{i}" for i in range(_MANY.value)]
    base = find_base(_BERT.value)
    rows = mixed_batches(read_rows(_DATA.value), _BATCHES.value, _ROWS)
    tokenizer = Tokenizer(base.vocabulary)
    tokens = [_tokens(tokenizer, batch) for batch in rows]
    real = sum(int(tf.reduce_sum(batch[MASK])) for batch in tokens) / len(tokens)
    padded = sum(batch[MASK].numpy().size for batch in tokens) / len(tokens)
    print(f"{_BERT.value}: {_ROWS} rows, {real:.0f} tokens ({padded:.0f} padded); {load_line()}")
    one_model, six_model, many_model = (_load(path)["tokens"] for path in (singles[0], six, many))
    numbers = np.random.default_rng(1)
    calls = [
        {
            "tokens": batch,
            "six": tf.constant([row[0] for row in texts]),
            "many": tf.constant([f"copy-{i}" for i in numbers.integers(_MANY.value, size=_ROWS)]),
        }
        for batch, texts in zip(tokens, rows, strict=True)
    ]
    _compare(
        "mixed / single",
        {
            "six tasks": lambda call: six_model(task=call["six"], **call["tokens"]),
            "one task": lambda call: one_model(**call["tokens"]),
        },
        calls,
        "at most 1.15",
    )
    _compare(
        f"{_MANY.value} / 6 tasks",
        {
            f"{_MANY.value} tasks": lambda call: many_model(task=call["many"], **call["tokens"]),
            "six tasks": lambda call: six_model(task=call["six"], **call["tokens"]),
        },
        calls,
        "at most 1.3",
    )
    ours, model = _load(six)["serving_default"], locate(_BERT.value)
    _compare_with_peer("HF adapters", "peer_adapters.py", 1.5, ours, model, rows)
    _compare_with_peer("ONNX Runtime", "peer_onnx.py", 1.9, ours, model, rows)

    held, of_singles = _memory([six]), _memory(singles)
    print(f"memory, six tasks / six models: {held / of_singles:.2f}", end="")
    print(f" ({held:.0f} MB, {of_singles:.0f} MB); wanted at most 0.25")
    added, of_packs = _memory([many]) - _memory(singles[:1]), sum(map(megabytes, copies[1:]))
    print(f"memory, {_MANY.value - 1} more tasks / their packs: {added / of_packs:.2f}", end="")
    print(f" ({added:.0f} MB, {of_packs:.0f} MB); wanted at most 1.10")


def _compare_with_peer(
    name: str, program: str, wanted: float, ours, model: str, batches: list[list[Row]]
) -> None:
    """The peer's time is its own: handing it the batch is not counted."""
    theirs, mine = 0.0, 0.0
    with _Peer(program, model) as peer:
        for batch in batches:
            request = _texts(batch)
            calls = {
                "theirs": lambda batch=batch: peer.seconds(batch),
                "ours": lambda request=request: ours(**request)["probabilities"].numpy(),
            }
            times = fastest(calls, _ROUNDS.value)
            theirs, mine = theirs + times["theirs"], mine + times["ours"]
    count = len(batches) * _ROWS
    print(f"ours / {name}: {theirs / mine:.2f} (rows/s: {count / mine:.0f}, ", end="")
    print(f"{name} {count / theirs:.0f}); wanted at least {wanted}", flush=True)


if __name__ == "__main__":
    app.run(main)
