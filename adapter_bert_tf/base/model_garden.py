"""Checkpoints that Model Garden's TF2 programs save, by object."""

from collections.abc import Iterator

from tensorflow.core.protobuf import trackable_object_graph_pb2

from adapter_bert_tf.base.base import Tensors
from adapter_bert_tf.base.names import model_garden_attributes
from adapter_bert_tf.base.tf_checkpoint import TfCheckpoint
from adapter_bert_tf.errors import UserError

_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"


def is_model_garden(checkpoint: TfCheckpoint) -> bool:
    """Whether a checkpoint was saved by object."""
    return _OBJECT_GRAPH in checkpoint.shapes


class ModelGardenCheckpoint:
    """The encoder in a checkpoint, be it saved alone or inside of a larger model.

    The graph of objects is followed, as a name in the checkpoint is only one of the ways to
    a variable: a pre-training model's word embeddings are saved as its `embedding_table`.
    """

    def __init__(self, checkpoint: TfCheckpoint):
        self._checkpoint = checkpoint
        graph = trackable_object_graph_pb2.TrackableObjectGraph()
        graph.ParseFromString(checkpoint.read(_OBJECT_GRAPH))
        self._nodes = graph.nodes
        self._children = [
            {child.local_name: child.node_id for child in node.children} for node in graph.nodes
        ]
        encoders = [node for node in range(len(self._nodes)) if self._is_encoder(node)]
        if not encoders:
            raise UserError(f"{checkpoint.prefix}: holds no BERT encoder of Model Garden")
        self._encoder = encoders[0]

    def _is_encoder(self, node: int) -> bool:
        first_layer = "_transformer_layers/0", "layer_with_weights-4"
        return any(
            self._follow(node, f"{layer}/_intermediate_dense/kernel") is not None
            for layer in first_layer
        )

    def _follow(self, node: int | None, path: str) -> int | None:
        for name in path.split("/"):
            node = None if node is None else self._children[node].get(name)
        return node

    @property
    def num_layers(self) -> int:
        """Number of Transformer layers."""
        layers = self._children[self._encoder].get("_transformer_layers", self._encoder)
        return sum(
            self._follow(layer, "_intermediate_dense") is not None
            for name, layer in self._children[layers].items()
            if name.isdigit() or name.startswith("layer_with_weights-")
        )

    def keys(self) -> dict[str, str]:
        """Our path -> the name in the checkpoint, for each variable of the encoder.

        A variable that we have no path for keeps its name.
        """
        paths = {}
        for attributes, path in model_garden_attributes(self.num_layers).items():
            node = self._follow(self._encoder, attributes)
            if node is not None and self._nodes[node].attributes:
                paths[path] = self._nodes[node].attributes[0].checkpoint_key
        known = set(paths.values())
        return paths | {key: key for key in self._keys_below(self._encoder) if key not in known}

    def _keys_below(self, start: int) -> Iterator[str]:
        seen, waiting = set(), [start]
        while waiting:
            node = waiting.pop()
            if node not in seen:
                seen.add(node)
                waiting += self._children[node].values()
                yield from (value.checkpoint_key for value in self._nodes[node].attributes)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the encoder's variables."""
        return {path: self._checkpoint.shapes[key] for path, key in self.keys().items()}

    def read(self) -> Tensors:
        """Yields the encoder's variables by our path."""
        for path, key in self.keys().items():
            yield path, self._checkpoint.read(key)
