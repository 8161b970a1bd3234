"""What an export holds besides the graph: enough to add tasks to it."""

import dataclasses
import json
import os
from typing import Any

import numpy as np
import tensorflow as tf

from adapter_bert_tf.base.base import Base
from adapter_bert_tf.base.config import BertConfig
from adapter_bert_tf.encoder.variables import is_layer_norm
from adapter_bert_tf.errors import UserError, first_line
from adapter_bert_tf.files import read_json_object
from adapter_bert_tf.pack.pack import parse_pack
from adapter_bert_tf.serve.base_values import from_served
from adapter_bert_tf.serve.model import ServedModel
from adapter_bert_tf.serve.service import Service, Task
from adapter_bert_tf.serve.values import split
from adapter_bert_tf.text.tokenizer import Vocabulary

FORMAT = 3
EXTRA = "assets.extra"
_FILE = os.path.join(EXTRA, "adapter_bert_tf.json")


def tracked(model: ServedModel) -> tf.Module:
    """What the SavedModel's variables belong to.

    Not the model itself: of Keras's layers a SavedModel would hold a graph each.
    """
    module = tf.Module()
    module.base = list(model.base.values())
    module.values, module.places = model.values.variables
    return module


def describe(service: Service, model: ServedModel) -> str:
    """What `read_export` reads: JSON that names the variables and holds all else."""
    base = service.base
    description = {
        "format": FORMAT,
        "origin": base.origin,
        "config": dataclasses.asdict(base.config),
        "base": list(model.base),
        "values": model.values.layout(),
        "tasks": [
            {"name": task.name, "pack": json.loads(task.pack.to_json())} for task in service.tasks
        ],
        "lower_case": service.vocabulary.lower_case,
        "tokens": service.vocabulary.tokens,
    }
    return json.dumps(description, ensure_ascii=False)


def write_description(folder: str, service: Service, model: ServedModel) -> None:
    """Writes the description into a SavedModel."""
    with open(os.path.join(folder, _FILE), "w", encoding="utf-8") as file:
        file.write(describe(service, model))


def read_export(folder: str) -> tuple[Base, list[Task]]:
    """Returns the base and the tasks that an export holds."""
    path = os.path.join(folder, _FILE)
    raw = read_json_object(path)
    if raw.get("format") != FORMAT:
        raise UserError(
            f"{path}: an export of format {raw.get('format')}, not {FORMAT}; "
            "export all packs with --packs instead"
        )
    try:
        reader = tf.train.load_checkpoint(os.path.join(folder, "variables", "variables"))
        return _read(raw, reader, path)
    except (LookupError, TypeError, ValueError, tf.errors.OpError) as error:
        raise UserError(f"{folder}: not a whole export: {first_line(error)}") from None


def _read(raw: dict[str, Any], reader, path: str) -> tuple[Base, list[Task]]:
    def values(name: str) -> np.ndarray:
        return reader.get_tensor(f"{name}/.ATTRIBUTES/VARIABLE_VALUE")

    config = BertConfig(**raw["config"])
    served = {name: values(f"base/{i}") for i, name in enumerate(raw["base"])}
    base = from_served(served, config.inner_dim)
    packs = [(task["name"], parse_pack(task["pack"], path)) for task in raw["tasks"]]
    defaults, tensors = split(values("values"), raw["values"])
    # The others are adapters and heads of size 0.
    base |= {name: default for name, default in defaults.items() if is_layer_norm(name)}
    tasks = [Task(name, pack, own) for (name, pack), own in zip(packs, tensors, strict=True)]
    vocabulary = Vocabulary(tuple(raw["tokens"]), raw["lower_case"])
    return Base(raw["origin"], config, vocabulary, lambda: iter(base.items())), tasks
