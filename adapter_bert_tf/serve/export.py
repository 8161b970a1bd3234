"""Writes SavedModels in TF Serving's layout, and reads them again in order to add tasks."""

import contextlib
import dataclasses
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras
from tensorflow.core.protobuf import saved_model_pb2

from adapter_bert_tf.base.base import Base
from adapter_bert_tf.base.checkpoint import TfCheckpoint
from adapter_bert_tf.base.config import BertConfig
from adapter_bert_tf.base.load import find_base
from adapter_bert_tf.encoder.variables import is_layer_norm
from adapter_bert_tf.errors import UserError, first_line, some
from adapter_bert_tf.files import (
    absolute,
    exists,
    is_folder,
    new_folder,
    open_bytes,
    remove_half_written,
)
from adapter_bert_tf.pack.pack import read_pack
from adapter_bert_tf.serve import DESCRIPTION_FILE, GRAPH_FILE
from adapter_bert_tf.serve.baseline import find_baseline, write_baseline
from adapter_bert_tf.serve.card import make_examples, model_card, write_warmup
from adapter_bert_tf.serve.description import DROPPED, FORMAT, Description, read_description
from adapter_bert_tf.serve.model import ServedModel
from adapter_bert_tf.serve.plan import Plan, next_version, plan_version
from adapter_bert_tf.serve.requests import TEXT_OPS
from adapter_bert_tf.serve.service import ServedTask, Service, check_base, read_service
from adapter_bert_tf.serve.signatures import Signatures, make_signatures
from adapter_bert_tf.serve.values import from_served, split
from adapter_bert_tf.text.tokenizer import Vocabulary

# Operations that were added to TensorFlow between 2.12.1 and 2.20, except for those of TPUs and
# data sets.
_NEWER_OPS = frozenset(
    {
        "CheckPinned",
        "Conv",
        "DebugIdentityV3",
        "DecodeWebP",
        "DumpTensor",
        "FFTND",
        "IFFTND",
        "IRFFTND",
        "RFFTND",
        "RaggedFillEmptyRows",
        "RaggedFillEmptyRowsGrad",
        "SegmentMaxV2",
        "SegmentMinV2",
        "StochasticCastToInt",
        "XlaLaunchV2",
    }
)


def export(
    packs: str | Sequence[str],
    export_dir: str,
    bert: str | None = None,
    *,
    bert_config_file: str | None = None,
    vocab_file: str | None = None,
    do_lower_case: bool | None = None,
    drop_layers: int = 0,
    trust_module: bool = False,
) -> str:
    """Exports task packs of one base as a SavedModel for TF Serving.

    Args:
      packs: The packs' folders.
      export_dir: The model's folder, in which the next version is made, or the folder of a version
        that does not exist yet.
      bert: The base. By default it is where the first pack says.
      bert_config_file: The base's configuration, if it is not beside the checkpoint.
      vocab_file: The base's vocabulary, if it is not beside the checkpoint.
      do_lower_case: Whether to lower-case the text. By default the base's files decide.
      drop_layers: Number of the lowest layers in which the tasks do without their adapters and
        LayerNorms, and so share the base's. Packs that were tuned with `adapter_drop` stay good.
      trust_module: Whether a baseline's text module may be loaded that is none of the known ones.

    Returns:
      The version's folder.

    Example:
      `export(["runs/sst2/pack", "runs/mrpc/pack"], "models/bert")`
    """
    folders = [packs] if isinstance(packs, str | os.PathLike) else list(packs)
    if not folders:
        raise UserError("expected the folders of task packs")
    baseline = find_baseline(folders)
    if baseline is not None:
        if drop_layers:
            raise UserError(f"--drop_layers: {baseline} is a baseline, which has no layers of BERT")
        return export_baseline(baseline, export_dir, trust_module)
    base = find_base(
        bert or read_pack(folders[0]).base.get("origin", ""),
        bert_config_file,
        vocab_file,
        do_lower_case,
    )
    return export_packs(base, folders, export_dir, drop_layers)


