"""Reads BERTs from TensorFlow checkpoints, of TF1 and of TF2's Model Garden."""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import trackable_object_graph_pb2

from adapter_bert_tf.base.base import Base, Tensors
from adapter_bert_tf.base.config import BertConfig, config_from_shapes, read_google_config
from adapter_bert_tf.base.names import adapter_bert_names, model_garden_attributes, split_heads
from adapter_bert_tf.encoder.variables import is_adapter
from adapter_bert_tf.errors import UserError, first_line
from adapter_bert_tf.files import exists, list_folder, read_text, refuse_special
from adapter_bert_tf.text.tokenizer import read_vocabulary

# The checkpoint reader turns TensorFlow's error codes into various Python exceptions.
UNREADABLE = (tf.errors.OpError, ValueError, RuntimeError, LookupError, OSError)


def is_checkpoint(path: str) -> bool:
    """Whether `path` is the prefix of a TF checkpoint."""
    return exists(f"{path}.index")


class TfCheckpoint:
    """The tensors of a checkpoint by name. Raises `UserError` if one can't be read."""

    def __init__(self, prefix: str):
        self.prefix = prefix
        folder, name = os.path.split(prefix)
        for each in list_folder(folder or "."):
            if each.startswith((f"{name}.index", f"{name}.data-")):
                refuse_special(os.path.join(folder, each))
        try:
            # `tf.train.load_checkpoint` does not find every remote file.
            self._reader = tf.compat.v1.train.NewCheckpointReader(prefix)
        except UNREADABLE as error:
            reason = first_line(error)
            raise UserError(f"{prefix}: not a readable TF checkpoint: {reason}") from None
        self.shapes: dict[str, tuple[int, ...]] = {
            name: tuple(shape) for name, shape in self._reader.get_variable_to_shape_map().items()
        }

    def is_float(self, name: str) -> bool:
        """Whether there is a tensor called `name` that holds floats."""
        dtype = self._reader.get_variable_to_dtype_map().get(name)
        return dtype is not None and dtype.is_floating

    def read(self, name: str) -> np.ndarray:
        """Returns the tensor called `name`."""
        try:
            return self._reader.get_tensor(name)
        except UNREADABLE as error:
            raise UserError(f"{self.prefix}: can't read {name}: {first_line(error)}") from None


def write_checkpoint(prefix: str, tensors: Mapping[str, np.ndarray]) -> None:
    """Writes a TF1 checkpoint.

    It uses the op behind TF1's `Saver`, because `tf.train.Checkpoint` saves by object and not by
    name.
    """
    names = sorted(tensors)
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=[tensors[name] for name in names],
    )


_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"


def is_model_garden(checkpoint: TfCheckpoint) -> bool:
    """Whether a checkpoint was saved by object, as Model Garden does."""
    return _OBJECT_GRAPH in checkpoint.shapes


class ObjectGraph:
    """The objects that were saved: the attributes that lead from one to the next.

    Args:
      nodes: The messages that describe them, of a checkpoint or a SavedModel.
      origin: The file, for messages.
    """

    def __init__(self, nodes: Sequence[Any], origin: str):
        self.nodes = nodes
        self.children = [
            {child.local_name: child.node_id for child in node.children} for node in nodes
        ]
        if not all(0 <= n < len(nodes) for named in self.children for n in named.values()):
            raise UserError(f"{origin}: the graph of its objects is damaged")

    @classmethod
    def of(cls, checkpoint: TfCheckpoint) -> "ObjectGraph":
        """Reads the graph of a checkpoint that was saved by object."""
        graph = trackable_object_graph_pb2.TrackableObjectGraph()
        try:
            graph.ParseFromString(checkpoint.read(_OBJECT_GRAPH))
        except (DecodeError, TypeError):
            raise UserError(f"{checkpoint.prefix}: the graph of its objects is damaged") from None
        return cls(graph.nodes, checkpoint.prefix)

    def follow(self, node: int | None, path: str) -> int | None:
        """Returns the object that attributes lead to, or None."""
        for name in path.split("/"):
            node = None if node is None else self.children[node].get(name)
        return node

    def key(self, node: int) -> str | None:
        """Returns the name in the checkpoint of a variable, or None if it is none."""
        values = self.nodes[node].attributes
        return values[0].checkpoint_key if values else None


