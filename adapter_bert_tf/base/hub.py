"""Reads BERTs from TF-Hub and from SavedModels.

Loading a SavedModel would run its graph, which may do anything. So only its variables and the
graph of its objects are read, which are data.
"""

import dataclasses
import hashlib
import os
import re
import tarfile
import types
import warnings
import zlib
from collections.abc import Iterator

import numpy as np
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2

from adapter_bert_tf.base.base import Base, Tensors
from adapter_bert_tf.base.checkpoint import UNREADABLE, ObjectGraph, TfCheckpoint
from adapter_bert_tf.base.config import config_from_shapes
from adapter_bert_tf.errors import UserError, first_line
from adapter_bert_tf.files import all_files, exists, file_digest, read_bytes
from adapter_bert_tf.text.tokenizer import Vocabulary, read_vocabulary

_HANDLE = re.compile(r"^https?://")
# In newer exports of Model Garden, the name of the encoder comes before these.
_PATH = re.compile(
    r"((word|type)_embeddings|position_embedding|embeddings/layer_norm|transformer/layer_\d+"
    r"|pooler_transform)/.*"
)
_GRAPH, _VARIABLES, _ASSETS = "saved_model.pb", "variables/variables", "assets"
_MOST_OF_GRAPH = 2**28


def is_hub_model(bert: str) -> bool:
    """Whether `bert` is a TF-Hub handle or the folder of a SavedModel."""
    return bool(_HANDLE.match(bert)) or exists(os.path.join(bert, _GRAPH))


def read_hub_base(
    handle: str, vocab_file: str | None = None, lower_case: bool | None = None
) -> Base:
    """Opens a SavedModel of Model Garden's BERT encoder. A handle is downloaded and cached."""
    model = SavedEncoder(_fetch(handle) if _HANDLE.match(handle) else handle)
    config = config_from_shapes(model.shapes(), handle)
    vocabulary = model.vocabulary(vocab_file, lower_case)
    if vocabulary:
        vocabulary.check_size(config.vocab_size, vocab_file or handle)
    base = Base(handle, config, vocabulary, model.read)
    if _HANDLE.match(handle):
        base.fetched[handle] = folder_digest(model.folder)
    return base


def _fetch(handle: str) -> str:
    """Returns the folder that a handle was downloaded to."""
    try:
        return import_hub().resolve(handle)
    except (*UNREADABLE, tarfile.TarError, EOFError, zlib.error) as error:
        reason = first_line(error)
        raise UserError(f"{handle}: can't be loaded as a TF-Hub model: {reason}") from None


def import_hub() -> types.ModuleType:
    """Returns the library TF-Hub, which few need, without its warning about its own imports."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import tensorflow_hub
    return tensorflow_hub


def folder_digest(folder: str) -> str:
    """Returns the SHA-256 of a folder: of the names and contents of its files."""
    digest = hashlib.sha256()
    for path in sorted(all_files(folder)):
        digest.update(f"{os.path.relpath(path, folder)}\n{file_digest(path)}\n".encode())
    return digest.hexdigest()


@dataclasses.dataclass(frozen=True)
class _Variable:
    """Where a variable is, by its name in the graph of objects and in the checkpoint."""

    path: str
    key: str


class SavedEncoder:
    """The variables of a SavedModel, without its graph.

    Args:
      folder: The SavedModel's folder.
    """

    def __init__(self, folder: str):
        self.folder = folder
        path = os.path.join(folder, _GRAPH)
        model = saved_model_pb2.SavedModel()
        try:
            model.ParseFromString(read_bytes(path, _MOST_OF_GRAPH))
        except DecodeError:
            raise UserError(f"{path}: not a SavedModel") from None
        if not model.meta_graphs or not model.meta_graphs[0].object_graph_def.nodes:
            raise UserError(f"{path}: not a SavedModel of TF2, which has a graph of objects")
        self._meta = model.meta_graphs[0]
        self._checkpoint = TfCheckpoint(os.path.join(folder, _VARIABLES))
        self._saved = ObjectGraph(self._meta.object_graph_def.nodes, path)
        self._stored = ObjectGraph.of(self._checkpoint)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Returns the shapes of the encoder's variables by our path."""
        shapes = self._checkpoint.shapes
        return {each.path: shapes[each.key] for each in self._variables() if each.key in shapes}

    def read(self) -> Tensors:
        """Yields the encoder's variables by our path."""
        for each in self._variables():
            yield each.path, self._checkpoint.read(each.key)

    def vocabulary(self, vocab_file: str | None, lower_case: bool | None) -> Vocabulary | None:
        """Reads the vocabulary that is given, or else the model's own if it has one."""
        if vocab_file is None:
            vocab_file = self._asset("vocab_file")
        if lower_case is None:
            node = self._stored.follow(0, "do_lower_case")
            key = None if node is None else self._stored.key(node)
            lower_case = None if key is None else bool(np.all(self._checkpoint.read(key)))
        return read_vocabulary(vocab_file, lower_case) if vocab_file else None

    def _asset(self, attribute: str) -> str | None:
        """Returns the path of a file that belongs to the model."""
        node = self._saved.follow(0, attribute)
        if node is None or self._saved.nodes[node].WhichOneof("kind") != "asset":
            return None
        number = self._saved.nodes[node].asset.asset_file_def_index
        if not 0 <= number < len(self._meta.asset_file_def):
            raise UserError(f"{self.folder}: its {attribute} is not there")
        name = os.path.basename(self._meta.asset_file_def[number].filename)
        return os.path.join(self.folder, _ASSETS, name)

    def _variables(self) -> Iterator[_Variable]:
        """Yields what the model itself lists as its variables, but for those that are not floats.

        Both graphs are followed from there, as they may number their nodes differently.
        """
        saved, stored = self._saved.follow(0, "variables"), self._stored.follow(0, "variables")
        if saved is None or stored is None:
            raise UserError(f"{self.folder}: holds no variables of a BERT of Model Garden")
        keys = {name: self._stored.key(n) for name, n in self._stored.children[stored].items()}
        for number, node in self._saved.children[saved].items():
            name, key = self._saved.nodes[node].variable.name, keys.get(number)
            if key is not None and self._checkpoint.is_float(key):
                match = _PATH.search(name)
                yield _Variable(match.group() if match else name or key, key)
