"""The heads by the names that task packs use."""

from typing import Any

from adapter_bert_tf.heads.classification import ClassificationHead
from adapter_bert_tf.heads.head import Head
from adapter_bert_tf.heads.regression import RegressionHead
from adapter_bert_tf.heads.span import SpanHead

HEADS: dict[str, type[Head]] = {
    head.kind: head for head in (ClassificationHead, RegressionHead, SpanHead)
}


def make_head(kind: Any, settings: Any) -> Head:
    """Returns a new head of that kind, or raises a ValueError with the known kinds."""
    if kind not in HEADS or not isinstance(settings, dict):
        raise ValueError(
            f"head {kind!r} with {settings!r} is unknown; known are {', '.join(HEADS)}"
        )
    return HEADS[kind](**settings)
