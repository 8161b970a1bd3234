"""An example request for each signature: for the warm-up and the model card."""

import json
from typing import Any

import tensorflow as tf

from adapter_bert_tf.serve.list_tasks import REQUEST
from adapter_bert_tf.serve.requests import TASK, TEXT, TEXT_PAIR
from adapter_bert_tf.serve.service import Service
from adapter_bert_tf.text.inputs import IDS, MASK, SEGMENTS

Examples = dict[str, dict[str, list]]

_TEXT, _PAIR = "A text to start with.", "Another one."


def make_examples(service: Service) -> Examples:
    """Returns the inputs of a request by signature, with a row for each task."""
    tokens = [service.vocabulary.index(token) for token in ("[CLS]", "[UNK]", "[SEP]")]
    rows = len(service.tasks)
    texts = _with_tasks(service, {TEXT: [_TEXT] * rows})
    if any(task.pair for task in service.tasks):
        texts[TEXT_PAIR] = [_PAIR if task.pair else "" for task in service.tasks]
    return {
        "serving_default": texts,
        "tokens": _with_tasks(
            service,
            {IDS: [tokens] * rows, MASK: [[1, 1, 1]] * rows, SEGMENTS: [[0, 0, 0]] * rows},
        ),
        "tasks": {REQUEST: [""]},
    }


def _with_tasks(service: Service, inputs: dict[str, list]) -> dict[str, list]:
    names = [task.name for task in service.tasks]
    return {**({TASK: names} if len(names) > 1 else {}), **inputs}


def as_tensors(inputs: dict[str, list]) -> dict[str, tf.Tensor]:
    """The inputs as a signature takes them."""
    return {
        name: tf.constant(values, tf.string if isinstance(values[0], str) else tf.int32)
        for name, values in inputs.items()
    }


def as_json(signature: str, inputs: dict[str, list]) -> str:
    """The request as TF Serving's REST interface takes it."""
    body: dict[str, Any] = {} if signature == "serving_default" else {"signature_name": signature}
    return json.dumps({**body, "inputs": inputs}, ensure_ascii=False)
