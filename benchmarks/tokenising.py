"""SST-2's training set to TFRecords, against Python that goes token by token."""

import os
import tempfile
import time

from environments import peer_worker
from report import Row
from sizes import MINILM

from adapter_bert_tf.base.presets import find_minilm

# Of the texts, for Python: all of them would take minutes.
_EVERY = 20


def tokenising(data_dir: str) -> list[Row]:
    """Ours with TFRecords and all, on all texts; Python without them, on every 20th."""
    vocabulary = f"{find_minilm()}/vocab.txt"
    texts = os.path.join(data_dir, "train.tsv")
    with peer_worker(MINILM, "tokenising_peer.py", vocabulary, texts, str(_EVERY)) as peer:
        ours, theirs = [], []
        for _ in range(2):
            ours.append(_write(vocabulary, data_dir))
            theirs.append(_EVERY * peer.seconds("tokenise"))
    name = "tokenising SST-2 to TFRecords: ours / per-token Python"
    return [Row(name, 0.10, min(ours), min(theirs))]


def _write(vocabulary: str, data_dir: str) -> float:
    from adapter_bert_tf.data.records import write_records
    from adapter_bert_tf.data.sources import OriginalFiles, find_task
    from adapter_bert_tf.data.task import TRAIN
    from adapter_bert_tf.heads.kinds import TEXT_LABELS
    from adapter_bert_tf.text.tokenizer import Tokenizer, read_vocabulary

    examples = OriginalFiles(find_task("SST-2"), data_dir, TEXT_LABELS).read(TRAIN)
    tokenizer = Tokenizer(read_vocabulary(vocabulary))
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        write_records(os.path.join(folder, "train.tfrecord"), examples, tokenizer, 128, "SST-2")
        return time.perf_counter() - start
