"""Adapter tuning for BERT, in TensorFlow 2 and Keras (tf_keras)."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adapter_bert_tf.adapterhub.exchange import export_adapterhub, import_adapterhub
    from adapter_bert_tf.base.load import load_encoder
    from adapter_bert_tf.encoder.adapter import AdapterConfig
    from adapter_bert_tf.encoder.adapter_layer import Adapter
    from adapter_bert_tf.encoder.encoder import AdapterBertEncoder
    from adapter_bert_tf.errors import UserError
    from adapter_bert_tf.experiment.accounting import SuiteCost, suite_cost
    from adapter_bert_tf.heads.classification import ClassificationHead, Prediction
    from adapter_bert_tf.heads.multi_label import LabelsPrediction, MultiLabelHead
    from adapter_bert_tf.heads.regression import RegressionHead, Value
    from adapter_bert_tf.heads.span import SpanHead
    from adapter_bert_tf.pack.model import load_pack, save_pack
    from adapter_bert_tf.pack.pack import Pack, read_pack
    from adapter_bert_tf.run.tune import tune
    from adapter_bert_tf.serve.export import export
    from adapter_bert_tf.serve.loaded import ExportedTask, LoadedExport, load_export
    from adapter_bert_tf.task import Answer, Task, load_task
    from adapter_bert_tf.tuning.methods import Tuning
    from adapter_bert_tf.tuning.optimizer import BertAdam, create_optimizer
    from adapter_bert_tf.tuning.task_model import TaskModel

__version__ = "0.1.0"

_MODULES = {
    "Adapter": "encoder.adapter_layer",
    "AdapterBertEncoder": "encoder.encoder",
    "AdapterConfig": "encoder.adapter",
    "Answer": "task",
    "BertAdam": "tuning.optimizer",
    "ClassificationHead": "heads.classification",
    "ExportedTask": "serve.loaded",
    "LabelsPrediction": "heads.multi_label",
    "LoadedExport": "serve.loaded",
    "MultiLabelHead": "heads.multi_label",
    "Pack": "pack.pack",
    "Prediction": "heads.classification",
    "RegressionHead": "heads.regression",
    "SpanHead": "heads.span",
    "SuiteCost": "experiment.accounting",
    "Task": "task",
    "TaskModel": "tuning.task_model",
    "Tuning": "tuning.methods",
    "UserError": "errors",
    "Value": "heads.regression",
    "create_optimizer": "tuning.optimizer",
    "export": "serve.export",
    "export_adapterhub": "adapterhub.exchange",
    "import_adapterhub": "adapterhub.exchange",
    "load_encoder": "base.load",
    "load_export": "serve.loaded",
    "load_pack": "pack.model",
    "load_task": "task",
    "read_pack": "pack.pack",
    "save_pack": "pack.model",
    "suite_cost": "experiment.accounting",
    "tune": "run.tune",
}

__all__ = [
    "Adapter",
    "AdapterBertEncoder",
    "AdapterConfig",
    "Answer",
    "BertAdam",
    "ClassificationHead",
    "ExportedTask",
    "LabelsPrediction",
    "LoadedExport",
    "MultiLabelHead",
    "Pack",
    "Prediction",
    "RegressionHead",
    "SpanHead",
    "SuiteCost",
    "Task",
    "TaskModel",
    "Tuning",
    "UserError",
    "Value",
    "create_optimizer",
    "export",
    "export_adapterhub",
    "import_adapterhub",
    "load_encoder",
    "load_export",
    "load_pack",
    "load_task",
    "read_pack",
    "save_pack",
    "suite_cost",
    "tune",
]


def __getattr__(name: str) -> Any:
    """Imports a name when it is first used: TensorFlow takes seconds, and not all need it."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Lists the public names."""
    return list(__all__)
