"""What a task's file says, before tokenisation."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Examples:
    """The rows of one split, as columns.

    Args:
      texts: The texts.
      pairs: The second texts, for tasks with pairs.
      labels: Class numbers, or values for a regression; None where the file has no labels.
    """

    texts: list[str]
    pairs: list[str] | None
    labels: list[float] | None

    def __len__(self) -> int:
        return len(self.texts)
