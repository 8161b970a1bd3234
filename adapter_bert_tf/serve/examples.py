"""An example request for each signature: for the warm-up and the model card."""

import json
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from adapter_bert_tf.serve.list_tasks import REQUEST
from adapter_bert_tf.serve.questions import CONTEXT, QUESTION
from adapter_bert_tf.serve.requests import TASK, TEXT, TEXT_PAIR
from adapter_bert_tf.serve.service import Service, Task
from adapter_bert_tf.text.inputs import IDS, MASK, SEGMENTS

Examples = dict[str, dict[str, list]]

# A server refuses batches beyond its limit, and a model whose warm-up it refuses.
_ROWS = 8
_TEXT, _PAIR = "A text to start with.", "Another one."
_QUESTION, _CONTEXT = "What is this?", "This is a text to start with."


def make_examples(service: Service) -> Examples:
    """Returns the inputs of a request by signature, with a row for each of the first tasks."""
    examples: Examples = {"tasks": {REQUEST: [""]}}
    asked = [task for task in service.tasks if task.asks][:_ROWS]
    others = [task for task in service.tasks if not task.asks][:_ROWS]
    if asked:
        questions = {QUESTION: [_QUESTION] * len(asked), CONTEXT: [_CONTEXT] * len(asked)}
        examples["answer"] = examples["serving_default"] = {**_names(service, asked), **questions}
    if others:
        examples["serving_default"] = {**_names(service, others), **_texts(others)}
        examples["tokens"] = {**_names(service, others), **_tokens(service, len(others))}
    return examples


def _names(service: Service, tasks: Sequence[Task]) -> dict[str, list]:
    return {TASK: [task.name for task in tasks]} if len(service.tasks) > 1 else {}


def _texts(tasks: Sequence[Task]) -> dict[str, list]:
    texts = {TEXT: [_TEXT] * len(tasks)}
    if any(task.pair for task in tasks):
        texts[TEXT_PAIR] = [_PAIR if task.pair else "" for task in tasks]
    return texts


def _tokens(service: Service, rows: int) -> dict[str, list]:
    tokens = [service.vocabulary.index(token) for token in ("[CLS]", "[UNK]", "[SEP]")]
    return {IDS: [tokens] * rows, MASK: [[1, 1, 1]] * rows, SEGMENTS: [[0, 0, 0]] * rows}


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
