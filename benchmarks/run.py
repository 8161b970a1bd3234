"""All ratios of the benchmarks, in one table.

    make bench

or, for some of them, `python benchmarks/run.py --only=peer,growth`. The peers are Hugging Face
`adapters` on PyTorch, and the same model in ONNX Runtime, in `.venv-peer`, or in the environment of
the Python that PEER_PYTHON names. Runs take turns, the fastest of several counts; all sides have
all cores and float32.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from collections.abc import Callable

from absl import app, flags
from cola import cola
from growth import growth
from growth import lines as growth_lines
from latency import latency
from report import TITLE, Row, write
from start import start
from steps import against_ourselves, against_peer
from timing import load_line
from tokenising import tokenising

_HERE = os.path.dirname(os.path.abspath(__file__))
_DATA = flags.DEFINE_string("data_dir", "../shared/data/glue", "Folder of CoLA and SST-2.")
_RESULTS = flags.DEFINE_string("results", os.path.join(_HERE, "results"), "Where results go.")
_ONLY = flags.DEFINE_list("only", None, "Parts to run; all by default.")


def main(_):
    def with_data(part: Callable[[str], list[Row]], task: str) -> list[Row]:
        folder = os.path.join(_DATA.value, task)
        if os.path.isdir(folder):
            return part(folder)
        print(f"left out: no {folder}; --data_dir names the folder of GLUE's tasks")
        return []

    parts: dict[str, Callable[[], list[Row]]] = {
        "peer": against_peer,
        "ourselves": against_ourselves,
        "latency": latency,
        "cola": lambda: with_data(cola, "CoLA"),
        "tokenising": lambda: with_data(tokenising, "SST-2"),
        "start": start,
    }
    load = load_line()
    print(f"{load}\n{TITLE}")
    rows: list[Row] = []
    for name, part in parts.items():
        if _ONLY.value is None or name in _ONLY.value:
            found = part()
            print(*(row.line() for row in found), sep="\n", flush=True)
            rows += found
    grown = growth() if _ONLY.value is None or "growth" in _ONLY.value else {}
    print(*growth_lines(grown), f"afterwards: {load_line()}", sep="\n")
    write(_RESULTS.value, rows, grown, load)


if __name__ == "__main__":
    app.run(main)
