"""Takes the adapters of every span of layers out of a tuned model (Houlsby et al., figure 6).

Nothing is trained again: LayerNorms and head stay as they were tuned with all adapters.
"""

import collections
import contextlib
import csv
import io
import os
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tf_keras

from adapter_bert_tf import internals
from adapter_bert_tf.data.batches import Batches
from adapter_bert_tf.data.records import LABELS
from adapter_bert_tf.encoder.adapter_layer import Adapter
from adapter_bert_tf.encoder.encoder import AdapterBertEncoder
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.experiment.records import ABLATION
from adapter_bert_tf.files import write_atomically
from adapter_bert_tf.task import Task
from adapter_bert_tf.text.inputs import IDS, MASK, SEGMENTS
from adapter_bert_tf.tuning.outputs import Progress
from adapter_bert_tf.tuning.task_model import TaskModel

# The first and the last layer of a span, counted from 0; None where no adapter is taken out.
Layers = tuple[int, int] | None

_Inputs = dict[str, tf.Tensor]


class Span(NamedTuple):
    """What a task reaches without the adapters of neighbouring layers.

    Attributes:
      task: Name of the task.
      first: The first layer without adapters, counted from 0.
      last: The last one.
      value: The metric without these adapters.
      full: The metric with all adapters.
    """

    task: str
    first: int
    last: int
    value: float
    full: float


def ablate(
    task: Task, batches: Batches, metric: str, progress: Progress | None = None
) -> list[Span]:
    """Evaluates a task without the adapters of every span of layers, 78 for BERT-base.

    Args:
      task: The task, tuned with adapters.
      batches: The rows to score, with labels.
      metric: Name of one of the head's metrics.
      progress: Is told how many rows are done.

    Example:
      `ablate(load_task("runs/sst2/pack"), batches, "accuracy")`
    """
    if metric not in task.head.metrics:
        known = ", ".join(task.head.metrics) or "none"
        raise UserError(f"{task.name}: has no metric {metric!r} to ablate by; known are {known}")
    outputs = span_outputs(task.model, batches, progress)
    labels = batches.columns[LABELS].numpy()
    scores = {
        layers: dict(task.head.evaluate([metric], labels, each))[metric]
        for layers, each in outputs.items()
    }
    return [
        Span(task.name or "", *layers, value, full=scores[None])
        for layers, value in scores.items()
        if layers is not None
    ]


