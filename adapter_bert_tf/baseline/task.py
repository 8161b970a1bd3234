"""A baseline as a task: its pack, and texts in, answers out."""

import os
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from adapter_bert_tf.baseline.features import Prepared, embed_texts
from adapter_bert_tf.baseline.hub import HubModule, fingerprint_of
from adapter_bert_tf.baseline.model import WIDE, BaselineModel
from adapter_bert_tf.baseline.modules import BERT, GLOVE, runs_code
from adapter_bert_tf.baseline.open import open_module
from adapter_bert_tf.baseline.space import Design
from adapter_bert_tf.baseline.text_module import TableModule, TextModule
from adapter_bert_tf.baseline.words import hash_features, join_pairs, known_features, normalise
from adapter_bert_tf.errors import UserError, first_line, some
from adapter_bert_tf.heads.head import Head
from adapter_bert_tf.pack.pack import Pack, read_pack, read_tensors, write_pack
from adapter_bert_tf.text_task import TextTask
from adapter_bert_tf.tuning.methods import Tuning
from adapter_bert_tf.tuning.outputs import Progress

Tensors = Mapping[str, np.ndarray]

_FEATURES, _MODULE, _ROWS = "wide/features", "module/", "module/rows"


class TextModel(tf.Module):
    """A baseline from texts to outputs, in the graph.

    Args:
      design: Its design.
      module: The text module, with what was tuned of it.
      vocabulary: Numbers of the wide part's features.
      model: The Keras model.
    """

    def __init__(
        self, design: Design, module: TextModule, vocabulary: np.ndarray, model: BaselineModel
    ):
        super().__init__()
        self.design, self.module, self.model = design, module, model
        self.vocabulary = tf.Variable(vocabulary, trainable=False)

    def __call__(self, texts: tf.Tensor, pairs: tf.Tensor | None = None) -> tf.Tensor:
        """Returns the outputs, `[texts, outputs]`."""
        texts = join_pairs(texts, pairs)
        texts = normalise(texts, self.design.lower_case, self.design.letters_only)
        wide = known_features(hash_features(texts), self.vocabulary)
        return self.model({**embed_texts(self.design, self.module, texts), WIDE: wide})


class BaselineTask(TextTask):
    """A baseline that was found for a task: see `Task` for its methods.

    Args:
      pack: Its description.
      text_model: The model.
    """

    def __init__(self, pack: Pack, text_model: TextModel):
        super().__init__(pack.task, pack.class_names, pack.inputs, pack.metrics)
        self.pack, self.text_model = pack, text_model
        self._head = pack.make_head()
        spec = tf.TensorSpec([None], tf.string)
        self._forward = tf.function(text_model, [spec], autograph=False)

    @property
    def head(self) -> Head:
        return self._head

    @property
    def model(self) -> BaselineModel:
        """The Keras model."""
        return self.text_model.model

    @property
    def design(self) -> Design:
        """The design."""
        return self.text_model.design

    def _outputs(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None,
        batch_size: int,
        progress: Progress | None,
    ) -> np.ndarray:
        joined = join_pairs(
            *(
                None if each is None else tf.constant(list(each), tf.string)
                for each in (texts, pairs)
            )
        )
        # Similar lengths together, as a sentence encoder pads them.
        order = np.argsort([len(text) for text in texts], kind="stable")
        parts = []
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            parts.append(self._forward(tf.gather(joined, rows)).numpy())
            if progress is not None:
                progress(len(rows))
        outputs = np.concatenate(parts)
        return outputs[np.argsort(order, kind="stable")]


