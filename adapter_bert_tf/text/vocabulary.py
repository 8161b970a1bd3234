"""A base's vocabulary."""

import dataclasses
import hashlib

from adapter_bert_tf.errors import UserError, file_error

_CAPITALS_OF_CASED = 0.01


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """The tokens of a base, in the order of their ids, and whether text is lower-cased."""

    tokens: tuple[str, ...]
    lower_case: bool

    def index(self, token: str) -> int:
        """Returns the id of a token that the vocabulary must have."""
        try:
            return self.tokens.index(token)
        except ValueError:
            raise UserError(f"the vocabulary has no {token}: not one of BERT's") from None

    def check_size(self, vocab_size: int, origin: str, may_be_padded: bool = False) -> None:
        """Refuses a vocabulary that is not the base's.

        Hugging Face's tables of embeddings may have more rows than there are tokens.
        """
        size = len(self.tokens)
        if size > vocab_size or (size < vocab_size and not may_be_padded):
            raise UserError(
                f"{origin}: the vocabulary has {size} tokens, the configuration says {vocab_size}"
            )

    def describe(self) -> dict[str, object]:
        """What a task pack keeps of it: enough to tell it from another."""
        digest = hashlib.sha256("\n".join(self.tokens).encode()).hexdigest()
        return {"size": len(self.tokens), "sha256": digest, "lower_case": self.lower_case}


def read_vocabulary(path: str, lower_case: bool | None = None) -> Vocabulary:
    """Reads a `vocab.txt`: a token a line.

    Without `lower_case` the tokens tell: a cased vocabulary has many capitals, an uncased one
    none, but for special tokens such as `[CLS]` and Chinese BERT's `<S>`.
    """
    try:
        with open(path, encoding="utf-8-sig") as file:
            tokens = tuple(line.strip() for line in file.read().rstrip().split("\n"))
    except OSError as error:
        raise file_error(path, error) from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 at byte {error.start}") from None
    if not any(tokens):
        raise UserError(f"{path}: the vocabulary is empty")
    if lower_case is None:
        capitals = sum(token != token.lower() for token in tokens if token[:1] not in "[<")
        lower_case = capitals < _CAPITALS_OF_CASED * len(tokens)
    return Vocabulary(tokens, lower_case)