def export_packs(base: Base, packs: Sequence[str], export_dir: str, drop_layers: int = 0) -> str:
    """Exports task packs of one base.

    Args:
      base: The base, from `find_base`.
      packs: The packs' folders.
      export_dir: The model's folder, in which the next version is made, or the folder of a version
        that does not exist yet.
      drop_layers: Number of the lowest layers that the packs leave to the base.

    Returns:
      The version's folder.

    Example:
      `export_packs(find_base("minilm"), ["runs/sst2/pack"], "models/bert")`
    """
    version = find_version(export_dir)
    _write(read_service(base, packs, drop_layers=drop_layers), version)
    return version


def export_baseline(pack: str, export_dir: str, trust_module: bool = False) -> str:
    """Exports a baseline without BERT.

    Args:
      pack: The pack's folder.
      export_dir: The model's folder, in which the next version is made, or the folder of a version
        that does not exist yet.
      trust_module: Whether a text module may be loaded that is none of the known ones.

    Returns:
      The version's folder.
    """
    version = find_version(export_dir)
    with _float32():
        write_baseline(pack, version, check_ops_of, trust_module)
    return version


def add_packs(exported: str, packs: Sequence[str], drop_layers: int = 0) -> str:
    """Exports the tasks of a version together with more task packs, as the next version.

    Neither the base nor the packs of the tasks that are already there are needed.

    Args:
      exported: The folder of a version, or of a model, which means its newest version.
      packs: The folders of the packs to add. A pack of a task that is there replaces it.
      drop_layers: Number of the lowest layers that these packs leave to the base.

    Returns:
      The new version's folder.
    """
    return make_version(plan_version(exported, packs), drop_layers)


def make_version(plan: Plan, drop_layers: int = 0) -> str:
    """Makes a version from an earlier one, as planned, and returns its folder.

    Args:
      plan: What becomes of its tasks.
      drop_layers: Number of the lowest layers that the new packs leave to the base.
    """
    base, tasks = read_export(plan.source)
    kept = [
        dataclasses.replace(task, name=plan.names[task.name])
        for task in tasks
        if task.name in plan.names
    ]
    service = read_service(base, list(plan.packs.values()), kept, drop_layers)
    _write(service, plan.version, plan.lacks)
    return plan.version


def find_version(export_dir: str) -> str:
    """Returns the folder of a version that does not exist yet.

    Args:
      export_dir: The folder of a model, or of a version, which is a number.
    """
    folder = absolute(export_dir)
    if os.path.basename(folder).isdecimal():
        remove_half_written(folder)
        if exists(folder):
            raise UserError(f"{export_dir}: this version exists already, and is not overwritten")
        return folder
    if exists(folder) and not is_folder(folder):
        raise UserError(f"{export_dir}: expected a folder")
    return next_version(folder)


def _write(service: Service, version: str, note: str = "") -> None:
    model_folder, number = os.path.split(version)
    name = os.path.basename(model_folder)
    with _float32():
        model = ServedModel(service)
        signatures = make_signatures(service, model)
    examples = make_examples(service)
    with new_folder(version, last=GRAPH_FILE) as folder:
        tf.saved_model.save(_tracked(model), folder, signatures)
        ops = ops_of(folder)
        check_ops(ops)
        description = os.path.join(folder, DESCRIPTION_FILE)
        os.mkdir(os.path.dirname(description))
        _write_text(description, _describe(service, model, signatures))
        write_warmup(folder, name, examples)
        card = model_card(service, name, number, signatures, examples, ops, note)
        _write_text(os.path.join(folder, "README.md"), card)


