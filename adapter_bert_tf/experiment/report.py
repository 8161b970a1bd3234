"""The report of an experiment, made from its CSV files alone.

It can be made at any time, from the trials that are complete, and made again: the same files give
the same report.
"""

import collections
import csv
import dataclasses
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from adapter_bert_tf.errors import UserError, file_error
from adapter_bert_tf.experiment import figures, paper
from adapter_bert_tf.experiment.cells import NONE, listing, shown_paper_score
from adapter_bert_tf.experiment.contents import CONTENTS, drawable
from adapter_bert_tf.experiment.pages import PAPER, Block, Table, to_html, to_markdown
from adapter_bert_tf.experiment.records import (
    ABLATION,
    COMPLETE,
    FAILED,
    PRUNED,
    RUNNING,
    WAITING,
    Record,
    in_words,
    read_records,
)
from adapter_bert_tf.experiment.select import choose, points
from adapter_bert_tf.files import write_atomically

# What is ranked in reports, and how much of it.
_RANKED = {"squad": "settings", "sweep": "settings", "baseline": "designs"}
_MOST_RANKED = 50
_TITLES = {
    "glue": "GLUE (Table 1)",
    "additional": "17 additional tasks (Table 2, Figure 3)",
    "tradeoff": "Score and trained parameters (Figures 1, 3 and 4)",
    "squad": "SQuAD v1.1 (Figure 5)",
    "ablation": "Layers without adapters (Figure 6)",
    "init_scale": "Initial deviation of the adapters (Figure 6)",
    "learning_rate": "Learning rates (Figure 7)",
    "size": "Size of the adapters",
    "variants": "Variants of the adapter",
    "sweep": "Sweep",
    "baseline": "The baseline without BERT",
}


def write_report(folder: str, experiment: str, about: Mapping[str, Any]) -> None:
    """Writes the report of an experiment, with its figures and their points.

    Args:
      folder: The experiment's folder, with its CSV files.
      experiment: Name of the experiment.
      about: Whatever else should be told: settings, machine, commit.
    """
    records = read_records(folder)
    blocks = [
        _progress(records),
        *CONTENTS[experiment](records),
        *_ablation(folder),
        *_facts(experiment),
        _chosen(records, folder),
        *_rankings(experiment, records),
        *_failures(records),
        _about(about, records),
    ]
    drawn = {each.name: each.svg() for each in blocks if not isinstance(each, Table)}
    files = {"report.html": to_html(_TITLES[experiment], blocks, drawn)}
    files["report.md"] = to_markdown(_TITLES[experiment], blocks)
    for block in blocks:
        if not isinstance(block, Table):
            files[f"figure_{block.name}.svg"] = drawn[block.name]
            files[f"figure_{block.name}.csv"] = _csv(block.rows())
    for name, text in files.items():
        write_atomically(os.path.join(folder, name), text.encode())


def _progress(records: Sequence[Record]) -> Table:
    counts = collections.Counter(each.state for each in records)
    states = (COMPLETE, RUNNING, WAITING, PRUNED, FAILED)
    is_open = any(counts[state] for state in (RUNNING, WAITING))
    note = "The experiment is not finished: what follows is made from what is complete."
    row = [str(counts[state]) for state in states]
    return Table("Trials", states, [row], note if is_open else "")


def _about(about: Mapping[str, Any], records: Iterable[Record]) -> Table:
    hours = sum(each.seconds or 0 for each in records) / 3600
    told = {**about, "hours of trials": f"{hours:.2f}"}
    return Table("About", ("what", "value"), [(name, str(each)) for name, each in told.items()])


def _failures(records: Iterable[Record]) -> list[Table]:
    rows = [
        (each.task, each.method, in_words(each.settings), str(each.seed), each.reason)
        for each in records
        if each.state == FAILED
    ]
    header = ("task", "method", "settings", "seed", "reason")
    return [Table("Failed trials", header, rows)] if rows else []


def _chosen(records: Iterable[Record], folder: str) -> Table:
    note = (
        "By the mean on the validation set alone. Results on the test set were computed only for "
        "what was chosen, and had no part in choosing it."
    )
    found = list(choose(records).values())
    table = listing("Chosen settings", found, note)
    packs = [pack_of(point.first, folder) or NONE for point in found]
    if set(packs) <= {NONE}:  # The trials' folders are elsewhere.
        return table
    rows = [[*row, pack] for row, pack in zip(table.rows, packs, strict=True)]
    return dataclasses.replace(table, header=[*table.header, "task pack"], rows=rows)


def pack_of(record: Record, folder: str) -> str | None:
    """Returns where the task pack of a trial is, seen from the experiment's folder."""
    pack = os.path.join(record.folder, "pack")
    return pack if record.folder and os.path.isdir(os.path.join(folder, pack)) else None


def _rankings(experiment: str, records: Iterable[Record]) -> list[Table]:
    """Returns what was tried, where that is a list and no picture."""
    if experiment not in _RANKED:
        return []
    ranked = sorted(points(records), key=lambda each: (each.first.task, -each.mean))
    note = f"The best {_MOST_RANKED} of {len(ranked):,}; trials.csv has all."
    title = f"All {_RANKED[experiment]}, best first"
    return [listing(title, ranked[:_MOST_RANKED], note if len(ranked) > _MOST_RANKED else "")]


def _facts(experiment: str) -> list[Table]:
    facts = paper.FACTS.get(experiment, ())
    rows = [(each.what, shown_paper_score(each.score, "g")) for each in facts]
    note = f"Numbers of {paper.SOURCE}, not ours. Its scores and changes are in percent."
    header = (f"{PAPER}: what", f"{PAPER}: result")
    return [Table("The paper's numbers", header, rows, note)] if rows else []


def _ablation(folder: str) -> list[Block]:
    path = os.path.join(folder, ABLATION)
    if not os.path.exists(path):
        return []
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return drawable(figures.ablation(csv.DictReader(file)))
    except OSError as error:
        raise file_error(path, error) from None
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: not a table of scores without adapters: {error}") from None


def _csv(rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
