"""From tables and figures to pages, in HTML and in Markdown."""

import dataclasses
import html
import re
from collections.abc import Iterable, Mapping, Sequence

from adapter_bert_tf.experiment.figures import Chart, HeatMap

# Columns whose name begins so hold the paper's numbers and not ours.
PAPER = "Paper"


@dataclasses.dataclass(frozen=True)
class Table:
    """A table with a title, and a note below it."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


Block = Table | Chart | HeatMap


_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72em; margin: 2em auto; padding: 0 1em;
       color: #111; background: #fff }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .25em .7em; border-bottom: 1px solid #ccc; text-align: left;
         vertical-align: top }
th { border-bottom: 2px solid #111 }
.paper { font-style: italic; background: #f0f0f0 }
.table { overflow-x: auto }
figure { margin: 1em 0; break-inside: avoid }
svg { max-width: 100%; height: auto }
@media print { .table { overflow: visible } table { font-size: 8pt }
               th, td { padding: .2em .4em; overflow-wrap: anywhere } }
.note, figcaption { color: #444; max-width: 50em }
"""


def to_html(title: str, blocks: Iterable[Block], drawn: Mapping[str, str]) -> str:
    """Returns a page that stands alone, with its figures in it."""
    parts = [
        _html_table(block) if isinstance(block, Table) else _html_figure(block, drawn[block.name])
        for block in blocks
    ]
    name = html.escape(title)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{name}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{name}</h1>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def _html_table(table: Table) -> str:
    kinds = [' class="paper"' if name.startswith(PAPER) else "" for name in table.header]
    lines = [_html_row("th", table.header, kinds)]
    lines += [_html_row("td", row, kinds) for row in table.rows]
    note = f'\n<p class="note">{html.escape(table.note)}</p>' if table.note else ""
    body = "\n".join(lines)
    heading = f"<h2>{html.escape(table.title)}</h2>"
    return f'{heading}\n<div class="table"><table>\n{body}\n</table></div>{note}'


def _html_row(tag: str, cells: Sequence[str], kinds: Sequence[str]) -> str:
    pairs = zip(cells, kinds, strict=True)
    inside = "".join(f"<{tag}{kind}>{html.escape(cell)}</{tag}>" for cell, kind in pairs)
    return f"<tr>{inside}</tr>"


def _html_figure(figure: Chart | HeatMap, svg: str) -> str:
    # What stands before the element is for files of their own.
    drawing = svg[svg.index("<svg") :]
    return f"<figure>\n{drawing}<figcaption>{html.escape(figure.title)}</figcaption>\n</figure>"


def to_markdown(title: str, blocks: Iterable[Block]) -> str:
    """Returns the same in Markdown; its figures are files beside it."""
    parts = [f"# {_plain(title)}"]
    for block in blocks:
        if isinstance(block, Table):
            parts.append(_markdown_table(block))
        else:
            parts.append(f"![{block.name}](figure_{block.name}.svg)\n\n{_plain(block.title)}")
    return "\n\n".join(parts) + "\n"


def _markdown_table(table: Table) -> str:
    rows = [table.header, ["-"] * len(table.header), *table.rows]
    lines = ["| " + " | ".join(map(_plain, row)) + " |" for row in rows]
    note = f"\n\n{_plain(table.note)}" if table.note else ""
    return f"## {_plain(table.title)}\n\n" + "\n".join(lines) + note


def _plain(text: str) -> str:
    """Returns a text on one line that Markdown takes for nothing but text."""
    line = html.escape(" ".join(text.split()), quote=False)
    return re.sub(r"([\\`*\[\]|])", r"\\\1", line)
