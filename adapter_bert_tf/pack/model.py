"""From models to task packs and back."""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from adapter_bert_tf.base.base import Base, digest_of, digest_of_parts
from adapter_bert_tf.encoder.encoder import AdapterBertEncoder
from adapter_bert_tf.encoder.variables import is_adapter, is_layer_norm, variables_by_path
from adapter_bert_tf.errors import UserError, some
from adapter_bert_tf.heads.head import Head
from adapter_bert_tf.heads.kinds import NO_HEAD
from adapter_bert_tf.pack.pack import Pack, read_pack, read_tensors, refuse_baseline, write_pack
from adapter_bert_tf.tuning.methods import Tuning
from adapter_bert_tf.tuning.task_model import TaskModel

_WORDS = "word_embeddings/embeddings"
_ROWS = 128


def save_pack(
    model: TaskModel,
    folder: str | os.PathLike,
    *,
    task: str | None = None,
    labels: Sequence[str] = (),
    metrics: Mapping[str, float] | None = None,
    inputs: Mapping[str, Any] | None = None,
) -> None:
    """Saves what was tuned of `model`, without the base.

    Args:
      model: A model whose encoder comes from `load_encoder`.
      folder: Where to; an older pack there is replaced.
      task: Name of the task.
      labels: Names of the classes, in the order of the logits.
      metrics: Values that the model reached.
      inputs: How texts become the model's inputs, such as `{"max_seq_length": 128}`.
    """
    base = _base_of(model.encoder)
    classes = model.head.settings().get("classes", len(labels))
    if labels and len(labels) != classes:
        raise ValueError(f"{len(labels)} labels for {classes} classes")
    variables = model.variables_by_path()
    pack = Pack(
        base={
            "origin": base.origin,
            "fingerprint": base.fingerprint,
            "layer_norm_fingerprint": base.layer_norm_fingerprint,
        },
        adapter=model.encoder.adapter,
        tuning=model.tuning,
        head={"kind": model.head.kind, "settings": model.head.settings()},
        task=task,
        labels=list(labels),
        metrics={name: float(value) for name, value in (metrics or {}).items()},
        vocabulary=base.vocabulary.describe() if base.vocabulary else None,
        inputs=dict(inputs or {}),
        variables=[],
        weights="",
        sha256="",
    )
    # What an earlier tuning left changed belongs to the model as well.
    held = _tuned(variables, model.tuning) | _changed(model.encoder)
    write_pack(folder, pack, {path: variables[path].numpy() for path in held})


def load_pack(model: TaskModel | AdapterBertEncoder, folder: str | os.PathLike) -> TaskModel:
    """Loads a pack onto the base that it was tuned on.

    What the pack does not bring gets the base's own values again, so packs can be switched in
    any order. On an error the model stays as it was.

    Args:
      model: A model, which gets the pack's head if its own is another, or an encoder. If the pack
        has no head, the model's stays.
      folder: The pack's folder.

    Returns:
      The model.
    """
    encoder = model.encoder if isinstance(model, TaskModel) else model
    pack = read_pack(folder)
    refuse_baseline(pack, folder)
    _check_fits(encoder, pack, os.fspath(folder))
    tensors = read_tensors(folder, pack)
    head = _head_for(model, encoder, pack)
    variables = variables_by_path(encoder)
    if head.kind == pack.kind:
        variables |= variables_by_path(head, "head/")
    _check_tensors(variables, pack, tensors, os.path.join(folder, pack.weights))
    tensors |= _to_restore(encoder, except_for=tensors)
    if not isinstance(model, TaskModel):
        model = TaskModel(encoder, head, pack.tuning)
    for path, array in tensors.items():
        variables[path].assign(array)
    if model.head is not head:
        model.set_head(head)
    model.set_tuning(pack.tuning)
    return model


def _head_for(
    model: TaskModel | AdapterBertEncoder, encoder: AdapterBertEncoder, pack: Pack
) -> Head:
    """Returns the model's own head if the pack has the same or none, or else a new one."""
    if isinstance(model, TaskModel):
        own = {"kind": model.head.kind, "settings": model.head.settings()}
        if pack.kind == NO_HEAD or own == pack.head:
            return model.head
    with _scope_of(encoder):
        head = pack.make_head()
        head.ensure_built(encoder.hidden_size)
    return head


def share_encoder(encoder: AdapterBertEncoder, pack: Pack, folder: str) -> AdapterBertEncoder:
    """Returns an encoder for a pack that shares the variables of another encoder's base.

    Variables that the pack brings are new. All others are those of `encoder`, in the same memory.

    Args:
      encoder: An encoder on the pack's base.
      pack: The pack.
      folder: The pack's folder, for messages.
    """
    base = _base_of(encoder)
    shared = {
        path: variable
        for path, variable in variables_by_path(encoder).items()
        if path in base.digests and path not in pack.variables
    }
    changed = _changed(encoder) & shared.keys()
    if changed:
        raise UserError(f"{folder}: can't share a base that was tuned itself: {some(changed)}")
    sharing = AdapterBertEncoder(adapter=pack.adapter, **base.config.encoder_arguments())
    sharing.ensure_built(shared)
    sharing.share_layers(encoder)
    sharing.base, sharing.shared = base, set(shared)
    encoder.shared = getattr(encoder, "shared", set()) | sharing.shared
    return sharing


