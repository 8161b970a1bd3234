"""A task pack on disk.

A pack is a folder. `pack.json` describes the task, the adapters, the head and the base that they
were tuned on. The tuned variables are in `weights-<digest>.safetensors`, which is named after its
content. So a pack is replaced by replacing `pack.json`, which is atomic.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import hashlib
import json
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import safetensors.numpy

from adapter_bert_tf import options
from adapter_bert_tf.base.config import MOST_WORDS
from adapter_bert_tf.checks import (
    ANY_OBJECT,
    MOST_NAMES,
    NUMBER,
    Check,
    anything,
    boolean,
    digest,
    each,
    fields,
    file_name,
    maybe,
    named,
    text,
    whole,
)
from adapter_bert_tf.data.labels import MOST_CLASSES
from adapter_bert_tf.encoder.adapter import AdapterConfig
from adapter_bert_tf.errors import UserError, file_error, first_line, some
from adapter_bert_tf.files import (
    list_folder,
    local_copy,
    make_folders,
    read_bytes,
    read_json_object,
    refuse_special,
    remove,
    write_atomically,
)
from adapter_bert_tf.heads.kinds import NO_HEAD, check_head, make_head
from adapter_bert_tf.tuning.methods import Tuning

if TYPE_CHECKING:
    from adapter_bert_tf.heads.head import Head

FORMAT = 1
DESCRIPTION = "pack.json"
# Full fine-tuning of the largest BERT that we know is 5 GB.
_MOST_OF_WEIGHTS = 2**34

# How texts become inputs. What else a pack keeps there is for whoever put it there.
TOKENS, N_BEST = whole(1, 65_536), whole(1, 10_000)
_INPUTS: dict[str, Check] = {
    "max_seq_length": TOKENS,
    "pair": boolean,
    "doc_stride": TOKENS,
    "max_query_length": TOKENS,
    "n_best_size": N_BEST,
    "max_answer_length": TOKENS,
    "with_negative": boolean,
    "null_threshold": NUMBER,
}
_check_pack = fields(
    {
        "format": anything,
        "base": fields(
            # A baseline's base is a text module, which has no LayerNorms.
            {"origin": text, "fingerprint": digest},
            {"layer_norm_fingerprint": digest},
        ),
        "adapter": maybe(ANY_OBJECT),
        "tuning": ANY_OBJECT,
        "head": check_head,
        "task": maybe(text),
        "labels": each(text, different=True, most=MOST_CLASSES),
        "metrics": named(NUMBER),
        "vocabulary": maybe(
            fields({"size": whole(1, MOST_WORDS), "sha256": digest, "lower_case": boolean}, {})
        ),
        "variables": each(text, different=True, most=MOST_NAMES),
        "weights": file_name,
        "sha256": digest,
    },
    # Older packs have no inputs, and only baselines have a baseline's design.
    {"inputs": fields({}, _INPUTS, closed=False), "baseline": maybe(ANY_OBJECT)},
)


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


def parse_pack(raw: dict[str, Any], path: str) -> Pack:
    """Checks a description that was read from `path`. Nothing of it needs TensorFlow."""
    if raw.get("format") != FORMAT:
        raise UserError(f"{path}: not a task pack of format {FORMAT}")
    values = {"inputs": {}, **_check_pack(raw, f"{path}:")}
    del values["format"]
    if values["adapter"] is not None:
        values["adapter"] = options.from_json(AdapterConfig, values["adapter"], f"{path}: adapter")
    values["tuning"] = options.from_json(Tuning, values["tuning"], f"{path}: tuning")
    pack = Pack(**values)
    if pack.baseline is None and "layer_norm_fingerprint" not in pack.base:
        raise UserError(f"{path}: base: expected a field 'layer_norm_fingerprint'")
    classes = pack.head["settings"].get("classes", 0)
    if pack.labels and len(pack.labels) != classes:
        raise UserError(f"{path}: {len(pack.labels)} labels, but {classes} classes")
    return pack


def write_pack(folder: str | os.PathLike, pack: Pack, tensors: dict[str, np.ndarray]) -> None:
    """Writes a pack, over an older one if there is one; refuses one that could not be read."""
    folder = os.fspath(folder)
    _refuse_not_finite(tensors, folder)
    content = safetensors.numpy.save(tensors)
    sha256 = hashlib.sha256(content).hexdigest()
    pack = dataclasses.replace(
        pack,
        variables=sorted(tensors),
        weights=f"weights-{sha256[:16]}.safetensors",
        sha256=sha256,
    )
    parse_pack(json.loads(pack.to_json()), folder)
    try:
        make_folders(folder)
        write_atomically(os.path.join(folder, pack.weights), content)
        write_atomically(os.path.join(folder, DESCRIPTION), pack.to_json())
    except OSError as error:
        raise file_error(folder, error) from None
    for name in fnmatch.filter(list_folder(folder), "weights-*.safetensors"):
        if name != pack.weights:
            remove(os.path.join(folder, name))


def read_shapes(folder: str | os.PathLike, pack: Pack) -> dict[str, list[int]]:
    """Returns the shapes of the variables that a pack holds, without reading their values."""
    path = os.path.join(folder, pack.weights)
    refuse_special(path)
    try:
        with local_copy(path) as local, safetensors.safe_open(local, framework="numpy") as file:
            return {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
    except (OSError, safetensors.SafetensorError) as error:
        raise UserError(f"{path}: {first_line(error)}") from None


def read_tensors(folder: str | os.PathLike, pack: Pack) -> dict[str, np.ndarray]:
    """Reads a pack's variables; refuses a file that was cut short or changed."""
    path = os.path.join(folder, pack.weights)
    content = read_bytes(path, _MOST_OF_WEIGHTS)
    if hashlib.sha256(content).hexdigest() != pack.sha256:
        raise UserError(f"{path}: cut short or changed: its digest is not that of {DESCRIPTION}")
    try:
        tensors = safetensors.numpy.load(content)
    except (safetensors.SafetensorError, KeyError, ValueError) as error:
        raise UserError(f"{path}: not a readable safetensors file: {first_line(error)}") from None
    _refuse_not_finite(tensors, path)
    return tensors


def _refuse_not_finite(tensors: dict[str, np.ndarray], path: str) -> None:
    odd = [name for name, array in tensors.items() if not np.isfinite(array).all()]
    if odd:
        raise UserError(f"{path}: some values are not finite: {some(odd)}")
