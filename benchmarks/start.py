"""From the start of a process to the end of its first step."""

import os
import subprocess
import sys
import time

from report import Row

_HERE = os.path.dirname(__file__)
_ROUNDS = 3


def start() -> list[Row]:
    """Ours, with real weights of MiniLM, as a share of a bare import of Model Garden."""
    commands = {
        "ours": [sys.executable, os.path.join(_HERE, "first_step.py")],
        "import": [sys.executable, "-c", "import tensorflow_models"],
    }
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(_ROUNDS):
        for name, command in commands.items():
            begin = time.perf_counter()
            subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
            seconds[name].append(time.perf_counter() - begin)
    name = "start to first step, MiniLM: ours / import tensorflow_models"
    return [Row(name, 2.5, min(seconds["ours"]), min(seconds["import"]))]
