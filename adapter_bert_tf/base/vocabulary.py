"""A base's vocabulary."""

import dataclasses
import hashlib
import os

from adapter_bert_tf.errors import UserError


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """The tokens of a base, in the order of their ids, and whether text is lower-cased."""

    tokens: tuple[str, ...]
    lower_case: bool

    def describe(self) -> dict[str, object]:
        """What a task pack keeps of it: enough to tell it from another."""
        digest = hashlib.sha256("\n".join(self.tokens).encode()).hexdigest()
        return {"size": len(self.tokens), "sha256": digest, "lower_case": self.lower_case}


def read_vocabulary(path: str, lower_case: bool | None = None) -> Vocabulary:
    """Reads a `vocab.txt`: a token a line.

    Without `lower_case` the tokens tell: a cased vocabulary has capitals in it.
    """
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            tokens = tuple(line.rstrip("\r\n").strip() for line in file)
    except OSError as error:
        raise UserError(f"{path}: {os.strerror(error.errno or 0)}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 at byte {error.start}") from None
    if not tokens:
        raise UserError(f"{path}: the vocabulary is empty")
    if lower_case is None:
        lower_case = not any(_has_capitals(token) for token in tokens)
    return Vocabulary(tokens, lower_case)


def _has_capitals(token: str) -> bool:
    special = token.startswith("[") and token.endswith("]")
    return not special and token != token.lower()
