"""The output directory of a run: what it was asked, how far it is, what came of it."""

import json
import os
from typing import Any

from adapter_bert_tf.errors import UserError, file_error
from adapter_bert_tf.files import read_json_object, write_atomically

_SETTINGS, _HISTORY, _RESULTS = "settings.json", "history.json", "eval_results.json"
_CHECKPOINTS = "checkpoints"


class RunFolder:
    """Files of a run, each written whole or not at all.

    Args:
      path: The folder; it is made when something is written.
      worker: Number of this process among several workers. They do the same, but only the
        first one's files are the run's; the others write to a folder of their own in it.
    """

    def __init__(self, path: str, worker: int = 0):
        self.saved_checkpoints = os.path.join(path, _CHECKPOINTS)
        self.path = os.path.join(path, f".worker-{worker}") if worker else path

    def file(self, name: str) -> str:
        """The path of a file in the folder."""
        return os.path.join(self.path, name)

    @property
    def pack(self) -> str:
        """The folder of the task pack."""
        return self.file("pack")

    @property
    def checkpoints(self) -> str:
        """The folder of the checkpoints that a run goes on from."""
        return self.file(_CHECKPOINTS)

    def claim(self, settings: dict[str, Any]) -> None:
        """Notes what the run was asked."""
        self.write_json(_SETTINGS, settings)

    def asked(self) -> dict[str, Any]:
        """What the run was asked; nothing before `claim`."""
        path = self.file(_SETTINGS)
        return read_json_object(path) if os.path.exists(path) else {}

    def refuse_other(self, settings: dict[str, Any]) -> None:
        """Refuses the folder of a run that was asked something else."""
        before = self.asked()
        if not before:
            return
        now = json.loads(json.dumps(settings))
        for name in sorted(before.keys() | now.keys()):
            if before.get(name) != now.get(name):
                raise UserError(
                    f"--output_dir={self.path}: belongs to a run with {name}={before.get(name)}, "
                    f"not {now.get(name)}; give another folder"
                )

    def history(self) -> list[dict[str, float]]:
        """The training loss and the metrics of each epoch so far."""
        path = self.file(_HISTORY)
        return read_json_object(path)["epochs"] if os.path.exists(path) else []

    def write_history(self, epochs: list[dict[str, float]]) -> None:
        """Replaces the history."""
        self.write_json(_HISTORY, {"epochs": epochs})

    def results(self) -> dict[str, Any]:
        """What was found out so far: metrics, and, once training is over, its steps."""
        path = self.file(_RESULTS)
        return read_json_object(path) if os.path.exists(path) else {}

    def write_results(self, results: dict[str, Any]) -> None:
        """Writes `eval_results.json`, and the metrics as the original's `eval_results.txt`."""
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

    def write_json(self, name: str, value: dict[str, Any]) -> None:
        """Writes a JSON file."""
        self.write(name, json.dumps(value, indent=2) + "\n")
