"""What a run of the benchmarks found: a table, JSON, a picture."""

import dataclasses
import json
import os

_BAR, _LINE, _LEFT = 300, 26, 420


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
    with open(os.path.join(folder, "bench.svg"), "w", encoding="utf-8") as file:
        kept = [Row(**{name: row[name] for name in fields}) for row in found["rows"].values()]
        file.write(_picture(kept))


def _picture(rows: list[Row]) -> str:
    """Bars of each ratio's share of its limit, which is the line."""
    widest = max(row.ratio / row.limit for row in rows)
    scale = _BAR / max(widest, 1)
    parts = ['<text x="10" y="18">Ratios as shares of their limits</text>']
    for number, row in enumerate(rows, 1):
        y = number * _LINE
        share = row.ratio / row.limit
        color = "#2a7" if share <= 1 else "#c52"
        parts.append(
            f'<text x="10" y="{y + 16}">{row.name.replace("&", "&amp;")}</text>'
            f'<rect x="{_LEFT}" y="{y + 4}" width="{share * scale:.0f}" height="16" '
            f'fill="{color}"/><text x="{_LEFT + _BAR + 10}" y="{y + 16}">'
            f"{row.ratio:.2f} of {row.limit:.2f}</text>"
        )
    height, limit = (len(rows) + 1) * _LINE, _LEFT + scale
    parts.append(
        f'<line x1="{limit:.0f}" x2="{limit:.0f}" y1="{_LINE}" y2="{height}" stroke="#000"/>'
    )
    size = f'width="{_LEFT + _BAR + 120}" height="{height + 10}"'
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" '
        f'font-size="13">\n{body}\n</svg>\n'
    )
