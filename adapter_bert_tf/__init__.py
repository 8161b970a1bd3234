"""Adapter tuning for BERT, in TensorFlow 2."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adapter_bert_tf.base.load import load_encoder
    from adapter_bert_tf.encoder.adapter import Adapter
    from adapter_bert_tf.encoder.adapter_config import AdapterConfig
    from adapter_bert_tf.encoder.encoder import AdapterBertEncoder
    from adapter_bert_tf.errors import UserError
    from adapter_bert_tf.heads.classification import ClassificationHead
    from adapter_bert_tf.heads.regression import RegressionHead
    from adapter_bert_tf.heads.span import SpanHead
    from adapter_bert_tf.pack.model import load_pack, save_pack
    from adapter_bert_tf.pack.pack import Pack, read_pack
    from adapter_bert_tf.tuning.methods import Tuning
    from adapter_bert_tf.tuning.optimizer import BertAdam, create_optimizer
    from adapter_bert_tf.tuning.task_model import TaskModel

_MODULES = {
    "Adapter": "encoder.adapter",
    "AdapterBertEncoder": "encoder.encoder",
    "AdapterConfig": "encoder.adapter_config",
    "BertAdam": "tuning.optimizer",
    "ClassificationHead": "heads.classification",
    "Pack": "pack.pack",
    "RegressionHead": "heads.regression",
    "SpanHead": "heads.span",
    "TaskModel": "tuning.task_model",
    "Tuning": "tuning.methods",
    "UserError": "errors",
    "create_optimizer": "tuning.optimizer",
    "load_encoder": "base.load",
    "load_pack": "pack.model",
    "read_pack": "pack.pack",
    "save_pack": "pack.model",
}

__all__ = [
    "Adapter",
    "AdapterBertEncoder",
    "AdapterConfig",
    "BertAdam",
    "ClassificationHead",
    "Pack",
    "RegressionHead",
    "SpanHead",
    "TaskModel",
    "Tuning",
    "UserError",
    "create_optimizer",
    "load_encoder",
    "load_pack",
    "read_pack",
    "save_pack",
]


def __getattr__(name: str) -> Any:
    """Imports a name when it is first used: TensorFlow takes seconds, and not all need it."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
