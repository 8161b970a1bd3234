"""The kinds of heads, by the names that task packs and flags use.

Their classes are imported when they are used, so that flags are read without TensorFlow.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from adapter_bert_tf.checks import SHARE, Check, anything, boolean, fields, one_of, whole
from adapter_bert_tf.data.labels import MOST_CLASSES, LabelForm, Number, OneLabel, SeveralLabels
from adapter_bert_tf.encoder.activations import ACTIVATIONS

if TYPE_CHECKING:
    from adapter_bert_tf.heads.head import Head

CLASSES, HIDDEN_LAYERS = whole(1, MOST_CLASSES), whole(0, 8)

# Kinds of tasks on texts: the class of the head, and how labels stand in files. The labels of your
# own files belong to the first kind that recognizes them.
_TEXT_KINDS: dict[str, tuple[str, LabelForm]] = {
    "multi_label": ("multi_label.MultiLabelHead", SeveralLabels()),
    "regression": ("regression.RegressionHead", Number()),
    "classification": ("classification.ClassificationHead", OneLabel()),
}
TEXT_LABELS = {kind: form for kind, (_, form) in _TEXT_KINDS.items()}
NO_HEAD = "none"
_KINDS = {
    **{kind: place for kind, (place, _) in _TEXT_KINDS.items()},
    "span": "span.SpanHead",
    NO_HEAD: "none.NoHead",
}
# What the settings of each kind may be in a task pack.
_TEXT_FORM: dict[str, Check] = {
    "dropout": SHARE,
    "pooler": boolean,
    "hidden_layers": HIDDEN_LAYERS,
    "activation": one_of(ACTIVATIONS),
}
_SETTINGS: dict[str, Check] = {
    "multi_label": fields({"classes": CLASSES}, _TEXT_FORM),
    "regression": fields({}, _TEXT_FORM),
    "classification": fields({"classes": CLASSES}, _TEXT_FORM),
    "span": fields({}, {}),
    NO_HEAD: fields({}, {}),
}


def check_head(head: Any, where: str) -> Any:
    """Checks the kind and the settings of a head, as a task pack has them."""
    fields({"kind": one_of(_KINDS), "settings": anything}, {})(head, where)
    _SETTINGS[head["kind"]](head["settings"], f"{where}.settings")
    return head


class _Heads(Mapping[str, "type[Head]"]):
    """The classes of heads by kind."""

    def __init__(self, places: Mapping[str, str]):
        self._places = places

    def __getitem__(self, kind: str) -> type[Head]:
        module, name = self._places[kind].split(".")
        return getattr(importlib.import_module(f"adapter_bert_tf.heads.{module}"), name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


HEADS = _Heads(_KINDS)


def make_head(kind: Any, settings: Any) -> Head:
    """Returns a new head of a kind; an unknown kind is a ValueError that lists the known ones."""
    if not isinstance(kind, str) or kind not in HEADS or not isinstance(settings, dict):
        raise ValueError(
            f"head {kind!r} with {settings!r} is unknown; known are {', '.join(HEADS)}"
        )
    return HEADS[kind](**settings)
