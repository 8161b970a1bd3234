"""A worker: our epoch of CoLA, part by part. Arguments: a `Case`, a folder, the parts."""

import sys
import tempfile

import ours
import tensorflow as tf
from pipe import serve
from sizes import Case

from adapter_bert_tf.base.presets import find_minilm
from adapter_bert_tf.data.batches import Batches, bucket_lengths
from adapter_bert_tf.data.records import cached_records, read_records
from adapter_bert_tf.data.sources import OriginalFiles, find_task
from adapter_bert_tf.data.task import TRAIN
from adapter_bert_tf.heads.kinds import TEXT_LABELS
from adapter_bert_tf.text.tokenizer import Tokenizer, read_vocabulary

_LONGEST = 128


def _columns(data_dir: str) -> dict:
    tokenizer = Tokenizer(read_vocabulary(f"{find_minilm()}/vocab.txt"))
    examples = OriginalFiles(find_task("CoLA"), data_dir, TEXT_LABELS).read(TRAIN)
    with tempfile.TemporaryDirectory() as folder:
        return read_records(cached_records(examples, tokenizer, _LONGEST, folder, "CoLA"))


def main() -> None:
    case, data_dir, parts = Case.from_argument(), sys.argv[2], int(sys.argv[3])
    columns = _columns(data_dir)
    bucketed = Batches(columns, case.rows, bucket_lengths(_LONGEST))
    padded = Batches(columns, case.rows, [_LONGEST])
    plan = bucketed.shuffled(seed=0, epoch=0)
    each = -(-len(plan) // parts)
    pieces = iter([plan[start : start + each] for start in range(0, len(plan), each)])
    # Of their own, so that each traces what it needs itself.
    models = {"part": ours.make_model(case), "padded": ours.make_model(case)}

    def fit(name: str, dataset: tf.data.Dataset) -> None:
        models[name].fit(dataset, verbose=0)

    serve(
        {
            "part": lambda: fit("part", bucketed.dataset(next(pieces))),
            "padded": lambda: fit("padded", padded.dataset(plan[:1])),
        },
        batches=len(plan),
    )


if __name__ == "__main__":
    main()
