"""Writes SavedModels in TF Serving's layout."""

import contextlib
import os
from collections.abc import Iterator, Sequence

import tensorflow as tf
import tf_keras

from adapter_bert_tf.base.base import Base
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.files import new_folder
from adapter_bert_tf.serve.card import Signatures, model_card
from adapter_bert_tf.serve.classify import Classify
from adapter_bert_tf.serve.description import EXTRA, read_export, tracked, write_description
from adapter_bert_tf.serve.examples import make_examples
from adapter_bert_tf.serve.list_tasks import list_tasks
from adapter_bert_tf.serve.model import ServedModel
from adapter_bert_tf.serve.ops import check_ops, ops_of
from adapter_bert_tf.serve.questions import AnswerQuestions
from adapter_bert_tf.serve.requests import Requests
from adapter_bert_tf.serve.service import Service, read_service
from adapter_bert_tf.serve.warmup import write_warmup


def export_packs(base: Base, packs: Sequence[str], export_dir: str) -> str:
    """Exports task packs of one base.

    Args:
      base: The base, from `find_base`.
      packs: The packs' folders.
      export_dir: The model's folder, which gets the next version, or that of a new version.

    Returns:
      The version's folder.

    Example:
      `export_packs(find_base("minilm"), ["runs/sst2/pack"], "models/bert")`
    """
    version = find_version(export_dir)
    _write(read_service(base, packs), version)
    return version


def add_packs(exported: str, packs: Sequence[str]) -> str:
    """Exports task packs with those of another version; returns the new version's folder."""
    version = _next_version(os.path.dirname(os.path.abspath(exported)))
    base, tasks = read_export(exported)
    _write(read_service(base, packs, before=tasks), version)
    return version


def find_version(export_dir: str) -> str:
    """Returns the folder of a version that is not there yet."""
    folder = os.path.abspath(export_dir)
    if os.path.basename(folder).isdecimal():
        if os.path.exists(folder):
            raise UserError(f"{export_dir}: this version exists already, and is not overwritten")
        return folder
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise UserError(f"{export_dir}: expected a folder")
    return _next_version(folder)


def _next_version(folder: str) -> str:
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return os.path.join(folder, str(1 + max((int(n) for n in names if n.isdecimal()), default=0)))


def _write(service: Service, version: str) -> None:
    name = os.path.basename(os.path.dirname(version))
    with _float32():
        model = ServedModel(service)
        signatures = {**_signatures(service, model), "tasks": list_tasks(service)}
    examples = make_examples(service)
    with new_folder(version) as folder:
        tf.saved_model.save(tracked(model), folder, signatures)
        ops = ops_of(folder)
        check_ops(ops)
        extra = os.path.join(folder, EXTRA)
        os.mkdir(extra)
        write_description(folder, service, model)
        write_warmup(extra, name, examples)
        with open(os.path.join(folder, "README.md"), "w", encoding="utf-8") as file:
            file.write(model_card(service, name, signatures, examples, ops))


def _signatures(service: Service, model: ServedModel) -> Signatures:
    asked = [number for number, task in enumerate(service.tasks) if task.asks]
    others = [number for number, task in enumerate(service.tasks) if not task.asks]
    signatures: Signatures = {}
    if others:
        signatures |= Classify(service, model, Requests(service, others)).signatures()
    if asked:
        tasks = [service.tasks[number] for number in asked]
        answer = AnswerQuestions(tasks, model, Requests(service, asked)).signature()
        signatures["answer"] = answer
        # What a server calls where a request names none.
        signatures.setdefault("serving_default", answer)
    return signatures


@contextlib.contextmanager
def _float32() -> Iterator[None]:
    """Whatever a run computes in, what is served is whole."""
    before = tf_keras.mixed_precision.global_policy()
    tf_keras.mixed_precision.set_global_policy("float32")
    try:
        yield
    finally:
        tf_keras.mixed_precision.set_global_policy(before)
