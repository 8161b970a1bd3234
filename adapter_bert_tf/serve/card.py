"""What an export contains for people and for warming up: a model card and example requests."""

import json
import os
import shlex
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow_serving.apis import model_pb2, predict_pb2, prediction_log_pb2

from adapter_bert_tf.heads.span import CONTEXT, QUESTION
from adapter_bert_tf.serve.requests import REQUEST, TASK, TEXT, TEXT_OPS, TEXT_PAIR
from adapter_bert_tf.serve.service import ServedTask, Service
from adapter_bert_tf.serve.signatures import Signatures
from adapter_bert_tf.text.inputs import IDS, MASK, SEGMENTS

# The inputs of an example request by signature.
ExampleRequests = dict[str, dict[str, list]]


def model_card(
    service: Service, model: str, signatures: Signatures, examples: ExampleRequests, ops: set[str]
) -> str:
    """Returns the model card in Markdown: tasks, metrics, signatures and requests.

    Args:
      service: What is exported.
      model: Name of the model, as requests call it.
      signatures: The signatures by name.
      examples: A request for each signature.
      ops: Names of all operations in the graph.
    """
    config = service.base.config
    count = len(service.tasks)
    lines = [
        f"# {model}",
        "",
        f"This model serves {count} task{'s' if count > 1 else ''} on one BERT, "
        f"`{service.base.origin}` ({config.num_layers} layers, {config.hidden_size} wide). It was "
        "exported by adapter_bert_tf for TF Serving.",
        "",
        "| task | input | tokens | answer | metrics | tuning |",
        "|---|---|---|---|---|---|",
        *(_row(task) for task in service.tasks),
        "",
        "## Signatures",
        *(
            line
            for name, function in signatures.items()
            for line in describe_signature(name, function, model, as_json(name, examples[name]))
        ),
        *_NOTES,
        "",
        "## Operations",
        "",
        f"From tf-text: {', '.join(sorted(ops & TEXT_OPS))}.  ",
        f"From TensorFlow: {', '.join(sorted(ops - TEXT_OPS))}.",
    ]
    return "\n".join(lines) + "\n"


_NOTES = (
    "",
    "## Notes",
    "",
    "- `probabilities` are in the order of the task's labels. If another task has more labels, the",
    "  columns that are left over are 0.",
    "- If tasks with classes and tasks with a value are served together, `label` is empty and",
    "  `probabilities` are 0 for a task with a value, and `value` is 0 for a task with classes.",
    "- `text_pair` is ignored for tasks on single texts. For tasks on pairs, an empty `text_pair`",
    "  means that there is no second text.",
    "- `start` and `end` are the bytes of the UTF-8 context between which the answer is found. If",
    "  there is no answer, both are 0 and `answer` is empty.",
    "- A request that names an unknown task is refused as a whole. If the server merges requests",
    "  into batches, the other requests of the batch are refused with it.",
)


def _row(task: ServedTask) -> str:
    metrics = ", ".join(f"{name} {value:.4f}" for name, value in task.pack.metrics.items())
    adapter = task.pack.adapter
    cells = (
        task.name,
        "question and context" if task.asks else "two texts" if task.pair else "text",
        f"{task.max_seq_length}",
        "a part of the context" if task.asks else ", ".join(task.labels) or "a value",
        metrics or "unknown",
        task.pack.tuning.method + (f" of size {adapter.size}" if adapter else ""),
    )
    return f"| {' | '.join(' '.join(cell.replace('|', '&#124;').split()) for cell in cells)} |"


def describe_signature(name: str, function, model: str, request: str) -> list[str]:
    """Returns lines about a signature: what it takes and returns, and a request."""
    _, inputs = function.structured_input_signature
    takes, returns = (
        ", ".join(f"`{each}` {_type(spec)}" for each, spec in specs.items())
        for specs in (inputs, function.structured_outputs)
    )
    return [
        "",
        f"`{name}` takes {takes}, and returns {returns}.",
        "",
        f"    curl -d {shlex.quote(request)} \\",
        f"        http://localhost:8501/v1/models/{model}:predict",
    ]


def _type(spec: tf.TensorSpec) -> str:
    sizes = ["rows", *("tokens" if size is None else str(size) for size in spec.shape[1:])]
    return f"({spec.dtype.name}, {' x '.join(sizes)})"


# A server refuses requests with more rows than its largest batch, and then does not load the model.
_ROWS = 8
_TEXT, _PAIR = "A text to start with.", "Another one."
_QUESTION, _CONTEXT = "What is this?", "This is a text to start with."


def make_examples(service: Service) -> ExampleRequests:
    """Returns an example request for each signature, with a row for each of the first tasks."""
    examples: ExampleRequests = {"tasks": {REQUEST: [""]}}
    asked = [task for task in service.tasks if task.asks][:_ROWS]
    others = [task for task in service.tasks if not task.asks][:_ROWS]
    if asked:
        questions = {QUESTION: [_QUESTION] * len(asked), CONTEXT: [_CONTEXT] * len(asked)}
        examples["answer"] = examples["serving_default"] = {**_names(service, asked), **questions}
    if others:
        examples["serving_default"] = {**_names(service, others), **_texts(others)}
        examples["tokens"] = {**_names(service, others), **_tokens(service, len(others))}
    return examples


def _names(service: Service, tasks: Sequence[ServedTask]) -> dict[str, list]:
    return {TASK: [task.name for task in tasks]} if len(service.tasks) > 1 else {}


def _texts(tasks: Sequence[ServedTask]) -> dict[str, list]:
    texts = {TEXT: [_TEXT] * len(tasks)}
    if any(task.pair for task in tasks):
        texts[TEXT_PAIR] = [_PAIR if task.pair else "" for task in tasks]
    return texts


def _tokens(service: Service, rows: int) -> dict[str, list]:
    tokens = [service.vocabulary.index(token) for token in ("[CLS]", "[UNK]", "[SEP]")]
    return {IDS: [tokens] * rows, MASK: [[1, 1, 1]] * rows, SEGMENTS: [[0, 0, 0]] * rows}


def as_tensors(inputs: dict[str, list]) -> dict[str, tf.Tensor]:
    """Returns the inputs of an example as the tensors that a signature takes."""
    return {
        name: tf.constant(values, tf.string if isinstance(values[0], str) else tf.int32)
        for name, values in inputs.items()
    }


def as_json(signature: str, inputs: dict[str, list]) -> str:
    """Returns an example as the body of a request to TF Serving's REST interface."""
    body: dict[str, Any] = {} if signature == "serving_default" else {"signature_name": signature}
    return json.dumps({**body, "inputs": inputs}, ensure_ascii=False)


# TF Serving looks for a file of this name in `assets.extra`.
_WARMUP_FILE = "tf_serving_warmup_requests"


def write_warmup(folder: str, model: str, examples: ExampleRequests) -> None:
    """Writes the requests that TF Serving sends to itself before it answers any others.

    Without them, the first users would wait until TensorFlow has prepared the graph.
    """
    with tf.io.TFRecordWriter(os.path.join(folder, _WARMUP_FILE)) as writer:
        for signature, inputs in examples.items():
            request = predict_pb2.PredictRequest(
                model_spec=model_pb2.ModelSpec(name=model, signature_name=signature),
                inputs={
                    name: tf.make_tensor_proto(value) for name, value in as_tensors(inputs).items()
                },
            )
            log = prediction_log_pb2.PredictionLog(
                predict_log=prediction_log_pb2.PredictLog(request=request)
            )
            writer.write(log.SerializeToString())
