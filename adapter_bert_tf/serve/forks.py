"""Where the tasks of an export part: below, a text is computed once for all of them."""

from collections.abc import Sequence


class Forks:
    """Which tasks are computed as one, up to the layer at which they begin to differ.

    Below the first layer that a task changes, it computes what the base computes. So do others, of
    which any one can stand for all. A point is a place at which tasks begin to differ: 0 is the
    LayerNorm of the embeddings, 1 the first layer, and so on; behind the last layer are the heads.

    Args:
      first_points: The first point at which each task differs from the base.

    Attributes:
      stand_ins: Which task stands for each task, by the point from which on it does.
    """

    def __init__(self, first_points: Sequence[int]):
        points = sorted({0, *first_points})
        self.stand_ins: dict[int, list[int]] = {}
        for point in points:
            alike = [task for task, first in enumerate(first_points) if first > point]
            tasks = [alike[0] if first > point else task for task, first in enumerate(first_points)]
            if tasks not in self.stand_ins.values():
                self.stand_ins[point] = tasks
