"""PyTorch models in ONNX Runtime, with the options that are fastest here."""

import os
import warnings

import numpy as np
import onnxruntime
import torch

_INPUTS = ("input_ids", "attention_mask", "token_type_ids")


class _Probabilities(torch.nn.Module):
    """A model whose only output are the probabilities."""

    def __init__(self, model: torch.nn.Module):
        super().__init__()
        self._model = model

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self._model(**dict(zip(_INPUTS, inputs, strict=True))).logits.softmax(-1)


def export(model: torch.nn.Module, path: str) -> None:
    """Writes a classifier as an ONNX file, for batches of any size."""
    ids = torch.randint(1000, 2000, (2, 32))
    axes = {name: {0: "rows", 1: "tokens"} for name in _INPUTS}
    # Operations of version 20 have a GELU. In earlier ones it is many small operations, and ONNX
    # Runtime takes 4 % longer. Its tool that optimizes such files made none of them faster.
    warnings.simplefilter("ignore")  # About every shape that it takes as constant.
    torch.onnx.export(
        _Probabilities(model.eval()),
        (ids, torch.ones_like(ids), torch.zeros_like(ids)),
        path,
        input_names=list(_INPUTS),
        output_names=["probabilities"],
        dynamic_axes=axes,
        opset_version=20,
        dynamo=False,
    )


def load(path: str) -> onnxruntime.InferenceSession:
    """Loads an ONNX file, with all optimizations and a thread for each core, as ours has."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.intra_op_num_threads = len(os.sched_getaffinity(0))
    # Its threads wait actively. They must not do so while others have their turn.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def run(session: onnxruntime.InferenceSession, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """Returns the probabilities of a tokenizer's inputs."""
    return session.run(None, {name: inputs[name] for name in _INPUTS})[0]
