"""From an AdapterHub head to ours, and back."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adapter_bert_tf.adapterhub.config import RefusedError, check_name
from adapter_bert_tf.adapterhub.files import HubFiles, Tensors
from adapter_bert_tf.encoder.activations import HUGGING_FACE_NAMES
from adapter_bert_tf.errors import UserError, some
from adapter_bert_tf.heads.kinds import NO_HEAD
from adapter_bert_tf.heads.text import TextForm

_CLASSES, _LABELS, _QUESTIONS = (
    "classification",
    "multilabel_classification",
    "question_answering",
)
# The heads of models that have one head only: what they are called, and what they are here.
_STATIC = {
    "BertForSequenceClassification": ("classifier", _CLASSES),
    "BertForQuestionAnswering": ("qa_outputs", _QUESTIONS),
}
_MOST_LABELS = 100_000


class HubHead:
    """The head in an adapter's files.

    Args:
      files: The files.
      dropout: The base's rate of dropout.

    Attributes:
      kind: The kind of our head.
      settings: Its settings.
      labels: Names of its classes.
    """

    def __init__(self, files: HubFiles, dropout: float):
        self.kind = NO_HEAD
        self.settings: dict[str, Any] = {}
        self.labels: tuple[str, ...] = ()
        self._tensors: Tensors = {}
        self._layers: list[str] = []
        if files.head_config is None:
            return
        raw = files.head_config
        if raw.get("config") is None:
            fields, stems = _static_fields(raw)
        else:
            check_name(raw.get("name"))
            fields, prefix = raw["config"], f"heads.{raw['name']}."
            _check_fields(fields)
            # Dropout and a product for each layer, with an activation between two of them.
            step = 2 if fields.get("activation_function", "tanh") is None else 3
            stems = [f"{prefix}{1 + step * i}" for i in range(_layers(fields))]
        known = {f"{stem}.{part}" for stem in stems for part in ("weight", "bias")}
        left = files.head_tensors.keys() - known
        if left:
            raise UserError(f"tensors of the head that nothing is known of: {some(left)}")
        self._tensors, self._layers = files.head_tensors, stems
        self._read(fields, dropout)

    def _read(self, fields: Mapping[str, Any], dropout: float) -> None:
        if fields["head_type"] == _QUESTIONS:
            if len(self._layers) != 1:
                raise RefusedError("layers", len(self._layers), "a head for questions has one here")
            if fields.get("num_labels", 2) != 2:
                raise RefusedError("num_labels", fields["num_labels"], "a span has a start and end")
            self.kind = "span"
            return
        outputs = fields.get("num_labels", 2)
        if type(outputs) is not int or not 1 <= outputs <= _MOST_LABELS:
            raise RefusedError("num_labels", outputs, f"expected 1 to {_MOST_LABELS}")
        rate = fields.get("dropout_prob")
        rate = dropout if rate is None else rate
        if not isinstance(rate, int | float) or not 0 <= rate < 1:
            raise RefusedError("dropout_prob", rate, "expected a number from 0 to 1")
        form = TextForm(fields.get("use_pooler", False), len(self._layers) - 1, _activation(fields))
        self.settings = {"dropout": float(rate), **form.settings()}
        if fields["head_type"] == _CLASSES and outputs == 1:
            self.kind = "regression"
            return
        self.kind = "classification" if fields["head_type"] == _CLASSES else "multi_label"
        self.settings = {"classes": outputs, **self.settings}
        self.labels = _label_names(fields.get("label2id"), outputs)

    def variables(self, width: int, outputs: int) -> dict[str, np.ndarray]:
        """Returns the values of our head's variables by path.

        Args:
          width: Width of the encoder.
          outputs: Number of logits.
        """
        found = {}
        for number, stem in enumerate(self._layers):
            is_last = number == len(self._layers) - 1
            columns = outputs if is_last else width
            name = "output" if is_last else f"hidden_{number + 1}"
            weight = self._tensors.get(f"{stem}.weight")
            # Only the last layer may have been made without a bias.
            zeros = np.zeros(columns, np.float32) if is_last else None
            bias = self._tensors.get(f"{stem}.bias", zeros)
            for part, tensor, shape in (
                ("weight", weight, (columns, width)),
                ("bias", bias, (columns,)),
            ):
                if tensor is None or tensor.shape != shape:
                    shown = "missing" if tensor is None else list(tensor.shape)
                    raise UserError(f"{stem}.{part} is {shown}, expected {list(shape)}")
                kind = "kernel" if part == "weight" else "bias"
                found[f"head/{name}/{kind}"] = tensor.T
        return found


def _static_fields(raw: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    owner = raw.get("model_class")
    if not isinstance(owner, str) or owner not in _STATIC:
        raise RefusedError("model_class", owner, f"its head is not read; known are {some(_STATIC)}")
    stem, kind = _STATIC[owner]
    fields = {"head_type": kind, "layers": 1, "use_pooler": True, "activation_function": None}
    fields |= {name: raw[name] for name in ("num_labels", "label2id") if name in raw}
    return fields, [stem]


def _check_fields(fields: Any) -> None:
    if not isinstance(fields, dict):
        raise RefusedError("config", fields, "expected an object")
    if fields.get("head_type") not in (_CLASSES, _LABELS, _QUESTIONS):
        known = f"{_CLASSES}, {_LABELS}, {_QUESTIONS}"
        raise RefusedError("head_type", fields.get("head_type"), f"expected one of {known}")
    if not isinstance(fields.get("use_pooler", False), bool):
        raise RefusedError("use_pooler", fields["use_pooler"], "expected true or false")


def _layers(fields: Mapping[str, Any]) -> int:
    layers = fields.get("layers", 1 if fields["head_type"] == _QUESTIONS else 2)
    if type(layers) is not int or not 1 <= layers <= 8:
        raise RefusedError("layers", layers, "expected 1 to 8")
    return layers


def _activation(fields: Mapping[str, Any]) -> str:
    name = fields.get("activation_function", "tanh")
    if name is None:
        return "tanh" if fields.get("layers") == 1 else "linear"
    if not isinstance(name, str) or name.lower() not in HUGGING_FACE_NAMES:
        known = ", ".join(HUGGING_FACE_NAMES)
        raise RefusedError("activation_function", name, f"expected one of {known}")
    return HUGGING_FACE_NAMES[name.lower()]


def _label_names(numbers: Any, count: int) -> tuple[str, ...]:
    if numbers is None:
        return tuple(f"LABEL_{number}" for number in range(count))
    # Old files have the numbers as texts.
    found = numbers.items() if isinstance(numbers, dict) else ()
    names = {str(number): label for label, number in found if type(number) in (int, str)}
    wanted = [str(number) for number in range(count)]
    if names.keys() != set(wanted) or len(found) != count:
        raise RefusedError("label2id", numbers, f"expected a name for each of {count} labels")
    labels = tuple(names[number] for number in wanted)
    if not all(_is_unicode(label) for label in labels):
        raise RefusedError("label2id", numbers, "expected names in Unicode")
    return labels


def _is_unicode(text: str) -> bool:
    """Whether a text can be written in UTF-8; JSON can have halves of characters."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def to_config(kind: str, form: TextForm, labels: Sequence[str]) -> dict[str, Any]:
    """Returns the configuration of a head.

    Args:
      kind: The kind of our head.
      form: Its form, if it is one on texts.
      labels: Names of its classes.
    """
    names = {ours: name for name, ours in reversed(HUGGING_FACE_NAMES.items())}
    # The library turns these fields into arguments, and knows no others.
    fields = {"activation_function": names[form.activation], "dropout_prob": None}
    if kind == "span":
        numbers = {"LABEL_0": 0, "LABEL_1": 1}
        return {
            **fields,
            "head_type": _QUESTIONS,
            "num_labels": 2,
            "layers": 1,
            "label2id": numbers,
        }
    labels = labels or ["LABEL_0"]
    if len(set(labels)) < len(labels):
        raise RefusedError("labels", list(labels), "AdapterHub wants each of them once")
    return {
        **fields,
        "head_type": _LABELS if kind == "multi_label" else _CLASSES,
        "num_labels": len(labels),
        "layers": form.hidden_layers + 1,
        "use_pooler": form.pooler,
        "bias": True,
        "label2id": {label: number for number, label in enumerate(labels)},
    }


def to_tensors(variables: Mapping[str, np.ndarray], form: TextForm, name: str) -> Tensors:
    """Returns the tensors of our head under their names in PyTorch."""
    found = {}
    for number, layer in enumerate(form.layers):
        for part, ours in (("weight", "kernel"), ("bias", "bias")):
            value = variables[f"head/{layer}/{ours}"]
            found[f"heads.{name}.{1 + 3 * number}.{part}"] = np.ascontiguousarray(value.T)
    return found