class ModelGardenCheckpoint:
    """The encoder in a Model Garden checkpoint, saved alone or as part of a larger model.

    Variables are found by following the graph of objects, because their names in the checkpoint
    differ: a pre-training model saves the word embeddings as its `embedding_table`.
    """

    def __init__(self, checkpoint: TfCheckpoint):
        self._checkpoint = checkpoint
        self._graph = ObjectGraph.of(checkpoint)
        encoders = [node for node in range(len(self._graph.nodes)) if self._is_encoder(node)]
        if not encoders:
            raise UserError(f"{checkpoint.prefix}: holds no BERT encoder of Model Garden")
        self._encoder = encoders[0]

    def _is_encoder(self, node: int) -> bool:
        first_layer = "_transformer_layers/0", "layer_with_weights-4"
        return any(
            self._graph.follow(node, f"{layer}/_intermediate_dense/kernel") is not None
            for layer in first_layer
        )

    @property
    def num_layers(self) -> int:
        """Number of Transformer layers."""
        layers = self._graph.children[self._encoder].get("_transformer_layers", self._encoder)
        return sum(
            self._graph.follow(layer, "_intermediate_dense") is not None
            for name, layer in self._graph.children[layers].items()
            if name.isdigit() or name.startswith("layer_with_weights-")
        )

    def keys(self) -> dict[str, str]:
        """Returns the name in the checkpoint of each variable of the encoder, by our path.

        A variable that we have no path for keeps its name.
        """
        paths = {}
        for attributes, path in model_garden_attributes(self.num_layers).items():
            node = self._graph.follow(self._encoder, attributes)
            key = None if node is None else self._graph.key(node)
            if key is not None:
                paths[path] = key
        known = set(paths.values())
        return paths | {key: key for key in self._keys_below(self._encoder) if key not in known}

    def _keys_below(self, start: int) -> Iterator[str]:
        seen, waiting = set(), [start]
        while waiting:
            node = waiting.pop()
            if node not in seen:
                seen.add(node)
                waiting += self._graph.children[node].values()
                yield from (value.checkpoint_key for value in self._graph.nodes[node].attributes)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Returns the shapes of the encoder's variables by our path."""
        shapes = self._checkpoint.shapes
        return {path: shapes[key] for path, key in self.keys().items() if key in shapes}

    def read(self) -> Tensors:
        """Yields the encoder's variables by our path."""
        for path, key in self.keys().items():
            yield path, self._checkpoint.read(key)


# Pre-training heads, the classifier of run_classifier.py, and variables of optimizers.
_NOT_THE_ENCODER = re.compile(
    r"^(cls/.*|output_weights|output_bias|classifier/.*|global_step|beta[12]_power|"
    r"loss_scale.*|good_steps|bad_steps|(.*/)?(adam|lamb)_[mv]|(.*/)?Adam(_1)?)$"
)


# In the file `checkpoint`, which `tf.train.latest_checkpoint` reads whatever it is.
_NOTED = re.compile(r'^model_checkpoint_path: "(.*)"\r?$', re.MULTILINE)
_MOST_OF_NOTE = 2**20


def find_checkpoint(folder: str) -> str | None:
    """Returns the prefix of the folder's checkpoint. Among several, prefers `bert_model.ckpt`."""
    indexes = [name for name in list_folder(folder) if name.endswith(".index")]
    prefixes = [os.path.join(folder, name.removesuffix(".index")) for name in indexes]
    preferred = os.path.join(folder, "bert_model.ckpt")
    if preferred in prefixes:
        return preferred
    if len(prefixes) > 1:
        latest = _latest(folder)
        if latest in prefixes:
            return latest
        names = ", ".join(os.path.basename(prefix) for prefix in prefixes)
        raise UserError(
            f"{folder}: several checkpoints ({names}); give one of them, such as {prefixes[0]}"
        )
    return prefixes[0] if prefixes else None


def _latest(folder: str) -> str | None:
    """Returns the prefix that TensorFlow's own note in the folder names, if there is one."""
    path = os.path.join(folder, "checkpoint")
    found = _NOTED.search(read_text(path, _MOST_OF_NOTE)) if exists(path) else None
    return os.path.join(folder, found[1]) if found else None


def has_checkpoint(bert: str) -> bool:
    """Whether `bert` is the prefix of a checkpoint, or a folder with one."""
    return is_checkpoint(bert) or find_checkpoint(bert) is not None


def read_checkpoint_base(
    bert: str,
    config_file: str | None = None,
    vocab_file: str | None = None,
    lower_case: bool | None = None,
) -> Base:
    """Opens a checkpoint, given by its prefix or folder.

    The configuration and the vocabulary are those in its folder unless others are given.
    """
    prefix = bert if is_checkpoint(bert) else find_checkpoint(bert) or bert
    config_file = config_file or _beside(prefix, "bert_config.json")
    vocab_file = vocab_file or _beside(prefix, "vocab.txt")
    checkpoint = TfCheckpoint(prefix)
    if is_model_garden(checkpoint):
        encoder = ModelGardenCheckpoint(checkpoint)
        config = (
            read_google_config(config_file)
            if config_file
            else config_from_shapes(encoder.shapes(), prefix)
        )
        read = encoder.read
    elif config_file is None:
        raise UserError(f"{prefix}: expected bert_config.json beside it")
    else:
        config = read_google_config(config_file)
        read = _reader(checkpoint, config)
    vocabulary = read_vocabulary(vocab_file, lower_case) if vocab_file else None
    if vocabulary:
        vocabulary.check_size(config.vocab_size, vocab_file or prefix)
    return Base(prefix, config, vocabulary, read)


def _beside(prefix: str, name: str) -> str | None:
    path = os.path.join(os.path.dirname(prefix), name)
    return path if exists(path) else None


def _reader(checkpoint: TfCheckpoint, config: BertConfig) -> Callable[[], Tensors]:
    def read() -> Tensors:
        # The files may have been replaced since the checkpoint was opened.
        opened = TfCheckpoint(checkpoint.prefix)
        paths = adapter_bert_names(config.num_layers)
        for name in sorted(opened.shapes):
            if _NOT_THE_ENCODER.match(name):
                continue
            path = paths.get(name, name)
            array = opened.read(name)
            if is_adapter(path) and path.endswith("/bias"):
                array = array.reshape(-1)  # The original program saves them as [1, size].
            yield path, split_heads(path, array, config.num_attention_heads)

    return read
