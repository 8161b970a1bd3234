"""The kinds of heads, by the names that task packs and flags use.

Their classes are imported when they are used, so that flags are read without TensorFlow.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adapter_bert_tf.heads.head import Head

# Kinds of tasks on texts. The labels of your own files belong to the first kind that recognizes
# them.
TEXT_KINDS = {
    "multi_label": "multi_label.MultiLabelHead",
    "regression": "regression.RegressionHead",
    "classification": "classification.ClassificationHead",
}
NO_HEAD = "none"
_KINDS = {**TEXT_KINDS, "span": "span.SpanHead", NO_HEAD: "none.NoHead"}


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


HEADS, TEXT_HEADS = _Heads(_KINDS), _Heads(TEXT_KINDS)


def make_head(kind: Any, settings: Any) -> Head:
    """Returns a new head of a kind; an unknown kind is a ValueError that lists the known ones."""
    if not isinstance(kind, str) or kind not in HEADS or not isinstance(settings, dict):
        raise ValueError(
            f"head {kind!r} with {settings!r} is unknown; known are {', '.join(HEADS)}"
        )
    return HEADS[kind](**settings)