def save_baseline(
    folder: str | os.PathLike,
    design: Design,
    prepared: Prepared,
    values: Tensors,
    head: Head,
    *,
    task: str,
    labels: Sequence[str],
    metrics: Mapping[str, float],
    pair: bool,
) -> None:
    """Saves a trained baseline as a task pack; an older one there is replaced.

    Args:
      folder: The pack's folder.
      design: The design.
      prepared: What it was trained on.
      values: What was trained, by path.
      head: What belongs to the kind of task.
      task: Name of the task.
      labels: Names of the classes.
      metrics: Metrics that it reached.
      pair: Whether its rows are pairs of texts.
    """
    module = prepared.module
    pack = Pack(
        base={"origin": design.module, "fingerprint": module.fingerprint},
        adapter=None,
        tuning=Tuning("head"),
        head={"kind": head.kind, "settings": head.settings()},
        task=task,
        labels=list(labels),
        metrics=dict(metrics),
        vocabulary=None,
        inputs={"pair": pair},
        variables=[],
        weights="",
        sha256="",
        baseline=dict(vars(design)),
    )
    tensors = {**values, _FEATURES: prepared.vocabulary}
    if design.fine_tune and prepared.rows is not None:
        tensors[_ROWS] = prepared.rows
    write_pack(folder, pack, tensors)


def load_baseline(folder: str | os.PathLike, trust_module: bool = False) -> BaselineTask:
    """Loads a baseline with the text module that it was trained on.

    Args:
      folder: The pack's folder.
      trust_module: Whether a module that is none of the known ones may be loaded, which runs code.
    """
    folder = os.fspath(folder)
    pack = read_pack(folder)
    try:
        design = Design(**(pack.baseline or {}))
    except (TypeError, UserError) as error:
        raise UserError(f"{folder}: not a baseline: {first_line(error)}") from None
    if runs_code(design.module) and not trust_module:
        raise UserError(
            f"{folder}: loading its text module {design.module} runs code; if you trust it, give "
            "--trust_module, or trust_module=True in Python"
        )
    tensors = read_tensors(folder, pack)
    module = _module_of(design, tensors, pack, folder)
    try:
        model = _model_of(design, tensors, pack, module.width)
    except (KeyError, ValueError) as error:
        raise UserError(f"{folder}: does not fit its design: {first_line(error)}") from None
    return BaselineTask(pack, TextModel(design, module, tensors[_FEATURES], model))


def outputs_of(head: Head) -> int:
    """Returns how many outputs a model with this head has."""
    return head.settings().get("classes", 1)


def _model_of(design: Design, tensors: Tensors, pack: Pack, width: int) -> BaselineModel:
    features = tensors[_FEATURES]
    model = BaselineModel(design, outputs_of(pack.make_head()), len(features))
    model.ensure_built(width)
    variables = model.variables_by_path()
    held = {name for name in tensors if name != _FEATURES and not name.startswith(_MODULE)}
    if held != variables.keys():
        raise ValueError(f"missing or left over: {some(held ^ variables.keys())}")
    for path, variable in variables.items():
        variable.assign(tensors[path])
    return model


def _module_of(design: Design, tensors: Tensors, pack: Pack, folder: str) -> TextModule:
    tuned = [tensors[name] for name in _tuned_names(tensors)]
    # One that was tuned is changed, so it can't be the one that all trials share.
    own = design.fine_tune and tuned and _ROWS not in tensors
    _refuse_other(design.module, pack, folder)
    module = HubModule(design.module) if own else open_module(design.module)
    if isinstance(module, TableModule) and tuned:
        return module.with_rows(tensors[_ROWS], tuned[0])
    for variable, value in zip(module.tuned(), tuned, strict=bool(tuned)):
        variable.assign(value)
    return module


def _refuse_other(name: str, pack: Pack, folder: str) -> None:
    """Refuses a module that is not the pack's own; nothing of another SavedModel may run."""
    is_local = name == GLOVE or name.startswith(BERT)
    found = open_module(name).fingerprint if is_local else fingerprint_of(name)
    if found != pack.base.get("fingerprint"):
        raise UserError(f"{folder}: was trained on another {name} than the one here")


def _tuned_names(tensors: Tensors) -> list[str]:
    """Returns the names of a module's tuned variables, in their order."""
    names = [name for name in tensors if name.startswith(_MODULE) and name != _ROWS]
    return sorted(names, key=lambda name: int(name.removeprefix(_MODULE)))
