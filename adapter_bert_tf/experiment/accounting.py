"""What a suite of tasks costs beside one BERT."""

import dataclasses
import math
import os
import statistics
from collections.abc import Sequence

from adapter_bert_tf.errors import UserError
from adapter_bert_tf.experiment.estimate import sizes_of
from adapter_bert_tf.pack.pack import read_pack, read_shapes, refuse_baseline


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


def suite_cost(packs: Sequence[str | os.PathLike], base_parameters: int | None = None) -> SuiteCost:
    """Returns what the tasks of some packs cost beside one BERT.

    Args:
      packs: Folders of task packs.
      base_parameters: Number of parameters of their base. By default it is read off the base,
        which is where the first pack says.

    Example:
      `suite_cost(["runs/sst2/pack", "runs/mrpc/pack"]).total`
    """
    if not packs:
        raise UserError("expected the folders of task packs")
    described = [read_pack(pack) for pack in packs]
    for each, folder in zip(described, packs, strict=True):
        refuse_baseline(each, folder)
    if len({each.base.get("fingerprint") for each in described}) > 1:
        raise UserError("the packs were tuned on different bases, so they share none")
    if base_parameters is None:
        base_parameters = sizes_of(described[0].base.get("origin", "")).total
    shapes = (read_shapes(*each) for each in zip(packs, described, strict=True))
    held = (sum(map(math.prod, each.values())) for each in shapes)
    return SuiteCost(base_parameters, tuple(held))
