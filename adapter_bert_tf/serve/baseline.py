"""A baseline without BERT as a SavedModel, with the signature for texts that task packs have."""

import json
import os
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from adapter_bert_tf.baseline.modules import public_module_name
from adapter_bert_tf.baseline.task import BaselineTask, load_baseline
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.files import new_folder
from adapter_bert_tf.heads.head import Answers, Head
from adapter_bert_tf.pack.pack import read_pack
from adapter_bert_tf.serve import DESCRIPTION_FILE, GRAPH_FILE
from adapter_bert_tf.serve.card import (
    ExampleRequests,
    as_json,
    describe_signature,
    predict_call,
    shown_labels,
    without_a_server,
    write_warmup,
)
from adapter_bert_tf.serve.description import BASELINE, base_name
from adapter_bert_tf.serve.requests import REQUEST, TEXT, TEXT_PAIR, of_one_size
from adapter_bert_tf.serve.signatures import ERROR, Signatures, list_tasks

FORMAT = 1


def find_baseline(packs: Sequence[str]) -> str | None:
    """Returns the folder of the baseline among packs; refuses one that is not alone."""
    found = [folder for folder in packs if read_pack(folder).baseline is not None]
    if found and len(packs) > 1:
        raise UserError(f"{found[0]}: a baseline shares nothing with other tasks; export it alone")
    return found[0] if found else None


def make_signatures(task: BaselineTask) -> Signatures:
    """Returns the signatures by name."""
    labels = np.array([list(task.labels) or [""]])
    names = (TEXT, TEXT_PAIR) if task.takes_pairs else (TEXT,)

    @tf.function(autograph=False)
    def texts(**request: tf.Tensor) -> Answers:
        request = of_one_size(request)
        logits = task.text_model(request[TEXT], request.get(TEXT_PAIR))
        values = task.head.activate(logits)
        rows = tf.shape(values)[0]
        answers = task.head.answers(values, tf.tile(labels, [rows, 1]))
        return {**answers, ERROR: tf.fill([rows], "")}

    specs = {name: tf.TensorSpec([None], tf.string, name) for name in names}
    return {
        Head.signature: texts.get_concrete_function(**specs),
        "tasks": list_tasks([task.name or ""], labels),
    }


def write_baseline(
    folder: str, version: str, check: Callable[[str], None], trust_module: bool = False
) -> None:
    """Writes the SavedModel of a baseline.

    Args:
      folder: The pack's folder.
      version: Folder of the new version, in that of the model.
      check: Refuses a SavedModel that can't be served.
      trust_module: Whether a text module may be loaded that is none of the known ones.
    """
    task = load_baseline(folder, trust_module)
    signatures = make_signatures(task)
    examples: ExampleRequests = {
        Head.signature: {each: [f"A {each} to start with."] for each in _inputs(signatures)},
        "tasks": {REQUEST: [""]},
    }
    with new_folder(version, last=GRAPH_FILE) as beside:
        tracked = tf.Module()
        tracked.parts = [*task.model.variables, task.text_model.vocabulary]
        tracked.module = task.text_model.module.tracked()
        tf.saved_model.save(tracked, beside, signatures)
        check(beside)
        path = os.path.join(beside, DESCRIPTION_FILE)
        os.mkdir(os.path.dirname(path))
        description = {
            BASELINE: FORMAT,
            "tasks": [{"name": task.name, "pack": json.loads(task.pack.to_json())}],
            "signatures": {
                each: {
                    "inputs": list(function.structured_input_signature[1]),
                    "outputs": list(function.structured_outputs),
                }
                for each, function in signatures.items()
            },
        }
        card = _card(task, version, signatures, examples)
        files = {path: json.dumps(description), os.path.join(beside, "README.md"): card}
        for place, text in files.items():
            with open(place, "w", encoding="utf-8") as file:
                file.write(text)
        write_warmup(beside, _model_of(version), examples)


def _inputs(signatures: Signatures) -> list[str]:
    return list(signatures[Head.signature].structured_input_signature[1])


def _model_of(version: str) -> str:
    return os.path.basename(os.path.dirname(version))


def _card(
    task: BaselineTask, version: str, signatures: Signatures, examples: ExampleRequests
) -> str:
    model = _model_of(version)
    metrics = ", ".join(f"{name} {value:.4f}" for name, value in task.metrics.items())
    design = {**vars(task.design), "module": public_module_name(task.design.module)}
    chosen = " ".join(f"{name}={value}" for name, value in design.items())
    lines = [
        f"# {model}",
        "",
        f"This model answers the task {task.name} without BERT, on the text module "
        f"{base_name(task.design.module, task.pack)}. It was exported by adapter_bert_tf for TF "
        "Serving.",
        "",
        f"Labels: {shown_labels(task.labels) or 'a value'}.  ",
        f"Metrics: {metrics or 'unknown'}.  ",
        f"Design: {chosen}.",
        "",
        "## Signatures",
    ]
    for name, function in signatures.items():
        lines += describe_signature(name, function, model, as_json(name, examples[name]))
    call, number = predict_call(bool(task.takes_pairs)), os.path.basename(version)
    lines += without_a_server(task.name or "", call, model, number, examples)
    return "\n".join(lines) + "\n"
