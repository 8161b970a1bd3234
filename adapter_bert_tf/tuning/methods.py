"""Tuning methods: which variables are trained."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from adapter_bert_tf.encoder.variables import is_adapter, is_layer_norm, layer_of
from adapter_bert_tf.errors import UserError

METHODS = ("adapters", "full", "top_k", "layer_norm", "head")


@dataclasses.dataclass(frozen=True)
class Tuning:
    """A tuning method; the head is trained by all of them.

    Args:
      method: What is trained besides the head.
        `adapters`: the adapters and the LayerNorms of the base.
        `full`: everything.
        `top_k`: the top `k` Transformer layers and the pooler above them.
        `layer_norm`: the LayerNorms.
        `head`: nothing else.
      k: Number of layers for `top_k`.
      layer_norms: Whether `adapters` trains the LayerNorms too.
      from_layer: For `adapters` and `layer_norm`: nothing below this Transformer layer is
        trained, so the backward pass ends there.
    """

    method: str = "adapters"
    k: int = 1
    layer_norms: bool = True
    from_layer: int = 0

    def __post_init__(self):
        if self.method not in METHODS:
            raise UserError(
                f"tuning method {self.method!r} is unknown; known are {', '.join(METHODS)}"
            )
        if self.k < 1 or self.from_layer < 0:
            raise UserError("k must be above 0, and from_layer not below 0")

    def check(self, num_layers: int, has_adapters: bool) -> None:
        """Refuses a method that does not fit an encoder."""
        if self.method == "adapters" and not has_adapters:
            raise UserError("tuning method 'adapters' needs an encoder with adapters")
        for name, value in (("k", self.k), ("from_layer", self.from_layer + 1)):
            if value > num_layers:
                raise UserError(f"tuning {name} is beyond the {num_layers} layers of the encoder")

    def trained(self, paths: Iterable[str]) -> set[str]:
        """Returns those of a model's `paths` that are trained."""
        paths = list(paths)
        top = 1 + max((layer_of(path) or 0 for path in paths), default=0)
        return {path for path in paths if path.startswith("head/") or self._in_base(path, top)}

    def _in_base(self, path: str, layers: int) -> bool:
        layer = layer_of(path)
        if self.method == "full":
            return True
        if self.method == "top_k":
            in_top = layer is not None and layer >= layers - self.k
            return in_top or path.startswith("pooler_transform/")
        if self.from_layer and (layer is None or layer < self.from_layer):
            return False
        if self.method == "adapters":
            return is_adapter(path) or (self.layer_norms and is_layer_norm(path))
        return self.method == "layer_norm" and is_layer_norm(path)

    def count(self, variables: Mapping[str, tf.Variable]) -> tuple[int, int]:
        """Returns the number of trained parameters, and of all."""
        sizes = {path: variable.shape.num_elements() for path, variable in variables.items()}
        return sum(sizes[path] for path in self.trained(sizes)), sum(sizes.values())

    def describe(self, variables: Mapping[str, tf.Variable]) -> str:
        """Says in one line what is trained: method, count, share."""
        trained, total = self.count(variables)
        share = trained / total
        return f"{self.method}: {trained:,} of {total:,} parameters are trained ({share:.2%})"

    def to_dict(self) -> dict[str, Any]:
        """The method as JSON can hold it; `Tuning(**config)` reads it back."""
        return dataclasses.asdict(self)
