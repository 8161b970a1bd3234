"""A task pack on disk.

A pack is a folder. `pack.json` describes the task, the adapters, the head and the base that
they were tuned on. It names the file with the tuned variables, `weights-<digest>.safetensors`,
by its content: replacing `pack.json` is all that replacing a pack takes, and it is atomic.
"""

import dataclasses
import glob
import hashlib
import json
import os
from typing import Any

import numpy as np
import safetensors.numpy

from adapter_bert_tf.encoder.adapter_config import AdapterConfig
from adapter_bert_tf.errors import UserError, file_error, first_line
from adapter_bert_tf.files import read_json_object, write_atomically
from adapter_bert_tf.heads.kinds import make_head
from adapter_bert_tf.tuning.methods import Tuning

FORMAT = 1
DESCRIPTION = "pack.json"

_TYPES = {
    "base": dict,
    "adapter": dict | None,
    "tuning": dict,
    "head": dict,
    "task": str | None,
    "labels": list,
    "metrics": dict,
    "vocabulary": dict | None,
    "inputs": dict,
    "variables": list,
    "weights": str,
    "sha256": str,
}


@dataclasses.dataclass(frozen=True)
class Pack:
    """The description of a task pack.

    Args:
      base: Fingerprints and origin of the base.
      adapter: The adapters' design, or None.
      tuning: What was trained.
      head: Kind and settings of the head.
      task: Name of the task, if it has one.
      labels: Names of the classes, in the order of the logits.
      metrics: Values that the pack reached.
      vocabulary: Size, digest and lower-casing of the base's vocabulary, if it had one.
      inputs: How texts became inputs: `max_seq_length`, whether they come in pairs, and what
        else serving has to do alike.
      variables: Paths of the variables that it brings.
      weights: Name of the file with their values.
      sha256: Digest of that file.
    """

    base: dict[str, str]
    adapter: AdapterConfig | None
    tuning: Tuning
    head: dict[str, Any]
    task: str | None
    labels: list[str]
    metrics: dict[str, float]
    vocabulary: dict[str, Any] | None
    inputs: dict[str, Any]
    variables: list[str]
    weights: str
    sha256: str

    def to_json(self) -> bytes:
        """The content of `pack.json`."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        fields["adapter"] = self.adapter and self.adapter.to_dict()
        fields["tuning"] = self.tuning.to_dict()
        return json.dumps({"format": FORMAT, **fields}, indent=2).encode() + b"\n"

    def make_head(self):
        """Returns a new head of the pack's kind."""
        return make_head(self.head.get("kind"), self.head.get("settings"))


def read_pack(folder: str | os.PathLike) -> Pack:
    """Reads and checks a pack's description."""
    path = os.path.join(folder, DESCRIPTION)
    return parse_pack(read_json_object(path), path)


def parse_pack(raw: dict[str, Any], path: str) -> Pack:
    """Checks a description that was read from `path`."""
    if raw.pop("format", None) != FORMAT:
        raise UserError(f"{path}: not a task pack of format {FORMAT}")
    raw.setdefault("inputs", {})  # Packs from before it was kept.
    names = {field.name for field in dataclasses.fields(Pack)}
    if raw.keys() != names:
        odd = ", ".join(sorted(raw.keys() ^ names))
        raise UserError(f"{path}: missing or unknown fields: {odd}")
    for name, kind in _TYPES.items():
        if not isinstance(raw[name], kind):
            raise UserError(f"{path}: {name} is of the wrong type: {raw[name]!r}")
    try:
        raw["adapter"] = raw["adapter"] and AdapterConfig(**raw["adapter"])
        raw["tuning"] = Tuning(**raw["tuning"])
        pack = Pack(**raw)
        pack.make_head()
    except (TypeError, ValueError) as error:
        raise UserError(f"{path}: {first_line(error)}") from None
    if os.path.basename(pack.weights) != pack.weights or "\0" in pack.weights:
        raise UserError(f"{path}: weights must be a file in the same folder, not {pack.weights!r}")
    return pack


def write_pack(folder: str | os.PathLike, pack: Pack, tensors: dict[str, np.ndarray]) -> None:
    """Writes a pack, over an older one if there is one."""
    folder = os.fspath(folder)
    content = safetensors.numpy.save(tensors)
    digest = hashlib.sha256(content).hexdigest()
    pack = dataclasses.replace(
        pack,
        variables=sorted(tensors),
        weights=f"weights-{digest[:16]}.safetensors",
        sha256=digest,
    )
    try:
        os.makedirs(folder, exist_ok=True)
        write_atomically(os.path.join(folder, pack.weights), content)
        write_atomically(os.path.join(folder, DESCRIPTION), pack.to_json())
    except OSError as error:
        raise file_error(folder, error) from None
    for stale in glob.glob(os.path.join(glob.escape(folder), "weights-*.safetensors")):
        if os.path.basename(stale) != pack.weights:
            os.unlink(stale)


def read_tensors(folder: str | os.PathLike, pack: Pack) -> dict[str, np.ndarray]:
    """Reads a pack's variables; a file that was cut or changed is refused."""
    path = os.path.join(folder, pack.weights)
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise file_error(path, error) from None
    if hashlib.sha256(content).hexdigest() != pack.sha256:
        raise UserError(f"{path}: cut short or changed: its digest is not that of {DESCRIPTION}")
    try:
        return safetensors.numpy.load(content)
    except (safetensors.SafetensorError, KeyError) as error:
        raise UserError(f"{path}: not a readable safetensors file: {error}") from None
