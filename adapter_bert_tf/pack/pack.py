"""A task pack on disk.

A pack is a folder. `pack.json` describes the task, the adapters, the head and the base that they
were tuned on. The tuned variables are in `weights-<digest>.safetensors`, which is named after its
content. So a pack is replaced by replacing `pack.json`, which is atomic.
"""

from __future__ import annotations

import dataclasses
import glob
import hashlib
import json
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import safetensors.numpy

from adapter_bert_tf.encoder.adapter import AdapterConfig
from adapter_bert_tf.errors import UserError, file_error, first_line
from adapter_bert_tf.files import read_json_object, write_atomically
from adapter_bert_tf.heads.kinds import NO_HEAD, make_head
from adapter_bert_tf.tuning.methods import Tuning

if TYPE_CHECKING:
    from adapter_bert_tf.heads.head import Head

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
    "baseline": dict | None,
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
      metrics: Metrics that the pack reached.
      vocabulary: Size, digest and lower-casing of the base's vocabulary, if it had one.
      inputs: How texts became inputs: `max_seq_length`, whether they come in pairs, and whatever
        else has to be the same when the pack is used.
      variables: Paths of the variables that it brings.
      weights: Name of the file with their values.
      sha256: Digest of that file.
      baseline: The design of a baseline without BERT. Its base is a text module.
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
    baseline: dict[str, Any] | None = None

    def to_json(self) -> bytes:
        """The content of `pack.json`."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        fields["adapter"] = self.adapter and self.adapter.to_dict()
        fields["tuning"] = self.tuning.to_dict()
        if self.baseline is None:
            del fields["baseline"]
        return json.dumps({"format": FORMAT, **fields}, indent=2).encode() + b"\n"

    def make_head(self) -> Head:
        """Returns a new head of the pack's kind."""
        return make_head(self.head.get("kind"), self.head.get("settings"))

    @property
    def kind(self) -> str:
        """The kind of the head."""
        return self.head["kind"]

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes; numbers where the pack has no names."""
        classes = self.head["settings"].get("classes", 0)
        return tuple(self.labels) or tuple(str(number) for number in range(classes))


def read_pack(folder: str | os.PathLike) -> Pack:
    """Reads and checks a pack's description."""
    path = os.path.join(folder, DESCRIPTION)
    return parse_pack(read_json_object(path), path)


def refuse_no_head(pack: Pack, folder: str | os.PathLike) -> None:
    """Refuses a pack that can't answer, because it only has adapters."""
    if pack.kind == NO_HEAD:
        raise UserError(f"{folder}: has no head; tune one on it with --pack={folder}")


def refuse_baseline(pack: Pack, folder: str | os.PathLike) -> None:
    """Refuses a baseline, where a pack is needed that belongs to a BERT."""
    if pack.baseline is not None:
        raise UserError(f"{folder}: a baseline without BERT, not what was tuned of one")


def read_description(folder: str | os.PathLike) -> Pack:
    """Reads a pack's description without TensorFlow, so its head is not checked."""
    path = os.path.join(folder, DESCRIPTION)
    return parse_description(read_json_object(path), path)


def parse_pack(raw: dict[str, Any], path: str) -> Pack:
    """Checks a description that was read from `path`."""
    pack = parse_description(raw, path)
    try:
        pack.make_head()
    except (TypeError, ValueError) as error:
        raise UserError(f"{path}: {first_line(error)}") from None
    return pack


def parse_description(raw: dict[str, Any], path: str) -> Pack:
    """Checks a description, except for its head, which takes TensorFlow."""
    if raw.pop("format", None) != FORMAT:
        raise UserError(f"{path}: not a task pack of format {FORMAT}")
    raw.setdefault("inputs", {})  # Older packs don't have it.
    raw.setdefault("baseline", None)
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
    except (TypeError, ValueError) as error:
        raise UserError(f"{path}: {first_line(error)}") from None
    if not isinstance(pack.head.get("kind"), str) or not isinstance(
        pack.head.get("settings"), dict
    ):
        raise UserError(f"{path}: head is not a kind with settings: {pack.head!r}")
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


def read_shapes(folder: str | os.PathLike, pack: Pack) -> dict[str, list[int]]:
    """Returns the shapes of the variables that a pack holds, without reading their values."""
    path = os.path.join(folder, pack.weights)
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            return {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
    except (OSError, safetensors.SafetensorError) as error:
        raise UserError(f"{path}: {first_line(error)}") from None


def read_tensors(folder: str | os.PathLike, pack: Pack) -> dict[str, np.ndarray]:
    """Reads a pack's variables; refuses a file that was cut short or changed."""
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
