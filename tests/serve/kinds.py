"""An export with a task of every kind."""

import pathlib

from adapter_bert_tf.base.load import find_base, load_encoder
from adapter_bert_tf.encoder.adapter import AdapterConfig
from adapter_bert_tf.heads.head import Head
from adapter_bert_tf.heads.multi_label import MultiLabelHead
from adapter_bert_tf.heads.span import SpanHead
from adapter_bert_tf.pack.model import save_pack
from adapter_bert_tf.serve.export import export_packs
from adapter_bert_tf.tuning.task_model import TaskModel
from tests.serve.tasks import make_pack

LABELS = ("kind", "rude", "<i>long</i>", "a label that is too long for a cell of a table")
QUESTIONS = {"max_seq_length": 32, "doc_stride": 8, "max_query_length": 8}


def export_every_kind(bert: str, folder: pathlib.Path) -> tuple[str, dict[str, str]]:
    """Returns the folder of a model whose version 1 has a task of every kind, and their packs."""
    packs = {
        "film": make_pack(bert, folder / "film", "film", max_seq_length=24),
        "same": make_pack(bert, folder / "same", "same", classes=9, seed=1, pair=True, **_SHORT),
        "stars": make_pack(bert, folder / "stars", "stars", classes=None, seed=2, **_SHORT),
        "tone": _save(bert, folder / "tone", "tone", MultiLabelHead(4), labels=LABELS, **_SHORT),
        "squad": _save(bert, folder / "squad", "squad", SpanHead(), **QUESTIONS),
    }
    export_packs(find_base(bert), list(packs.values()), str(folder / "model"))
    return str(folder / "model"), packs


_SHORT = {"max_seq_length": 24}


def _save(bert: str, folder: pathlib.Path, name: str, head: Head, labels=(), **inputs) -> str:
    model = TaskModel(load_encoder(bert, AdapterConfig(size=4)), head)
    model.head.ensure_built(16)
    save_pack(model, folder, task=name, labels=labels, inputs=inputs)
    return str(folder)
