"""The models that are compared, for both sides."""

import dataclasses
import json
import sys


@dataclasses.dataclass(frozen=True)
class Case:
    """A model and its batch; weights are random.

    Args:
      width: Of the encoder; the feed-forward layer is four times as wide.
      layers: Transformer layers.
      heads: Attention heads.
      rows: Rows of a batch.
      length: Tokens of a row, all of them real.
      adapter: Width of the adapters, which are trained; 0 for none, and all else is trained.
      erf: Whether GELU is the exact one, or the tanh form.
    """

    width: int = 768
    layers: int = 12
    heads: int = 12
    rows: int = 16
    length: int = 128
    adapter: int = 64
    erf: bool = False

    words = 30522

    def but(self, **changes) -> "Case":
        """A case with `changes`."""
        return dataclasses.replace(self, **changes)

    def argument(self) -> str:
        """The case as an argument of a program."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_argument(cls) -> "Case":
        """The case that this program was started with."""
        return cls(**json.loads(sys.argv[1]))


BERT_BASE = Case()
MINILM = Case(width=384, layers=6, rows=32, erf=True)

# Texts in a request, whose latency is measured.
ROWS = (1, 8)
# 32 tokens with [CLS] and [SEP].
TEXT = (
    "the film is a touching and surprisingly funny story about a family that loses its house, "
    "and it never asks for more pity than it has really earned."
)


def texts_of(rows: int) -> list[str]:
    """Returns different texts of the same tokens: an export computes equal ones only once."""
    words = TEXT.split()
    return [" ".join(words[row:] + words[:row]) for row in range(rows)]
