"""The folder of a run: what it was asked to do, how far it is, what came of it."""

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from adapter_bert_tf.errors import UserError, file_error
from adapter_bert_tf.files import read_json_object, write_atomically

_SETTINGS, _HISTORY, _RESULTS = "settings.json", "history.json", "eval_results.json"
_CHECKPOINTS = "checkpoints"


class RunFolder:
    """Files of a run, each complete or not there.

    Args:
      path: The folder; it is made when something is written.
      worker: Number of this process among several workers. All do the same, but only the first
        one's files are the run's. The others write to a folder of their own in it.
    """

    def __init__(self, path: str, worker: int = 0):
        self.saved_checkpoints = os.path.join(path, _CHECKPOINTS)
        self.path = os.path.join(path, f".worker-{worker}") if worker else path

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
        return self.file(_CHECKPOINTS)

    def claim(self, identity: Mapping[str, Any]) -> None:
        """Writes down what the run was asked to do."""
        self.write_json(_SETTINGS, identity)

    def asked(self) -> dict[str, Any]:
        """Returns what the run was asked to do; nothing before `claim`."""
        return self._read(_SETTINGS)

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
        return self._read(_HISTORY).get("epochs", [])

    def write_history(self, epochs: list[dict[str, dict[str, float]]]) -> None:
        """Replaces the history."""
        self.write_json(_HISTORY, {"epochs": epochs})

    def results(self) -> dict[str, Any]:
        """Returns the results so far: metrics and, once training is over, its steps."""
        return self._read(_RESULTS)

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
        """Writes a file."""
        try:
            os.makedirs(self.path, exist_ok=True)
            write_atomically(self.file(name), text.encode())
        except OSError as error:
            raise file_error(self.file(name), error) from None

    def write_json(self, name: str, value: Mapping[str, Any]) -> None:
        """Writes a JSON file."""
        self.write(name, json.dumps(value, indent=2) + "\n")

    def _read(self, name: str) -> dict[str, Any]:
        path = self.file(name)
        return read_json_object(path) if os.path.exists(path) else {}


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
