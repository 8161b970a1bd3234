"""What a report says about the experiment and the machine, and what makes it another experiment."""

import hashlib
import json
import os
import platform
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from adapter_bert_tf.errors import UserError
from adapter_bert_tf.experiment.places import Places
from adapter_bert_tf.experiment.records import in_words
from adapter_bert_tf.experiment.table import BASELINE, EXPERIMENTS, SWEEP, Experiment
from adapter_bert_tf.files import exists, file_digest, read_json_object, write_atomically

ABOUT = "about.json"
# Flags about files that change no result.
_NO_DATA = ("cache_dir",)
_PASSWORD = re.compile(r"(://[^:/@\s]*):[^@\s]*@")


def identify(name: str, experiment: Experiment, places: Places) -> dict[str, str]:
    """Returns what its trials have in common: with anything else, results could not be compared.

    Tasks, methods and grids are not among it, so that the same folder can be given more of them.
    """
    varied = {flag for arm in experiment.arms for flag in arm.grid}
    fixed = {flag: value for flag, value in experiment.fixed.items() if flag not in varied}
    return {
        "experiment": name,
        "title": experiment.title,
        "base": experiment.bert,
        "settings of all trials": in_words(fixed) or "the defaults",
        "data": in_words(_data(places)) or "those of the tasks",
    }


def _data(places: Places) -> dict[str, Any]:
    """Returns the files of one's own by what is in them, and how they are read."""
    return {
        flag: _named(value) if flag.endswith("_file") else value
        for flag, value in sorted(places.values.items())
        if flag not in _NO_DATA
    }


def _named(path: str) -> str:
    return f"{os.path.basename(path)} (SHA-256 {file_digest(path)[:16]})"


def study_name(identity: Mapping[str, str]) -> str:
    """Returns the name under which a storage keeps the trials: others' may be in it, too."""
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:8]
    return f"{identity['experiment']}-{digest}"


def refuse_other(folder: str, identity: Mapping[str, str]) -> None:
    """Refuses a folder that has the trials of another experiment."""
    if not exists(os.path.join(folder, ABOUT)):
        return
    kept = read(folder)
    for name, value in identity.items():
        if kept.get(name, value) != value:
            raise UserError(
                f"--output_dir={folder}: has trials of another experiment, whose {name} is "
                f"{kept[name]}, not {value}; give another folder"
            )


def collect(identity: Mapping[str, str], program: str, arguments: Sequence[str]) -> dict[str, Any]:
    """Returns the experiment, the command, the machine and the commit."""
    return {
        **identity,
        "command": without_password(shlex.join(["python", "-m", program, *arguments])),
        "machine": f"{_processor()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "commit": _commit(),
    }


def without_password(text: str) -> str:
    """Returns a text whose URLs have no passwords."""
    return _PASSWORD.sub(r"\1:***@", text)


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