def write_ablation(folder: str, spans: Iterable[Span]) -> None:
    """Writes the spans of any number of tasks to the folder's CSV file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([Span._fields, *spans])
    write_atomically(os.path.join(folder, ABLATION), text.getvalue().encode())


def span_outputs(
    model: TaskModel, batches: Batches, progress: Progress | None = None
) -> dict[Layers, np.ndarray]:
    """Returns a model's outputs without the adapters of every span, in the order of the rows.

    Computes on one device, batch by batch.

    Args:
      model: A model with adapters, and with a head whose outputs don't depend on a row's length.
      batches: The rows.
      progress: Is told how many rows are done.

    Returns:
      The outputs by the first and the last layer of the span; those of the whole model are at None.
    """
    if model.encoder.adapter is None:
        raise UserError("the model has no adapters to take out")
    stages = _Stages(model)
    plan = batches.by_length()
    inputs = batches.inputs(plan)
    parts = collections.defaultdict(list)
    for rows, batch in zip(plan, inputs, strict=True):
        for layers, outputs in stages.span_outputs(batch):
            # The last rows of the last batch may only be there to fill it up.
            parts[layers].append(outputs.numpy()[: len(rows)])
        if progress:
            progress(len(rows))
    order = np.argsort(np.concatenate(plan))
    return {layers: np.concatenate(found)[order] for layers, found in parts.items()}


class _Stages:
    """A model cut at its layers, each with and without adapters, in one graph each.

    A single graph of all spans would trace each layer many times, and would decide by itself how
    many hidden states it keeps in memory.
    """

    def __init__(self, model: TaskModel):
        encoder, head = model.encoder, model.head
        found = internals.get_encoder_layers(encoder)
        row = tf.TensorSpec([None, None], tf.int32)
        inputs = dict.fromkeys((IDS, MASK, SEGMENTS), row)
        self._embed = _graph(lambda inputs: _embed(encoder, inputs), inputs)
        state, mask = self._embed.structured_outputs
        self._adapted: list[tf.types.experimental.ConcreteFunction] = []
        self._bare: list[tf.types.experimental.ConcreteFunction] = []
        for block in found["blocks"]:
            tokens = head.tokens_read if block is found["blocks"][-1] else None
            stage = _block_stage(block, tokens)
            with _without_adapters(block):
                self._bare.append(_graph(stage, state, mask))
            self._adapted.append(_graph(stage, state, mask))
            state = self._adapted[-1].structured_outputs

        def finish(state: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
            pooled = found["pooler"](state[:, 0], training=False)
            encoded = {"sequence_output": state, "pooled_output": pooled, MASK: mask}
            return head(encoded, training=False)

        self._finish = _graph(finish, state, row)

    def span_outputs(self, inputs: _Inputs) -> Iterator[tuple[Layers, tf.Tensor]]:
        """Yields the outputs of a batch without the adapters of every span, last with all.

        Of L layers, it computes about L³/6 in place of the L³/2 of all evaluations.
        """
        below, mask = self._embed(inputs)
        for first in range(len(self._bare)):
            state = below
            for last in range(first, len(self._bare)):
                state = self._bare[last](state, mask)
                yield (first, last), self._outputs(state, mask, inputs, self._adapted[last + 1 :])
            below = self._adapted[first](below, mask)
        yield None, self._outputs(below, mask, inputs, [])

    def _outputs(
        self,
        state: tf.Tensor,
        mask: tf.Tensor,
        inputs: _Inputs,
        above: list[tf.types.experimental.ConcreteFunction],
    ) -> tf.Tensor:
        for stage in above:
            state = stage(state, mask)
        return self._finish(state, inputs[MASK])


def _graph(function: Callable, *signature) -> tf.types.experimental.ConcreteFunction:
    """Returns a function as one graph for batches of all shapes."""
    return tf.function(function, autograph=False).get_concrete_function(*signature)


def _embed(encoder: AdapterBertEncoder, inputs: _Inputs) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns what the first layer gets, and the attention's mask: see `BertEncoderV2.call`."""
    layers = internals.get_encoder_layers(encoder)
    words = layers["words"](inputs[IDS])
    state = words + layers["positions"](words) + layers["types"](inputs[SEGMENTS])
    state = layers["dropout"](layers["norm"](state), training=False)
    return state, layers["mask"](state, inputs[MASK])


def _block_stage(block: tf_keras.layers.Layer, tokens: int | None) -> Callable:
    # A function of its own, so that a loop does not change the block that it calls.
    return lambda state, mask: block([state, mask], output_range=tokens, training=False)


@contextlib.contextmanager
def _without_adapters(block: tf_keras.layers.Layer) -> Iterator[None]:
    """Lets a block be called as if it had no adapters: with nothing but dropout at their sites.

    Zeros for their variables would give the same, but change the model, and take as long as before.
    """
    layers = internals.get_block_layers(block).items()
    adapters = {name: layer for name, layer in layers if isinstance(layer, Adapter)}
    _set_layers(block, {name: adapter.dropout for name, adapter in adapters.items()})
    try:
        yield
        for adapter in adapters.values():
            # A parallel adapter would have taken what its sub-layer remembered for it.
            if adapter.source is not None:
                adapter.source.take()
    finally:
        _set_layers(block, adapters)


def _set_layers(block: tf_keras.layers.Layer, layers: dict[str, tf_keras.layers.Layer]) -> None:
    # Keras would list the dropouts among the block's layers from now on.
    with internals.untracked(block):
        internals.set_block_layers(block, layers)
