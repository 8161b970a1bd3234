"""How one export grows with its packs: time to write and to load, memory, cost of a batch.

    python benchmarks/many_packs.py --picture=benchmarks/results/many_packs.svg

MiniLM with adapters of 8, batches of 32 rows of as many tasks as there are, up to 32. Memory is
what a process holds after loading and answering, beside the base and the packs on disk.
"""

import functools
import json
import os
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# As in our programs: see entry.py.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")

import numpy as np
import tensorflow as tf
from absl import app, flags, logging
from memory import held, megabytes
from serving_rows import WORDS, make_packs, multiply_pack
from timing import fastest, load_line

from adapter_bert_tf.base.load import find_base
from adapter_bert_tf.serve.export import export_packs
from adapter_bert_tf.serve.loaded import load_export

_BERT = flags.DEFINE_string("bert", "minilm", "The base.")
_COUNTS = flags.DEFINE_list("counts", ["1", "10", "100", "1000", "2000"], "Numbers of packs.")
_ROUNDS = flags.DEFINE_integer("rounds", 20, "Batches of each export; the fastest counts.")
_PICTURE = flags.DEFINE_string("picture", None, "Draws the growth to this SVG file.")
_LOAD = flags.DEFINE_string("load", None, "Only loads this export, and prints what it took.")

_ROWS, _SIZE = 32, 8


def _batch(tasks: list[str]) -> dict[str, list[str]]:
    """Rows that differ, of 32 tokens."""
    random = np.random.default_rng(0)
    texts = [" ".join(random.choice(WORDS, 30)) for _ in range(_ROWS)]
    return {"text": texts, "task": random.choice(tasks, _ROWS).tolist()}


def _print_loading(folder: str) -> None:
    # A small graph first, so that what any model needs is not counted.
    tf.function(lambda x: tf.matmul(x, x))(tf.zeros([64, 64]))
    before, start = held(), time.perf_counter()
    export = load_export(folder)
    export.ask("serving_default", _batch(list(export)))
    print(json.dumps({"load": time.perf_counter() - start, "memory": held() - before}))


def _measure_loading(folder: str) -> dict[str, float]:
    """Loads an export in a new process."""
    command = [sys.executable, __file__, f"--load={folder}"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def _costs(folders: dict[int, str]) -> dict[int, float]:
    """Seconds of a batch, by the number of packs; all exports are called in turn."""
    exports = {count: load_export(folder) for count, folder in folders.items()}
    calls = {
        count: functools.partial(export.ask, "serving_default", _batch(list(export)))
        for count, export in exports.items()
    }
    return fastest(calls, _ROUNDS.value)


def measure(folder: str, counts: list[int]) -> list[dict[str, float]]:
    """Returns what exports of so many packs take."""
    base = find_base(_BERT.value)
    pack = make_packs(_BERT.value, f"{folder}/packs", _SIZE)["SST-2"]
    copies = multiply_pack(pack, f"{folder}/packs", max(counts))
    weights = sum(array.nbytes for _, array in base.read()) / 1e6
    rows, folders = [], {}
    for count in counts:
        folders[count] = f"{folder}/export-{count}"
        start = time.perf_counter()
        export_packs(base, copies[:count], folders[count])
        row = {"packs": count, "export": time.perf_counter() - start}
        row |= _measure_loading(folders[count])
        row["share"] = row["memory"] / (weights + sum(map(megabytes, copies[:count])))
        rows.append(row)
        print(row, flush=True)
    for row, seconds in zip(rows, _costs(folders).values(), strict=True):
        row["batch"] = seconds
    return rows


def draw(rows: list[dict[str, float]], path: str) -> None:
    """Draws seconds and memory over the number of packs."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 4, figsize=(11, 2.6), layout="constrained")
    packs = [row["packs"] for row in rows]
    for ax, (name, title, factor) in zip(
        axes,
        (
            ("export", "export, s", 1),
            ("load", "load and first batch, s", 1),
            ("memory", "memory, MB", 1),
            ("batch", "batch of 32 rows, ms", 1000),
        ),
        strict=True,
    ):
        ax.plot(packs, [factor * row[name] for row in rows], "ko-", markersize=4)
        ax.set(xscale="log", xlabel="packs", title=title, ylim=(0, None))
    figure.savefig(path)


def main(_):
    logging.set_verbosity(logging.WARNING)
    if _LOAD.value:
        _print_loading(_LOAD.value)
        return
    print(f"{_BERT.value}, adapters of {_SIZE}; {load_line()}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(folder, list(map(int, _COUNTS.value)))
    print("| packs | export | load | memory | of base + packs | batch of 32 |\n|-|-|-|-|-|-|")
    for row in rows:
        print(
            f"| {row['packs']:,} | {row['export']:.1f} s | {row['load']:.1f} s "
            f"| {row['memory']:.0f} MB | {row['share']:.2f} | {1000 * row['batch']:.0f} ms |"
        )
    if _PICTURE.value:
        draw(rows, _PICTURE.value)


if __name__ == "__main__":
    app.run(main)
