"""A base: a frozen BERT on disk."""

import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable, Iterator

import numpy as np

from adapter_bert_tf.base.config import BertConfig
from adapter_bert_tf.encoder.variables import is_layer_norm
from adapter_bert_tf.text.tokenizer import Vocabulary

Tensors = Iterator[tuple[str, np.ndarray]]


@dataclasses.dataclass
class Base:
    """A BERT that can be read, and what identifies it once it has been.

    Args:
      origin: The folder, handle or preset that the user named.
      config: Its sizes.
      vocabulary: Its tokens, or None where the files have none.
      read: Yields its tensors by our path; a tensor without a path of ours keeps its own name.
    """

    origin: str
    config: BertConfig
    vocabulary: Vocabulary | None
    read: Callable[[], Tensors]
    digests: dict[str, str] = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def fingerprint(self) -> str:
        """Identifies everything but the LayerNorms, which adapter tuning replaces.

        So a checkpoint of the original program, which holds tuned LayerNorms only, still
        belongs to the BERT that it was tuned on.
        """
        return self._digest(lambda path: not is_layer_norm(path))

    @functools.cached_property
    def layer_norm_fingerprint(self) -> str:
        """Identifies the LayerNorms."""
        return self._digest(is_layer_norm)

    def _digest(self, wanted: Callable[[str], bool]) -> str:
        if not self.digests:
            raise ValueError("a base has a fingerprint once load_encoder has read it")
        parts = {path: digest for path, digest in self.digests.items() if wanted(path)}
        text = json.dumps([self.config.computation(), parts], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def digest_of(array: np.ndarray) -> str:
    """SHA-256 of an array's shape and values."""
    array = np.ascontiguousarray(array, np.float32)
    digest = hashlib.sha256(repr(array.shape).encode())
    digest.update(array.data)
    return digest.hexdigest()
