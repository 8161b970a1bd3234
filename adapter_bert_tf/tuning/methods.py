"""Tuning methods: which variables are trained."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from adapter_bert_tf import options
from adapter_bert_tf.checks import whole
from adapter_bert_tf.encoder.adapter import MOST_LAYERS
from adapter_bert_tf.encoder.variables import is_adapter, is_layer_norm, layer_of
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.options import option

if TYPE_CHECKING:
    import tensorflow as tf


class Method(NamedTuple):
    """A tuning method.

    Attributes:
      trains: Whether it trains the variable of the encoder at a path; is given the path, the
        tuning's options and the number of layers.
      learning_rate: A rate that suits it. Adapters want larger steps than full fine-tuning.
    """

    trains: Callable[[str, Tuning, int], bool]
    learning_rate: float


def _trains_adapters(path: str, tuning: Tuning, layers: int) -> bool:
    trained = is_adapter(path) or (tuning.layer_norms and is_layer_norm(path))
    return trained and _is_above(path, tuning.from_layer)


def _trains_layer_norms(path: str, tuning: Tuning, layers: int) -> bool:
    return is_layer_norm(path) and _is_above(path, tuning.from_layer)


def _trains_top(path: str, tuning: Tuning, layers: int) -> bool:
    layer = layer_of(path)
    is_top = layer is not None and layer >= layers - tuning.k
    return is_top or path.startswith("pooler_transform/")


def _is_above(path: str, first: int) -> bool:
    """Whether a variable is in the layer `first` or above it; all are above 0."""
    layer = layer_of(path)
    return not first or (layer is not None and layer >= first)


METHODS: dict[str, Method] = {
    # The adapters and the LayerNorms of the base.
    "adapters": Method(_trains_adapters, 3e-4),
    # Everything.
    "full": Method(lambda *_: True, 5e-5),
    # The top k Transformer layers and the pooler above them.
    "top_k": Method(_trains_top, 5e-5),
    # The LayerNorms of the base.
    "layer_norm": Method(_trains_layer_norms, 3e-3),
    # Nothing but the head.
    "head": Method(lambda *_: False, 3e-3),
}


@dataclasses.dataclass(frozen=True)
class Tuning:
    """A tuning method with its options. Every method trains the head.

    Example:
      `Tuning("top_k", k=3)`
    """

    method: str = option(
        "adapters", "What is trained besides the head.", flag="tuning", choices=METHODS
    )
    k: int = option(
        1,
        "Number of layers that --tuning=top_k trains.",
        flag="top_k",
        limits=whole(1, MOST_LAYERS),
    )
    layer_norms: bool = option(
        True, "Train the LayerNorms beside the adapters.", aliases=("train_layer_norms",)
    )
    from_layer: int = option(
        0,
        "Train no adapters and LayerNorms below this layer; the backward pass ends there. By "
        "default it is the lowest of --adapter_layers.",
        aliases=("train_from_layer",),
        limits=whole(0, MOST_LAYERS),
    )
    adapter_drop: int = option(
        0,
        "Let the adapters and LayerNorms of the lowest layers fall back to the base, in each step "
        "of up to so many layers: the task then stays good without them.",
        limits=whole(0, MOST_LAYERS),
    )

    def __post_init__(self):
        options.check_fields(self, "tuning")
        if self.adapter_drop and self.method != "adapters":
            raise UserError(f"--adapter_drop: --tuning={self.method} has no adapters")

    def check(self, num_layers: int, has_adapters: bool) -> None:
        """Refuses a method that does not fit an encoder."""
        if self.method == "adapters" and not has_adapters:
            raise UserError("tuning method 'adapters' needs an encoder with adapters")
        for name, value in (
            ("k", self.k),
            ("from_layer", self.from_layer + 1),
            ("adapter_drop", self.adapter_drop + 1),
        ):
            if value > num_layers:
                raise UserError(f"tuning {name} is beyond the {num_layers} layers of the encoder")

    @property
    def learning_rate(self) -> float:
        """A learning rate that suits the method."""
        return METHODS[self.method].learning_rate

    def trained(self, paths: Iterable[str]) -> set[str]:
        """Returns those of a model's `paths` that are trained."""
        paths = list(paths)
        layers = 1 + max((layer_of(path) or 0 for path in paths), default=0)
        trains = METHODS[self.method].trains
        return {path for path in paths if path.startswith("head/") or trains(path, self, layers)}

    def count(self, variables: Mapping[str, tf.Variable]) -> tuple[int, int]:
        """Returns the number of trained parameters, and of all."""
        sizes = {path: variable.shape.num_elements() for path, variable in variables.items()}
        return sum(sizes[path] for path in self.trained(sizes)), sum(sizes.values())

    def describe(self, variables: Mapping[str, tf.Variable]) -> str:
        """Says in one line what is trained: method, number, share."""
        trained, total = self.count(variables)
        share = trained / total
        return f"{self.method}: {trained:,} of {total:,} parameters are trained ({share:.2%})"

    def to_dict(self) -> dict[str, Any]:
        """Returns the method as JSON can hold it; `Tuning(**it)` reads it back."""
        return options.in_json(self)