def _base_of(encoder: AdapterBertEncoder) -> Base:
    base = getattr(encoder, "base", None)
    if base is None:
        raise ValueError("the encoder has no base: it has to come from load_encoder")
    return base


def _scope_of(encoder: AdapterBertEncoder) -> contextlib.AbstractContextManager:
    """The scope of the strategy under which the encoder was made."""
    strategy = getattr(encoder.weights[0], "distribute_strategy", None)
    return strategy.scope() if strategy else contextlib.nullcontext()


def _tuned(paths: Mapping[str, object], tuning: Tuning) -> set[str]:
    """What a pack holds: all that is trained, and adapters even where they are not.

    An adapter that was left at its start is not in the base, yet it changes the outputs.
    """
    return tuning.trained(paths) | {path for path in paths if is_adapter(path)}


def _check_fits(encoder: AdapterBertEncoder, pack: Pack, folder: str) -> None:
    base = _base_of(encoder)
    shared = set(pack.variables) & getattr(encoder, "shared", set())
    if shared:
        raise UserError(f"{folder}: would change what other tasks share: {some(shared)}")
    tuned_on = f"{folder}: was tuned on another base ({pack.base.get('origin')}), not {base.origin}"
    if pack.base.get("fingerprint") != base.fingerprint:
        raise UserError(tuned_on)
    not_brought = base.digests.keys() - pack.variables
    same_norms = pack.base.get("layer_norm_fingerprint") == base.layer_norm_fingerprint
    if not same_norms and any(is_layer_norm(path) for path in not_brought):
        raise UserError(f"{tuned_on}: the LayerNorms differ")
    if base.vocabulary and pack.vocabulary and pack.vocabulary != base.vocabulary.describe():
        raise UserError(f"{folder}: was tuned with another vocabulary or lower-casing")
    try:
        pack.tuning.check(encoder.num_layers, has_adapters=pack.adapter is not None)
    except UserError as error:
        raise UserError(f"{folder}: {error}") from None
    if pack.adapter and not encoder.adapter:
        raise UserError(f"{folder}: was tuned with adapters, the encoder has none")
    if encoder.adapter and not pack.adapter:
        raise UserError(f"{folder}: was tuned without adapters, the encoder has some")
    if pack.adapter and encoder.adapter:
        for field in pack.adapter.differences(encoder.adapter, encoder.num_layers):
            raise UserError(
                f"{folder}: was tuned with adapter {field} {getattr(pack.adapter, field)}, "
                f"the encoder has {getattr(encoder.adapter, field)}"
            )


def _check_tensors(variables, pack: Pack, tensors: dict[str, np.ndarray], path: str) -> None:
    missing = (_tuned(variables, pack.tuning) | set(pack.variables)) - tensors.keys()
    additional = tensors.keys() - (variables.keys() & pack.variables)
    for title, names in (("missing", missing), ("additional", additional)):
        if names:
            raise UserError(f"{path}: {title} tensors: {some(names)}")
    for name, array in tensors.items():
        if variables[name].shape != array.shape or array.dtype != np.float32:
            raise UserError(
                f"{path}: {name} is {array.dtype} {list(array.shape)}, "
                f"expected float32 {list(variables[name].shape)}"
            )


def _changed(encoder: AdapterBertEncoder) -> set[str]:
    """The base's variables that are not as they were loaded."""
    variables = variables_by_path(encoder)
    return {
        path
        for path, digest in _base_of(encoder).digests.items()
        if digest_of_parts(variables[path].shape, _parts(path, variables[path])) != digest
    }


def _parts(path: str, variable: tf.Variable) -> Iterator[np.ndarray]:
    """Yields the rows of a variable, of a large table a few at a time.

    TensorFlow copies a table that was looked up in when it is read, into memory that it keeps.
    """
    if path != _WORDS:
        yield np.asarray(variable.value())
        return
    for start in range(0, variable.shape[0], _ROWS):
        rows = tf.range(start, min(start + _ROWS, variable.shape[0]))
        yield np.asarray(tf.gather(variable, rows))


def _to_restore(
    encoder: AdapterBertEncoder, except_for: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Reads again what earlier tuning has changed of the base."""
    base = _base_of(encoder)
    changed = _changed(encoder) - except_for.keys()
    if not changed:
        return {}
    arrays = {path: array for path, array in base.read() if path in changed}
    for path in changed:
        if path not in arrays or digest_of(arrays[path]) != base.digests[path]:
            raise UserError(f"{base.origin}: {path} has changed since it was loaded")
    return arrays
