"""The heads by the names that task packs use."""

from typing import Any

from adapter_bert_tf.head.classification import ClassificationHead
from adapter_bert_tf.head.head import Head
from adapter_bert_tf.head.regression import RegressionHead
from adapter_bert_tf.head.span import SpanHead

HEADS: dict[str, type[Head]] = {
    head.kind: head for head in (ClassificationHead, RegressionHead, SpanHead)
}


def make_head(kind: str, settings: dict[str, Any]) -> Head:
    """Returns a new head of that kind."""
    return HEADS[kind](**settings)
