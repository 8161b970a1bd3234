"""What a report says about the experiment and the machine."""

import json
import os
import platform
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from adapter_bert_tf.errors import UserError
from adapter_bert_tf.experiment.records import in_words
from adapter_bert_tf.experiment.table import BASELINE, EXPERIMENTS, SWEEP, Experiment
from adapter_bert_tf.files import read_json_object, write_atomically

ABOUT = "about.json"


def collect(
    name: str, experiment: Experiment, program: str, arguments: Sequence[str]
) -> dict[str, Any]:
    """Returns the experiment, its settings, the command, the machine and the commit."""
    varied = {flag for arm in experiment.arms for flag in arm.grid}
    fixed = {flag: value for flag, value in experiment.fixed.items() if flag not in varied}
    return {
        "experiment": name,
        "title": experiment.title,
        "base": experiment.bert,
        "settings of all trials": in_words(fixed) or "the defaults",
        "command": shlex.join(["python", "-m", program, *arguments]),
        "machine": f"{_processor()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "commit": _commit(),
    }


def write(folder: str, about: Mapping[str, Any]) -> None:
    """Keeps it beside the trials."""
    write_atomically(os.path.join(folder, ABOUT), json.dumps(about, indent=2).encode())


def read(folder: str) -> dict[str, Any]:
    """Returns what `write` has kept."""
    path = os.path.join(folder, ABOUT)
    found = read_json_object(path)
    if found.get("experiment") not in (*EXPERIMENTS, SWEEP, BASELINE):
        raise UserError(f"{path}: does not name an experiment")
    return found


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            lines = [line for line in file if line.startswith("model name")]
    except OSError:
        lines = []
    return lines[0].split(":", 1)[1].strip() if lines else platform.machine()


def _commit() -> str:
    command = ["git", "-C", os.path.dirname(__file__), "rev-parse", "--short", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"
