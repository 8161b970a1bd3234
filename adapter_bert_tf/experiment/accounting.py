"""What a suite of tasks costs beside one BERT."""

import dataclasses
import math
import os
import statistics
from collections.abc import Sequence

import safetensors

from adapter_bert_tf.errors import UserError, first_line
from adapter_bert_tf.pack.pack import read_description


@dataclasses.dataclass(frozen=True)
class SuiteCost:
    """The parameters that several tasks on one base need.

    Attributes:
      base: Number of parameters of the base.
      held: Number of parameters that each task brings: adapters, LayerNorms and head, or whatever
        else was tuned.
    """

    base: int
    held: tuple[int, ...]

    @property
    def total(self) -> float:
        """All parameters of the suite, as a multiple of the base's.

        The base is counted once, unless every task replaces all of it, as full fine-tuning does.
        """
        shared = any(each < self.base for each in self.held)
        return shared + sum(self.held) / self.base

    @property
    def shares(self) -> list[float]:
        """What each task brings, as a part of the base."""
        return [each / self.base for each in self.held]

    @property
    def share(self) -> float:
        """Mean of the shares."""
        return statistics.fmean(self.shares)


def suite_cost(packs: Sequence[str | os.PathLike], base_parameters: int) -> SuiteCost:
    """Returns what the tasks of some packs cost.

    Args:
      packs: Folders of task packs.
      base_parameters: Number of parameters of their base, which packs do not tell.
    """
    described = [read_description(pack) for pack in packs]
    if len({each.base.get("fingerprint") for each in described}) > 1:
        raise UserError("the packs were tuned on different bases, so they share none")
    files = zip(packs, (each.weights for each in described), strict=True)
    return SuiteCost(base_parameters, tuple(_parameters(os.path.join(*file)) for file in files))


def _parameters(path: str) -> int:
    try:
        # Only the names and shapes are read.
        with safetensors.safe_open(path, framework="numpy") as file:
            shapes = [file.get_slice(name).get_shape() for name in file.keys()]  # noqa: SIM118
    except (OSError, safetensors.SafetensorError) as error:
        raise UserError(f"{path}: {first_line(error)}") from None
    return sum(map(math.prod, shapes))
