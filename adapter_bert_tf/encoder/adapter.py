"""The bottleneck adapter (Houlsby et al., ICML 2019, figure 2): its design and its arithmetic.

Everything about adapters is in this file. A new design is a new field of `AdapterConfig`, and what
follows from it for `shapes` and `adapt`. Flags, the Keras layer, task packs and exports follow by
themselves. TensorFlow is imported only where it computes, so that flags are read without it.
"""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from adapter_bert_tf import options
from adapter_bert_tf.encoder.activations import Activation, get_activation
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.options import option

if TYPE_CHECKING:
    import tensorflow as tf

ATTENTION = "attention"
FEED_FORWARD = "feed_forward"
SITES = (ATTENTION, FEED_FORWARD)

_INNER_EPSILON = 1e-12


@dataclasses.dataclass(frozen=True)
class AdapterConfig:
    """The design of an encoder's adapters. The defaults are the original program's.

    The metadata `differs` marks fields in which tasks that share one export may differ.

    Example:
      `AdapterConfig(size=64, layers=range(6, 12))` leaves the lower half of BERT-base as it is.
    """

    size: int = option(64, "Width of the bottleneck.", differs=True)
    activation: str = option("gelu", "Non-linearity of the bottleneck; gelu is the tanh form.")
    init_scale: float = option(
        1e-3,
        "Standard deviation of new kernels. The paper says 1e-2; above that training degrades.",
        differs=True,
    )
    sites: tuple[str, ...] = option(
        SITES, "Sub-layers with an adapter: attention, feed_forward or both.", differs=True
    )
    layers: tuple[int, ...] | None = option(
        None, "Transformer layers with adapters, counted from 0; by default all.", differs=True
    )
    parallel: bool = option(False, "The bottleneck reads the sub-layer's input, not its output.")
    layer_norm: bool = option(False, "Put a LayerNorm in front of the bottleneck.")
    hidden_layers: int = option(1, "Number of layers of the bottleneck's width.")
    multiplicative: bool = option(False, "Scale the sub-layer's output instead of adding to it.")

    def __post_init__(self):
        for field in ("size", "hidden_layers"):
            value = getattr(self, field)
            if not isinstance(value, numbers.Integral) or value < 1:
                raise UserError(f"adapter {field} must be a whole number above 0, not {value!r}")
            object.__setattr__(self, field, int(value))
        if not self.init_scale >= 0:
            raise UserError(f"adapter init_scale must not be negative, not {self.init_scale!r}")
        if not self.sites or set(self.sites) - set(SITES):
            raise UserError(f"adapter sites must be among {', '.join(SITES)}, not {self.sites!r}")
        # In one order, so that equal designs are equal.
        object.__setattr__(self, "sites", tuple(site for site in SITES if site in self.sites))
        if self.layers is not None:
            object.__setattr__(self, "layers", tuple(sorted({int(layer) for layer in self.layers})))
        get_activation(self.activation)

    def in_layers(self, num_layers: int) -> tuple[int, ...]:
        """Returns the layers with adapters in an encoder with `num_layers` layers."""
        return tuple(range(num_layers)) if self.layers is None else self.layers

    def narrow_layers(self) -> list[str]:
        """Returns the names of the layers of width `size`."""
        return ["down", *(f"hidden_{i}" for i in range(1, self.hidden_layers))]

    def shapes(self, width: int, size: int | None = None) -> dict[str, tuple[int, ...]]:
        """Returns the shapes of an adapter's variables by name.

        Args:
          width: Width of the encoder.
          size: Width of the bottleneck, by default the configured one. An adapter of size 0 with
            a bias of 0 adds nothing: so exports serve tasks without an adapter at some site.
        """
        size = self.size if size is None else size
        names = [*self.narrow_layers(), "up"]
        widths = [width, *[size] * self.hidden_layers, width]
        shapes: dict[str, tuple[int, ...]] = {}
        if self.layer_norm:
            shapes |= {"layer_norm/gamma": (width,), "layer_norm/beta": (width,)}
        for name, inputs, outputs in zip(names, widths, widths[1:], strict=False):
            shapes |= {f"{name}/kernel": (inputs, outputs), f"{name}/bias": (outputs,)}
        return shapes

    def differences(self, other: AdapterConfig, num_layers: int) -> list[str]:
        """Returns the fields in which tuned adapters differ; their start does not matter."""
        mine, theirs = (
            dataclasses.replace(each, layers=each.in_layers(num_layers), init_scale=0.0)
            for each in (self, other)
        )
        names = (field.name for field in dataclasses.fields(self))
        return [name for name in names if getattr(mine, name) != getattr(theirs, name)]

    def to_dict(self) -> dict[str, Any]:
        """Returns the configuration as JSON can hold it; `AdapterConfig(**it)` reads it back."""
        return options.in_json(self)


def adapt(
    config: AdapterConfig,
    output: tf.Tensor,
    source: tf.Tensor | None,
    weights: Mapping[str, tf.Tensor],
    activate: Activation | None = None,
) -> tf.Tensor:
    """Computes what an adapter makes of a sub-layer's output.

    Args:
      config: The adapter's design.
      output: The sub-layer's output, `[tokens, width]`.
      source: The sub-layer's input, for a parallel adapter.
      weights: The adapter's variables by the names of `AdapterConfig.shapes`.
      activate: A faster form of the configured activation.
    """
    import tensorflow as tf

    from adapter_bert_tf.encoder.arithmetic import dense, layer_norm

    activate = activate or get_activation(config.activation)
    x = output if not config.parallel else source
    if config.layer_norm:
        # In front of the bottleneck: behind it, it would scale the small start up to 1.
        gamma, beta = weights["layer_norm/gamma"], weights["layer_norm/beta"]
        normal = layer_norm(tf.cast(x, tf.float32), gamma, beta, _INNER_EPSILON)
        x = tf.cast(normal, output.dtype)
    for layer in config.narrow_layers():
        x = activate(dense(x, weights[f"{layer}/kernel"], weights[f"{layer}/bias"]))
    update = dense(x, weights["up/kernel"], weights["up/bias"])
    return output * (1 + update) if config.multiplicative else output + update
