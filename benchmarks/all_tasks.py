"""What six tasks on one text cost in one request, as a ratio to the same rows asked apart.

    python benchmarks/all_tasks.py

MiniLM with random packs that change all layers, the upper half, or the upper third. "Apart" are
six rows in one batch whose texts differ, so that nothing can be shared, and six requests of a row.
"""

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
from serving_rows import WORDS
from timing import fastest, load_line

from adapter_bert_tf.base.load import find_base, load_encoder
from adapter_bert_tf.encoder.adapter import AdapterConfig
from adapter_bert_tf.heads.classification import ClassificationHead
from adapter_bert_tf.pack.model import save_pack
from adapter_bert_tf.serve.export import export_packs
from adapter_bert_tf.tuning.methods import Tuning
from adapter_bert_tf.tuning.task_model import TaskModel

_BERT = flags.DEFINE_string("bert", "minilm", "The base.")
_FOLDER = flags.DEFINE_string("folder", None, "Keeps the exports there, for another run.")
_ROUNDS = flags.DEFINE_integer("rounds", 20, "Calls of each kind, of which the fastest counts.")

_TASKS, _SIZE = 6, 64


def make_pack(bert: str, folder: str, name: str, first: int, seed: int) -> str:
    """Writes a random pack that leaves the layers below `first` as they are."""
    random = np.random.default_rng(seed)
    layers = find_base(bert).config.num_layers
    adapter = AdapterConfig(_SIZE, init_scale=0.02, layers=tuple(range(first, layers)))
    model = TaskModel(load_encoder(bert, adapter), ClassificationHead(2), Tuning(from_layer=first))
    for variable in model.trainable_variables:
        variable.assign_add(random.normal(size=variable.shape, scale=0.01))
    save_pack(model, folder, task=name, labels=["no", "yes"], inputs={"max_seq_length": 128})
    return folder


def _export(folder: str, first: int) -> str:
    model = os.path.join(folder, f"from-{first}")
    if not os.path.exists(model):
        packs = [
            make_pack(_BERT.value, f"{folder}/packs/{first}-{i}", f"task-{i}", first, i)
            for i in range(_TASKS)
        ]
        export_packs(find_base(_BERT.value), packs, model)
    return os.path.join(model, "1")


def _texts(tokens: int) -> list[str]:
    """Six texts of so many tokens, with [CLS] and [SEP]."""
    words = [WORDS[(i * i) % len(WORDS)] for i in range(tokens - 3)]
    return [" ".join([WORDS[task], *words]) for task in range(_TASKS)]


def compare(version: str, tokens: int) -> str:
    """Returns a line of times and ratios."""
    signatures = tf.saved_model.load(version).signatures
    together, apart = signatures["all"], signatures["serving_default"]
    texts = _texts(tokens)
    names = [f"task-{i}" for i in range(_TASKS)]
    text, tasks = tf.constant(texts[:1]), tf.constant(names)
    rows = [{"text": text, "task": tf.constant([name])} for name in names]
    seconds = fastest(
        {
            "all": lambda: together(text=text),
            "batch": lambda: apart(text=tf.constant(texts), task=tasks),
            "requests": lambda: [apart(**row) for row in rows],
        },
        _ROUNDS.value,
    )
    alone = np.concatenate([apart(**row)["probabilities"] for row in rows])
    difference = np.abs(together(text=text)["probabilities"][0] - alone).max()
    times = ", ".join(f"{name} {1000 * time:.1f} ms" for name, time in seconds.items())
    ratios = [seconds["all"] / seconds[name] for name in ("batch", "requests")]
    return (
        f"all / six rows apart in a batch: {ratios[0]:.2f}, in six requests: {ratios[1]:.2f} "
        f"({times}); answers differ by {difference:.0e}"
    )


def main(_):
    logging.set_verbosity(logging.WARNING)
    print(f"{_BERT.value}: six tasks on one text; {load_line()}")
    layers = find_base(_BERT.value).config.num_layers
    with tempfile.TemporaryDirectory() as temporary:
        for what, first in (
            ("all layers", 0),
            ("upper half", layers // 2),
            ("upper third", layers - layers // 3),
        ):
            version = _export(_FOLDER.value or temporary, first)
            for tokens in (32, 128):
                print(f"{what}, {tokens} tokens: {compare(version, tokens)}", flush=True)


if __name__ == "__main__":
    app.run(main)
