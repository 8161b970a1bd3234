"""What tasks lose, and what a text costs, without the adapters of the lowest layers.

    python -m adapter_bert_tf.experiment sweep --task=SST-2,MRPC,CoLA --data_dir=data \\
        --adapter_drop=0,4 --learning_rate=5e-4 --max_train_examples=4000 \\
        --output_dir=sweeps/adapter_drop
    python benchmarks/adapter_drop.py --sweep=sweeps/adapter_drop --data_dir=data

Scores are of the dev sets. The cost is that of the signature `all` of an export with six copies of
a pack, on a text of 128 tokens, as a ratio to that without dropped layers.
"""

import os
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# As in our programs: see entry.py.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")

import numpy as np
import tensorflow as tf
from absl import app, flags, logging
from serving_rows import multiply_pack
from timing import fastest, load_line

from adapter_bert_tf.base.load import find_base
from adapter_bert_tf.data.task import DEV
from adapter_bert_tf.experiment.places import Places
from adapter_bert_tf.experiment.records import read_records
from adapter_bert_tf.run.settings import ClassifierSettings, make_settings
from adapter_bert_tf.run.source import find_source
from adapter_bert_tf.serve.export import export_packs
from adapter_bert_tf.serve.loaded import load_export
from adapter_bert_tf.task import load_task

_SWEEP = flags.DEFINE_string("sweep", None, "Folder of the sweep.", required=True)
_DATA = flags.DEFINE_string("data_dir", None, "Folder with the tasks' folders.", required=True)
_BERT = flags.DEFINE_string("bert", "minilm", "The base.")
_ROUNDS = flags.DEFINE_integer("rounds", 20, "Calls of each export, of which the fastest counts.")

_MOST = 4
_TEXT = " ".join(["word"] * 126)


def _scores(record, folder: str) -> list[float]:
    """The metric of exports of a trial's pack without its 0 to _MOST lowest layers."""
    pack = os.path.join(_SWEEP.value, record.folder, "pack")
    given = {**Places("", _DATA.value).of_task(record.task), "output_dir": "unused"}
    examples = find_source(make_settings(ClassifierSettings, given)).read(DEV)
    head, base = load_task(pack, bert=_BERT.value).head, find_base(_BERT.value)
    rows = {"text": examples.texts, "text_pair": examples.pairs}
    found = []
    for n in range(_MOST + 1):
        export_packs(base, [pack], f"{folder}/{n}", drop_layers=n)
        asked = {name: column for name, column in rows.items() if column is not None}
        answers = load_export(f"{folder}/{n}").ask("serving_default", asked)
        logits = np.log(np.array(answers["probabilities"]))
        scores = dict(head.evaluate([record.metric], np.array(examples.labels), logits))
        found.append(100 * scores[record.metric])
    return found


def _costs(pack: str, folder: str) -> list[float]:
    """Seconds of a text on six tasks, without the adapters of the 0 to _MOST lowest layers."""
    copies = multiply_pack(pack, folder, 6)
    base, text = find_base(_BERT.value), tf.constant([_TEXT])
    exports = {}
    for n in range(_MOST + 1):
        export_packs(base, copies, f"{folder}/export-{n}", drop_layers=n)
        exports[n] = load_export(f"{folder}/export-{n}")
    calls = {
        n: lambda export=export: export.signatures["all"](text=text)["score"].numpy()
        for n, export in exports.items()
    }
    return list(fastest(calls, _ROUNDS.value).values())


def main(_):
    logging.set_verbosity(logging.WARNING)
    records = [each for each in read_records(_SWEEP.value) if each.is_complete]
    print(f"{_BERT.value}; {load_line()}")
    numbers = range(_MOST + 1)
    print("| task | adapter_drop | " + " | ".join(f"n = {n}" for n in numbers) + " |")
    print("|-|-|" + "-|" * len(numbers))
    for record in sorted(records, key=lambda each: (each.task, str(each.settings))):
        with tempfile.TemporaryDirectory() as folder:
            cells = " | ".join(f"{score:.1f}" for score in _scores(record, folder))
        robust = record.settings["adapter_drop"]
        print(f"| {record.task}, {record.metric} | {robust} | {cells} |", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        single = next(each for each in records if each.task in ("SST-2", "CoLA"))
        seconds = _costs(os.path.join(_SWEEP.value, single.folder, "pack"), folder)
    cells = " | ".join(f"{each / seconds[0]:.2f} ({1000 * each:.0f} ms)" for each in seconds)
    print(f"| cost of six tasks | | {cells} |")


if __name__ == "__main__":
    app.run(main)
