"""The model card of an export."""

import shlex

import tensorflow as tf

from adapter_bert_tf.serve.examples import Examples, as_json
from adapter_bert_tf.serve.ops import TEXT_OPS
from adapter_bert_tf.serve.service import Service, Task

Signatures = dict[str, tf.types.experimental.ConcreteFunction]


def model_card(
    service: Service, model: str, signatures: Signatures, examples: Examples, ops: set[str]
) -> str:
    """Tells in Markdown what the export answers, how well, and how it is asked."""
    lines = [
        f"# {model}",
        "",
        f"{len(service.tasks)} task(s) on one BERT, `{service.base.origin}`: "
        f"{service.base.config.num_layers} layers, {service.base.config.hidden_size} wide. "
        "Made by adapter_bert_tf for TF Serving.",
        "",
        "| task | input | tokens | answer | metrics | tuning |",
        "|---|---|---|---|---|---|",
        *(_row(task) for task in service.tasks),
        "",
        "## Signatures",
        *(
            line
            for name, function in signatures.items()
            for line in _signature(name, function, model, as_json(name, examples[name]))
        ),
        *_NOTES,
        "",
        "## Operations",
        "",
        f"tf-text: {', '.join(sorted(ops & TEXT_OPS))}.  ",
        f"Core TensorFlow: {', '.join(sorted(ops - TEXT_OPS))}.",
    ]
    return "\n".join(lines) + "\n"


_NOTES = (
    "",
    "`probabilities` are in the order of the task's labels, and 0 beyond them. Where tasks with",
    "classes and tasks with a value are served together, `label` is empty and `probabilities` 0",
    "for the latter, `value` 0 for the former. `text_pair` is not read for a task without pairs.",
    "`start` and `end` are the answer's bytes in the context, as UTF-8; without an answer, both",
    "are 0 and `answer` is empty. A request with an unknown task, or without a pair where there",
    "has to be one, is refused as a whole; where the server merges requests into batches, with",
    "those that it was merged with.",
)


def _row(task: Task) -> str:
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


def _signature(name: str, function, model: str, request: str) -> list[str]:
    _, inputs = function.structured_input_signature
    takes = ", ".join(f"`{each}` {_type(spec)}" for each, spec in inputs.items())
    answers = ", ".join(
        f"`{each}` {_type(spec)}" for each, spec in function.structured_outputs.items()
    )
    return [
        "",
        f"`{name}` takes {takes}; answers {answers}.",
        "",
        f"    curl -d {shlex.quote(request)} \\",
        f"        http://localhost:8501/v1/models/{model}:predict",
    ]


def _type(spec: tf.TensorSpec) -> str:
    sizes = ["rows", *("tokens" if size is None else str(size) for size in spec.shape[1:])]
    return f"({spec.dtype.name}, {' x '.join(sizes)})"
