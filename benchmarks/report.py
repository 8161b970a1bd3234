"""What a run of the benchmarks found: a table, JSON, a picture."""

import dataclasses
import json
import os

import matplotlib
from matplotlib import pyplot

# Two pictures of the same results are the same file.
matplotlib.rcParams["svg.hashsalt"] = "bench"

_WITHIN, _OVER = "#2a9d6f", "#d1592a"


@dataclasses.dataclass(frozen=True)
class Row:
    """One ratio, and the most that it may be.

    Args:
      name: What is divided by what.
      limit: The most that the ratio may be.
      first: What is measured.
      second: What it is compared with.
      unit: Of both.
    """

    name: str
    limit: float
    first: float
    second: float
    unit: str = "s"

    @property
    def ratio(self) -> float:
        """The ratio."""
        return self.first / self.second

    def line(self) -> str:
        """The row as text."""
        mark = "ok" if self.ratio <= self.limit else "over"
        return (
            f"{self.name:<66} {self.ratio:5.2f}  {self.limit:5.2f}  {mark:<4}  "
            f"{_short(self.first)} / {_short(self.second)} {self.unit}"
        )


TITLE = f"{'':<66} {'ratio':>5}  {'limit':>5}"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def write(folder: str, rows: list[Row], growth: dict[str, dict[int, float]], load: str) -> None:
    """Writes `bench.json` and `bench.svg`; what was measured before and is not now stays."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "bench.json")
    found = {"rows": {}, "growth": {}}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    for row in rows:
        found["rows"][row.name] = {**dataclasses.asdict(row), "ratio": row.ratio, "machine": load}
    found["growth"].update(growth)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(found, file, indent=1)
        file.write("\n")
    fields = [field.name for field in dataclasses.fields(Row)]
    kept = [Row(**{name: row[name] for name in fields}) for row in found["rows"].values()]
    _draw(os.path.join(folder, "bench.svg"), kept)


def _draw(path: str, rows: list[Row]) -> None:
    """Draws each ratio as a bar, beside the line of what it is compared with, which is 1."""
    figure, axes = pyplot.subplots(figsize=(6, 0.8 + 0.32 * len(rows)))
    places = range(len(rows))
    colors = [_WITHIN if row.ratio <= row.limit else _OVER for row in rows]
    axes.barh(places, [row.ratio for row in rows], color=colors, height=0.6)
    for place, row in zip(places, rows, strict=True):
        # Behind bar, limit and line, so that none of them crosses the number.
        behind = max(row.ratio, row.limit)
        behind = max(behind, 1) if behind > 0.75 else behind
        axes.text(behind + 0.04, place, f"{row.ratio:.2f}", va="center")
    limits = [row.limit for row in rows]
    axes.scatter(limits, places, marker="|", s=160, color="black", label="limit", zorder=3)
    axes.axvline(1, color="gray", linestyle="--", linewidth=1, label="what we compare with")
    axes.set_yticks(places, [row.name for row in rows])
    axes.invert_yaxis()
    axes.margins(x=0.1)
    axes.set_xlabel("ratio: less is better")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, frameon=False)
    # Tight: the names to the left are long, and none of them may be cut.
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    pyplot.close(figure)
