"""The tiny BERT in NumPy, with whatever stands behind its sub-layers: written from the papers."""

from collections.abc import Callable, Mapping

import numpy as np
from scipy.special import softmax

from tests import tiny

EPSILON = 1e-12

Array = np.ndarray
# From layer, site, the sub-layer's output, its input, and the LayerNorm behind it, to the output.
Adapt = Callable[[int, str, Array, Array, Callable[[Array], Array]], Array]


def gelu_tanh(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def layer_norm(x: Array, gamma: Array, beta: Array, epsilon: float = EPSILON) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon) * gamma + beta


def unchanged(layer, site, output, source, norm) -> Array:
    return output


def encode(inputs: Mapping[str, Array], adapt: Adapt = unchanged, seed: int = 0) -> Array:
    """Returns the outputs of all tokens, `[rows, length, width]`, in float64."""
    tensors = {
        name.removeprefix("bert/"): array.astype(np.float64)
        for name, array in tiny.google_tensors(seed).items()
    }

    def dense(x: Array, name: str) -> Array:
        return x @ tensors[f"{name}/kernel"] + tensors[f"{name}/bias"]

    def norm_at(name: str) -> Callable[[Array], Array]:
        gamma, beta = (tensors[f"{name}/LayerNorm/{part}"] for part in ("gamma", "beta"))
        return lambda x: layer_norm(x, gamma, beta)

    ids, mask, segments = (inputs[f"input_{name}"] for name in ("word_ids", "mask", "type_ids"))
    rows, length = ids.shape
    x = tensors["embeddings/word_embeddings"][ids]
    x = x + tensors["embeddings/position_embeddings"][:length]
    x = x + tensors["embeddings/token_type_embeddings"][segments]
    x = norm_at("embeddings")(x)
    for layer in range(tiny.LAYERS):
        name = f"encoder/layer_{layer}"
        query, key, value = (
            dense(x, f"{name}/attention/self/{part}")
            .reshape(rows, length, tiny.HEADS, -1)
            .transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 1, 3, 2) / np.sqrt(tiny.WIDTH // tiny.HEADS)
        scores = softmax(scores + -1e9 * (1 - mask[:, None, None]), axis=-1)
        attended = (scores @ value).transpose(0, 2, 1, 3).reshape(rows, length, tiny.WIDTH)
        output = dense(attended, f"{name}/attention/output/dense")
        norm = norm_at(f"{name}/attention/output")
        x = norm(x + adapt(layer, "attention", output, x, norm))
        inner = gelu_tanh(dense(x, f"{name}/intermediate/dense"))
        output, norm = dense(inner, f"{name}/output/dense"), norm_at(f"{name}/output")
        x = norm(x + adapt(layer, "feed_forward", output, x, norm))
    return x


def pool(tokens: Array, seed: int = 0) -> Array:
    """Returns the pooler's output, `[rows, width]`."""
    tensors = tiny.google_tensors(seed)
    kernel, bias = (tensors[f"bert/pooler/dense/{part}"] for part in ("kernel", "bias"))
    return np.tanh(tokens[:, 0] @ kernel.astype(np.float64) + bias)
