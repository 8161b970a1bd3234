"""Which operations an export may use."""

import os

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from adapter_bert_tf.errors import UserError, some

# TF Serving's binaries link tf-text's `ops_lib`, which has had these two since before 2.12.
# Others of tf-text came later (RoundRobinTrimmer's in 2.20) or are not in it.
TEXT_OPS = frozenset({"NormalizeUTF8", "FastWordpieceTokenizeWithOffsets"})

# What came to TensorFlow between 2.12.1 and 2.20, besides operations of TPUs and datasets.
_NEWER_OPS = frozenset(
    {
        "CheckPinned",
        "Conv",
        "DebugIdentityV3",
        "DecodeWebP",
        "DumpTensor",
        "FFTND",
        "IFFTND",
        "IRFFTND",
        "RFFTND",
        "RaggedFillEmptyRows",
        "RaggedFillEmptyRowsGrad",
        "SegmentMaxV2",
        "SegmentMinV2",
        "StochasticCastToInt",
        "XlaLaunchV2",
    }
)


def ops_of(folder: str) -> set[str]:
    """The kinds of operations in a SavedModel, those of its functions included."""
    model = saved_model_pb2.SavedModel()
    with open(os.path.join(folder, "saved_model.pb"), "rb") as file:
        model.ParseFromString(file.read())
    found = set()
    for graph in (meta_graph.graph_def for meta_graph in model.meta_graphs):
        found |= {node.op for node in graph.node}
        found |= {node.op for function in graph.library.function for node in function.node_def}
    return found


def check_ops(ops: set[str]) -> None:
    """Refuses what TF Serving's binaries from 2.12 on do not know."""
    foreign = {op for op in ops if not hasattr(tf.raw_ops, op)} - TEXT_OPS
    unknown = foreign | (ops & _NEWER_OPS)
    if unknown:
        raise UserError(f"the graph has operations that TF Serving may lack: {some(unknown)}")
