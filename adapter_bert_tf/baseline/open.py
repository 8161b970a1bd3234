"""Opens text modules by name."""

import functools

from adapter_bert_tf.baseline.glove import Glove
from adapter_bert_tf.baseline.hub import HubModule
from adapter_bert_tf.baseline.modules import BERT, GLOVE
from adapter_bert_tf.baseline.sentences import SentenceEncoder
from adapter_bert_tf.baseline.text_module import TextModule


@functools.lru_cache(maxsize=4)
def open_module(name: str) -> TextModule:
    """Returns a module, one for all trials of a worker. It is not changed by training."""
    if name == GLOVE:
        return Glove()
    return SentenceEncoder(name) if name.startswith(BERT) else HubModule(name)
