"""What tasks of different designs cost in one export, as a ratio to tasks of one design.

    python benchmarks/designs.py --data_dir=../shared/data

MiniLM, batches of 32 rows of four tasks, adapters of 64. One export holds four Houlsby packs, the
other one a Houlsby, a Pfeiffer and a parallel pack, and one that was imported from AdapterHub's
files (Pfeiffer with ReLU). Weights are random. Also said: how far a row in a mixed batch is from
the same row on its own.
"""

import dataclasses
import os
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# As in our programs: see entry.py.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  Its operations are in the exports.
from absl import app, flags, logging
from serving_rows import Row, mixed_batches, read_rows
from timing import fastest, load_line

from adapter_bert_tf.adapterhub.exchange import export_adapterhub, import_adapterhub
from adapter_bert_tf.base.load import find_base, load_encoder
from adapter_bert_tf.encoder.adapter import HOULSBY, PARALLEL, PFEIFFER, AdapterConfig
from adapter_bert_tf.heads.classification import ClassificationHead
from adapter_bert_tf.pack.model import save_pack
from adapter_bert_tf.serve.export import export_packs
from adapter_bert_tf.tuning.methods import Tuning
from adapter_bert_tf.tuning.task_model import TaskModel

_DATA = flags.DEFINE_string("data_dir", "../shared/data", "Folder with the tasks' folders.")
_BERT = flags.DEFINE_string("bert", "minilm", "The base.")
_BATCHES = flags.DEFINE_integer("batches", 8, "Batches of 32 rows.")
_ROUNDS = flags.DEFINE_integer("rounds", 5, "Calls for each batch, of which the fastest counts.")

_ROWS = 32
_HOULSBY = AdapterConfig(64, init_scale=0.02, design=HOULSBY)
_MIXED = (
    _HOULSBY,
    dataclasses.replace(_HOULSBY, design=PFEIFFER, sites=None),
    dataclasses.replace(_HOULSBY, design=PARALLEL, sites=None, scaling=None),
)
_IMPORTED = dataclasses.replace(_MIXED[1], activation="relu")


def _pack(folder: str, name: str, adapter: AdapterConfig, layer_norms: bool = True) -> str:
    """Writes a random pack."""
    random = np.random.default_rng(len(name))
    tuning = Tuning(layer_norms=layer_norms)
    model = TaskModel(load_encoder(_BERT.value, adapter), ClassificationHead(2), tuning)
    for variable in model.trainable_variables:
        variable.assign_add(random.normal(size=variable.shape, scale=0.01))
    inputs = {"max_seq_length": 128, "pair": False}
    save_pack(model, folder, task=name, labels=["no", "yes"], inputs=inputs)
    return folder


def _export(folder: str) -> dict[str, str]:
    """Exports both sets of packs."""
    same = [_pack(f"{folder}/same-{i}", f"task-{i}", _HOULSBY) for i in range(4)]
    mixed = [_pack(f"{folder}/mixed-{i}", f"task-{i}", each) for i, each in enumerate(_MIXED)]
    written = _pack(f"{folder}/written", "task-3", _IMPORTED, layer_norms=False)
    export_adapterhub(written, output_dir=f"{folder}/hub")
    import_adapterhub(f"{folder}/hub", bert=_BERT.value, output_dir=f"{folder}/imported")
    base = find_base(_BERT.value)
    export_packs(base, same, f"{folder}/export-same")
    export_packs(base, [*mixed, f"{folder}/imported"], f"{folder}/export-mixed")
    return {name: f"{folder}/export-{name}/1" for name in ("mixed", "same")}


def _requests(rows: list[Row], tasks: list[str]) -> dict[str, tf.Tensor]:
    texts = [" ".join(filter(None, row[1:])) for row in rows]
    return {"text": tf.constant(texts), "task": tf.constant(tasks)}


def main(_):
    logging.set_verbosity(logging.WARNING)
    random = np.random.default_rng(0)
    batches = mixed_batches(read_rows(_DATA.value), _BATCHES.value, _ROWS)
    with tempfile.TemporaryDirectory() as folder:
        loaded = {
            name: tf.saved_model.load(version).signatures["serving_default"]
            for name, version in _export(folder).items()
        }
        print(f"{_BERT.value}: {_ROWS} rows of four tasks; {load_line()}")
        totals, furthest = dict.fromkeys(loaded, 0.0), 0.0
        for batch in batches:
            names = [f"task-{i}" for i in random.integers(4, size=_ROWS)]
            request = _requests(batch, names)
            calls = {
                name: lambda call=call, request=request: call(**request)["probabilities"].numpy()
                for name, call in loaded.items()
            }
            for name, seconds in fastest(calls, _ROUNDS.value).items():
                totals[name] += 1000 * seconds / len(batches)
            if any(loaded["mixed"](**request)["error"].numpy()):
                raise SystemExit("rows were refused")
            together = calls["mixed"]()
            for row in range(_ROWS):
                one = {name: value[row : row + 1] for name, value in request.items()}
                alone = loaded["mixed"](**one)["probabilities"].numpy()
                furthest = max(furthest, np.abs(alone - together[row]).max())
    told = ", ".join(f"{name} {time:.1f} ms" for name, time in totals.items())
    ratio = totals["mixed"] / totals["same"]
    print(f"four designs / four Houlsby packs: {ratio:.2f} ({told}); wanted at most 1.1")
    print(f"a row in a mixed batch and on its own differ by {furthest:.0e}; wanted at most 1e-5")


if __name__ == "__main__":
    app.run(main)