def _write_text(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


@contextlib.contextmanager
def _float32() -> Iterator[None]:
    """Makes new layers compute in float32, whatever precision the run has set for training."""
    before = tf_keras.mixed_precision.global_policy()
    tf_keras.mixed_precision.set_global_policy("float32")
    try:
        yield
    finally:
        tf_keras.mixed_precision.set_global_policy(before)


def _tracked(model: ServedModel) -> tf.Module:
    """Returns an object that holds the SavedModel's variables.

    This is not the model itself, because a SavedModel would store a graph for each Keras layer.
    """
    module = tf.Module()
    module.base = list(model.base.values())
    module.values, module.places = model.values.tracked
    return module


def ops_of(folder: str) -> set[str]:
    """Returns the names of all operations in a SavedModel, including those in its functions."""
    model = saved_model_pb2.SavedModel()
    with open_bytes(os.path.join(folder, GRAPH_FILE)) as file:
        model.ParseFromString(file.read())
    found = set()
    for graph in (meta_graph.graph_def for meta_graph in model.meta_graphs):
        found |= {node.op for node in graph.node}
        found |= {node.op for function in graph.library.function for node in function.node_def}
    return found


def check_ops_of(folder: str) -> None:
    """Refuses a SavedModel with operations that TF Serving may lack."""
    check_ops(ops_of(folder))


def check_ops(ops: set[str]) -> None:
    """Refuses operations that TF Serving's binaries do not have in every version since 2.12."""
    foreign = {op for op in ops if not hasattr(tf.raw_ops, op)} - TEXT_OPS
    unknown = foreign | (ops & _NEWER_OPS)
    if unknown:
        raise UserError(f"the graph has operations that TF Serving may lack: {some(unknown)}")


def _describe(service: Service, model: ServedModel, signatures: Signatures) -> str:
    """Returns the content of `DESCRIPTION_FILE`.

    It names the variables and holds everything else that `read_export` needs. The signatures are
    there for people, who see them with `python -m adapter_bert_tf.show`.
    """
    base = service.base
    description = {
        "format": FORMAT,
        "origin": base.origin,
        "config": dataclasses.asdict(base.config),
        "base": list(model.base),
        "values": model.values.layout(),
        "tasks": [_describe_task(task) for task in service.tasks],
        "signatures": {
            name: {
                "inputs": list(function.structured_input_signature[1]),
                "outputs": list(function.structured_outputs),
            }
            for name, function in signatures.items()
        },
        "lower_case": service.vocabulary.lower_case,
        "tokens": service.vocabulary.tokens,
    }
    return json.dumps(description, ensure_ascii=False)


def _describe_task(task: ServedTask) -> dict[str, Any]:
    dropped = {DROPPED: task.dropped_layers} if task.dropped_layers else {}
    return {"name": task.name, "pack": json.loads(task.pack.to_json()), **dropped}


def read_export(folder: str) -> tuple[Base, list[ServedTask]]:
    """Reads the base and the tasks of an export from its description and its variables."""
    description = read_description(folder)
    if description.config is None:
        raise UserError(f"{folder}: a baseline without BERT; other tasks can't be added to it")
    if not exists(os.path.join(folder, GRAPH_FILE)):
        raise UserError(f"{folder}: not a complete export: {GRAPH_FILE} is missing")
    try:
        checkpoint = TfCheckpoint(os.path.join(folder, "variables", "variables"))
        return _read(description, description.config, checkpoint)
    except UserError:
        raise
    except (LookupError, TypeError, ValueError) as error:
        raise UserError(f"{folder}: not a complete export: {first_line(error)}") from None


def _read(
    description: Description, config: BertConfig, checkpoint: TfCheckpoint
) -> tuple[Base, list[ServedTask]]:
    def values(name: str) -> np.ndarray:
        return checkpoint.read(f"{name}/.ATTRIBUTES/VARIABLE_VALUE")

    raw = description.raw
    served = {name: values(f"base/{i}") for i, name in enumerate(raw["base"])}
    base = from_served(served, config.inner_dim)
    defaults, tensors = split(values("values"), raw["values"])
    # The other defaults stand for adapters and heads that a task does not have.
    base |= {name: default for name, default in defaults.items() if is_layer_norm(name)}
    tasks = [
        ServedTask(task.name, task.pack, own, task.dropped_layers)
        for task, own in zip(description.tasks, tensors, strict=True)
    ]
    vocabulary = Vocabulary(tuple(raw["tokens"]), raw["lower_case"])
    read = Base(raw["origin"], config, vocabulary, lambda: iter(base.items()))
    check_base(read, tasks, description.folder)
    return read, tasks
