"""The folder of a run: what it was asked to do, how far it is, what came of it."""

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from adapter_bert_tf.checks import ANY_OBJECT, NUMBER, each, fields, maybe, named, text, whole
from adapter_bert_tf.errors import UserError, file_error
from adapter_bert_tf.files import (
    exists,
    is_folder,
    is_remote,
    lock,
    make_folders,
    read_json_object,
    remove_leftovers,
    write_atomically,
)

_SETTINGS, _HISTORY, _RESULTS = "settings.json", "history.json", "eval_results.json"


def _check_metric(value: Any, where: str) -> Any:
    # One that is not finite says something about a model, not about the file.
    return value if isinstance(value, float) else NUMBER(value, where)


_METRICS = named(_check_metric)
_EPOCHS = each(fields({"train": _METRICS, "dev": _METRICS}, {}, closed=False))
_check_history = fields({}, {"epochs": _EPOCHS}, closed=False)
# Evaluations alone have no steps.
_check_results = fields(
    {"metrics": _METRICS},
    {
        "task": maybe(text),
        "epochs": _EPOCHS,
        "steps": whole(0, 2**63),
        "seconds": NUMBER,
        "settings": ANY_OBJECT,
    },
    closed=False,
)
_check_settings = fields({}, {"digests": ANY_OBJECT}, closed=False)


class RunFolder:
    """Files of a run, each complete or not there.

    As a context manager, it belongs to this process alone: it is locked, and what a process that
    was killed had begun to write is removed. Remote folders have no locks.

    Args:
      path: The folder; it is made when something is written.
      worker: Number of this process among several workers, which share the folder. Only the first
        one writes.
    """

    def __init__(self, path: str, worker: int = 0):
        self.path = path
        self.is_written = worker == 0
        self._is_owned = False
        self._lock: int | None = None

    def __enter__(self) -> "RunFolder":
        self._is_owned = self.is_written
        self._take()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_owned = False
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _take(self) -> None:
        """Locks the folder, if it is there, is to be ours and is not yet."""
        if not self._is_owned or self._lock is not None or not is_folder(self.path):
            return
        if not is_remote(self.path):
            try:
                self._lock = lock(self.path)
            except BlockingIOError:
                raise UserError(
                    f"--output_dir={self.path}: another process is at work on this run; wait for "
                    "it, or give another folder"
                ) from None
            except OSError:
                return  # Some network file systems have no locks.
        for folder in (self.path, self.pack):
            remove_leftovers(folder)

    def file(self, name: str) -> str:
        """Returns the path of a file in the folder."""
        return os.path.join(self.path, name)

    @property
    def pack(self) -> str:
        """The folder of the task pack."""
        return self.file("pack")

    @property
    def imported_pack(self) -> str:
        """The folder of the task pack that was made of a checkpoint of the original program."""
        return self.file("imported_pack")

    @property
    def checkpoints(self) -> str:
        """The folder of the checkpoints that a run is resumed from."""
        return self.file("checkpoints")

    def claim(self, identity: Mapping[str, Any]) -> None:
        """Writes down what the run was asked to do."""
        self.write_json(_SETTINGS, identity)

    def asked(self) -> dict[str, Any]:
        """Returns what the run was asked to do; nothing before `claim`."""
        return _check_settings(self._read(_SETTINGS), f"{self.file(_SETTINGS)}:")

    def refuse_other(self, identity: Mapping[str, Any]) -> None:
        """Refuses the folder of a run that was asked to do something else.

        Settings that only one of the two has come from another version of this package, which
        does not make it another run.
        """
        before, now = self.asked(), json.loads(json.dumps(identity))
        digests = [each.pop("digests", {}) for each in (before, now)]
        differences = list(_differences(before, now))
        if differences:
            # Single values say more in a line than a whole dictionary does.
            name, old, new = min(differences, key=lambda each: isinstance(each[1], dict))
            raise UserError(
                f"--output_dir={self.path}: belongs to a run with {name}={old}, not {new}; "
                "give another folder"
            )
        for name, _, _ in _differences(*digests):
            raise UserError(
                f"--output_dir={self.path}: belongs to a run with another {name}: a file has "
                "changed since, or the flags select other rows; give another folder"
            )

    def history(self) -> list[dict[str, dict[str, float]]]:
        """Returns what each epoch so far reached: `{"train": metrics, "dev": metrics}`."""
        history = _check_history(self._read(_HISTORY), f"{self.file(_HISTORY)}:")
        return history.get("epochs", [])

    def write_history(self, epochs: list[dict[str, dict[str, float]]]) -> None:
        """Replaces the history."""
        self.write_json(_HISTORY, {"epochs": epochs})

    def results(self) -> dict[str, Any]:
        """Returns the results so far: metrics and, once training is over, its steps."""
        results = self._read(_RESULTS)
        return _check_results(results, f"{self.file(_RESULTS)}:") if results else {}

    def write_results(self, results: Mapping[str, Any]) -> None:
        """Writes `eval_results.json`, and the metrics as the original's `eval_results.txt`.

        The results of a run that was trained stay. What an evaluation alone finds in its folder
        goes to `evaluation.json`.
        """
        if "steps" in self.results() and "steps" not in results:
            self.write_json("evaluation.json", results)
            return
        lines = [f"{name} = {value}\n" for name, value in sorted(results["metrics"].items())]
        self.write("eval_results.txt", "".join(lines))
        self.write_json(_RESULTS, results)

    def write(self, name: str, text: str) -> None:
        """Writes a file; only the first worker does."""
        if not self.is_written:
            return
        try:
            make_folders(self.path)
            self._take()
            write_atomically(self.file(name), text.encode())
        except OSError as error:
            raise file_error(self.file(name), error) from None

    def write_json(self, name: str, value: Mapping[str, Any]) -> None:
        """Writes a JSON file."""
        self.write(name, json.dumps(value, indent=2) + "\n")

    def _read(self, name: str) -> dict[str, Any]:
        path = self.file(name)
        return read_json_object(path) if exists(path) else {}


def _differences(
    before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """Yields the name and both values of each setting that both have and that differs."""
    for name in sorted(before.keys() & now.keys()):
        old, new = before[name], now[name]
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _differences(old, new, f"{prefix}{name}.")
        elif old != new:
            yield f"{prefix}{name}", old, new
