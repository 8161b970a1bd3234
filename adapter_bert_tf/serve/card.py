"""What an export contains for people and for warming up: a model card and example requests."""

import json
import os
import shlex
import urllib.parse
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow_serving.apis import model_pb2, predict_pb2, prediction_log_pb2

from adapter_bert_tf.heads.span import CONTEXT, QUESTION, SpanHead
from adapter_bert_tf.serve import WARMUP_FILE
from adapter_bert_tf.serve.description import base_name, tell_of_layers
from adapter_bert_tf.serve.requests import REQUEST, TASK, TASKS, TEXT, TEXT_OPS, TEXT_PAIR
from adapter_bert_tf.serve.service import ServedTask, Service
from adapter_bert_tf.serve.signatures import Signatures
from adapter_bert_tf.text.inputs import IDS, MASK, SEGMENTS

# The inputs of an example request by signature.
ExampleRequests = dict[str, dict[str, list]]


def model_card(
    service: Service,
    model: str,
    version: str,
    signatures: Signatures,
    examples: ExampleRequests,
    ops: set[str],
    note: str = "",
) -> str:
    """Returns the model card in Markdown: tasks, metrics, signatures and requests.

    Args:
      service: What is exported.
      model: Name of the model, as requests call it.
      version: Its version.
      signatures: The signatures by name.
      examples: A request for each signature.
      ops: Names of all operations in the graph.
      note: How it was made, if that needs to be said.
    """
    config, first = service.base.config, service.tasks[0]
    count = len(service.tasks)
    lines = [
        f"# {model}",
        "",
        f"This model serves {count} task{'s' if count > 1 else ''} on one BERT, "
        f"{base_name(service.base.origin, first.pack)}: {config.num_layers} layers, "
        f"{config.hidden_size} wide. It was exported by adapter_bert_tf for TF Serving.",
        *(["", f"Note: {note}."] if note else []),
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
        *_notes(signatures),
        *without_a_server(first.name, _call_of(first), model, version, examples),
        "",
        "## Operations",
        "",
        f"From tf-text: {', '.join(sorted(ops & TEXT_OPS))}.  ",
        f"From TensorFlow: {', '.join(sorted(ops - TEXT_OPS))}.",
    ]
    return "\n".join(lines) + "\n"


_TEXT_NOTES = (
    "- `probabilities` are in the order of the task's labels. If another task has more labels, the",
    "  columns that are left over are 0.",
    "- If tasks with classes and tasks with a value are served together, `label` is empty and",
    "  `probabilities` are 0 for a task with a value, and `value` is 0 for a task with classes.",
    "- `text_pair` is ignored for tasks on single texts. For tasks on pairs, an empty `text_pair`",
    "  means that there is no second text.",
)
_QUESTION_NOTES = (
    "- `start` and `end` are the bytes of the UTF-8 context between which the answer is found. If",
    "  there is no answer, both are 0 and `answer` is empty.",
)
_ERROR_NOTES = (
    "- `error` says what is wrong with a row, or is empty. A row of an unknown task has no answer,",
    "  and its neighbours have theirs.",
)
_ALL_NOTES = (
    "- `all` answers for all tasks on texts, and `some` for those that `tasks` names, separated by",
    "  commas. Layers that the tasks leave as they are in the base are computed once for a text.",
    "- `some` answers for one place more than there are tasks. The `error` of this last one says",
    "  which names in `tasks` are wrong, if any are; the tasks that it names have their answers.",
)


def _notes(signatures: Signatures) -> list[str]:
    """Returns the notes on what the signatures have."""
    on_texts = "all" in signatures
    return [
        "",
        "## Notes",
        "",
        *(_TEXT_NOTES if on_texts else ()),
        *(_QUESTION_NOTES if SpanHead.signature in signatures else ()),
        *_ERROR_NOTES,
        *(_ALL_NOTES if on_texts else ()),
    ]


# Labels that are shown of many, and characters of a long one.
_LABELS, _LABEL = 8, 24


def shown_labels(labels: Sequence[str]) -> str:
    """Returns labels for people: the first of many, and the start of long ones."""
    shown = (
        label if len(label) <= _LABEL else f"{label[: _LABEL - 1]}…" for label in labels[:_LABELS]
    )
    more = f", … ({len(labels):,} in all)" if len(labels) > _LABELS else ""
    return ", ".join(shown) + more


def _call_of(task: ServedTask) -> str:
    return f'answer("{_QUESTION}", "{_CONTEXT}")' if task.asks else predict_call(task.pair)


def predict_call(takes_pairs: bool) -> str:
    """Returns how a task on texts is called in Python."""
    return f'predict(["{_TEXT}"], ["{_PAIR}"])' if takes_pairs else f'predict(["{_TEXT}"])'


def without_a_server(
    task: str, call: str, model: str, version: str, examples: ExampleRequests
) -> list[str]:
    """Returns lines about how the export is asked on a machine that has its files.

    Args:
      task: Name of a task.
      call: How it is called in Python.
      model: Name of the model.
      version: Its version.
      examples: A request for each signature.
    """
    first = {name: rows[:1] for name, rows in examples["serving_default"].items()}
    inputs = ";".join(f"{name}={_as_code(rows)}" for name, rows in first.items())
    return [
        "",
        "## Without a server",
        "",
        "In Python, with adapter_bert_tf installed:",
        "",
        "    import adapter_bert_tf as ab",
        "",
        f"    export = ab.load_export({_as_code(model)})  # or {_as_code(f'{model}/{version}')}",
        f"    export[{_as_code(task)}].{call}",
        "",
        "With TensorFlow and tensorflow-text only, by `saved_model_cli run`. It needs the import,",
        "because two of the operations come from tensorflow-text:",
        "",
        '    python -c "import tensorflow_text; \\',
        '        from tensorflow.python.tools.saved_model_cli import main; main()" \\',
        f"        run --dir {shlex.quote(f'{model}/{version}')} --tag_set serve \\",
        f"        --signature_def serving_default --input_exprs {shlex.quote(inputs)}",
    ]


def _as_code(value: Any) -> str:
    """Returns a literal with double quotes, which a shell's single quotes leave as it is."""
    return json.dumps(value, ensure_ascii=False)


def _row(task: ServedTask) -> str:
    metrics = ", ".join(f"{name} {value:.4f}" for name, value in task.pack.metrics.items())
    adapter = task.pack.adapter
    dropped = task.dropped_layers
    tuning = [task.pack.tuning.method + (f" of size {adapter.size}" if adapter else "")]
    tuning += [tell_of_layers(dropped)] if dropped else []
    tuning += ["not tuned for that"] if dropped > task.pack.tuning.adapter_drop else []
    cells = (
        task.name,
        "question and context" if task.asks else "two texts" if task.pair else "text",
        f"{task.max_seq_length}",
        "a part of the context" if task.asks else shown_labels(task.labels) or "a value",
        metrics or "unknown",
        ", ".join(tuning),
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
        f"        http://localhost:8501/v1/models/{urllib.parse.quote(model, safe='')}:predict",
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
        alone = {name: values[:1] for name, values in _texts(others).items()}
        examples["all"] = alone
        examples["some"] = {**alone, TASKS: [",".join(task.name for task in others)]}
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


def write_warmup(version: str, model: str, examples: ExampleRequests) -> None:
    """Writes the requests that TF Serving sends to itself before it answers any others.

    Without them, the first users would wait until TensorFlow has prepared the graph.
    """
    with tf.io.TFRecordWriter(os.path.join(version, WARMUP_FILE)) as writer:
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
