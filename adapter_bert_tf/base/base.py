"""A base: a frozen BERT on disk."""

import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from adapter_bert_tf.base.config import BertConfig
from adapter_bert_tf.encoder.variables import is_layer_norm
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.text.tokenizer import Tokenizer, Vocabulary

Tensors = Iterator[tuple[str, np.ndarray]]


@dataclasses.dataclass
class Base:
    """A BERT whose weights can be read, and its fingerprint once they have been.

    Args:
      origin: The preset, TF-Hub handle, folder or checkpoint that it was opened from. It is for
        people to read; bases are compared by their fingerprints.
      config: Its sizes.
      vocabulary: Its tokens, or None if it came without a vocabulary.
      read: Yields the tensors under the paths of our variables. A tensor that we have no
        variable for keeps its own name.
      digests: SHA-256 of each tensor that has been read, by path.
      fetched: SHA-256 of what came over the network for it, by address.
    """

    origin: str
    config: BertConfig
    vocabulary: Vocabulary | None
    read: Callable[[], Tensors]
    digests: dict[str, str] = dataclasses.field(default_factory=dict)
    fetched: dict[str, str] = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer, one for all tasks on the base."""
        if self.vocabulary is None:
            raise UserError(f"{self.origin}: no vocab.txt beside it; give --vocab_file")
        return Tokenizer(self.vocabulary)

    @functools.cached_property
    def fingerprint(self) -> str:
        """Identifies the base without its LayerNorms.

        Adapter tuning changes the LayerNorms, and the original program's checkpoints hold only
        the tuned ones. They still have the fingerprint of the BERT that was tuned.
        """
        return self._digest(lambda path: not is_layer_norm(path))

    @functools.cached_property
    def layer_norm_fingerprint(self) -> str:
        """Identifies the LayerNorms."""
        return self._digest(is_layer_norm)

    def _digest(self, wanted: Callable[[str], bool]) -> str:
        if not self.digests:
            raise ValueError("the base has no fingerprint before load_encoder has read it")
        parts = {path: digest for path, digest in self.digests.items() if wanted(path)}
        text = json.dumps([self.config.computation(), parts], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def digest_of(array: np.ndarray) -> str:
    """Returns the SHA-256 of an array's shape and values."""
    return digest_of_parts(array.shape, [array])


def digest_of_parts(shape: Sequence[int], parts: Iterable[np.ndarray]) -> str:
    """Returns the SHA-256 of an array that comes in parts, some rows in each."""
    digest = hashlib.sha256(repr(tuple(shape)).encode())
    for part in parts:
        digest.update(np.ascontiguousarray(part, np.float32).data)
    return digest.hexdigest()
