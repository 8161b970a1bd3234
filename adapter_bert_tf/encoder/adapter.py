"""The bottleneck adapter: its designs and its arithmetic.

`houlsby` is the paper's (ICML 2019, figure 2): it reads the sub-layer's output. `pfeiffer` reads
the LayerNorm that stands behind the sub-layer, of the output plus the sub-layer's input, and has
one site in a layer (Pfeiffer et al., 2021). `parallel` reads the sub-layer's input (He et al.,
2022).

Everything about adapters is in this file. A new design is a new field of `AdapterConfig`, and what
follows from it for `shapes` and `adapt`. Flags, the Keras layer, task packs and exports follow by
themselves. TensorFlow is imported only where it computes, so that flags are read without it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from adapter_bert_tf import options
from adapter_bert_tf.checks import SHARE, Range, boolean, one_of, whole
from adapter_bert_tf.encoder.activations import Activation, get_activation
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.options import option

if TYPE_CHECKING:
    import tensorflow as tf

ATTENTION = "attention"
FEED_FORWARD = "feed_forward"
SITES = (ATTENTION, FEED_FORWARD)

# More than any BERT has, so that a damaged file does not ask for all of the memory.
MOST_LAYERS = 1000
_MOST_PARAMETERS = 10_000_000

HOULSBY, PFEIFFER, PARALLEL = "houlsby", "pfeiffer", "parallel"


class _Design(NamedTuple):
    """What a design has where nothing else is said."""

    sites: tuple[str, ...] = SITES
    scaling: float = 1.0


DESIGNS = {
    HOULSBY: _Design(),
    PFEIFFER: _Design((FEED_FORWARD,)),
    PARALLEL: _Design((FEED_FORWARD,), 4.0),
}


@dataclasses.dataclass(frozen=True)
class AdapterConfig:
    """The design of an encoder's adapters. The defaults are the original program's.

    Attributes:
      epsilon: Epsilon of the LayerNorm in front of the bottleneck.

    Example:
      `AdapterConfig(size=64, layers=range(6, 12))` leaves the lower half of BERT-base as it is.
    """

    size: int = option(64, "Width of the bottleneck.", limits=whole(1, 8192))
    activation: str = option("gelu", "Non-linearity of the bottleneck; gelu is the tanh form.")
    init_scale: float = option(
        1e-3,
        "Standard deviation of new kernels. The paper says 1e-2; above that training degrades.",
        limits=Range(0, 1000),
    )
    sites: tuple[str, ...] = option(
        None, "Sub-layers with an adapter: attention, feed_forward or both, as the design says."
    )
    layers: tuple[int, ...] | None = option(
        None,
        "Transformer layers with adapters, counted from 0; by default all.",
        limits=whole(0, MOST_LAYERS - 1),
    )
    parallel: bool = option(False, "--adapter_design=parallel at both sites, without scaling.")
    layer_norm: bool = option(False, "Put a LayerNorm in front of the bottleneck.")
    hidden_layers: int = option(
        1, "Number of layers of the bottleneck's width.", limits=whole(1, 64)
    )
    multiplicative: bool = option(False, "Scale the sub-layer's output instead of adding to it.")
    design: str = option(
        HOULSBY, "What the bottleneck reads, and at which sites.", choices=tuple(DESIGNS)
    )
    scaling: float = option(
        None,
        "Factor of what the bottleneck adds; by default 1, in a parallel design 4.",
        limits=Range(-1e6, 1e6),
    )
    epsilon: float = 1e-12

    def __post_init__(self):
        self._resolve_design()
        options.check_fields(self, "adapter")
        SHARE(self.epsilon, "adapter epsilon")
        if (self.hidden_layers - 1) * self.size**2 > _MOST_PARAMETERS:
            raise UserError(
                f"adapter size {self.size} with hidden_layers {self.hidden_layers}: more than "
                f"{_MOST_PARAMETERS:,} parameters in one adapter"
            )
        if not self.sites or set(self.sites) - set(SITES):
            raise UserError(f"adapter sites must be among {', '.join(SITES)}, not {self.sites!r}")
        # In one order, so that equal designs are equal.
        object.__setattr__(self, "sites", tuple(site for site in SITES if site in self.sites))
        if self.layers is not None:
            object.__setattr__(self, "layers", tuple(sorted(set(self.layers))))
        get_activation(self.activation)

    def _resolve_design(self) -> None:
        """Fills in what follows from the design."""
        one_of(DESIGNS)(self.design, "adapter design")
        boolean(self.parallel, "adapter parallel")
        if self.parallel and self.design == PFEIFFER:
            raise UserError("adapter design pfeiffer is not parallel")
        default = DESIGNS[HOULSBY if self.parallel else self.design]
        is_parallel = self.parallel or self.design == PARALLEL
        resolved = {
            "design": PARALLEL if is_parallel else self.design,
            "parallel": is_parallel,
            "sites": default.sites if self.sites is None else self.sites,
            "scaling": default.scaling if self.scaling is None else self.scaling,
        }
        for field, value in resolved.items():
            object.__setattr__(self, field, value)

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

    def form(self) -> AdapterConfig:
        """Returns what is the same for all adapters that compute alike, whatever their shapes."""
        return dataclasses.replace(self, size=1, init_scale=0.0, sites=SITES, layers=None)

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


def change(
    config: AdapterConfig,
    output: tf.Tensor,
    source: tf.Tensor | None,
    weights: Mapping[str, tf.Tensor],
    activate: Activation | None = None,
    norm: Callable[[tf.Tensor], tf.Tensor] | None = None,
) -> tf.Tensor:
    """Computes what an adapter adds to a sub-layer's output.

    Args:
      config: The adapter's design.
      output: The sub-layer's output, `[tokens, width]`.
      source: The sub-layer's input, for designs that read it.
      weights: The adapter's variables by the names of `AdapterConfig.shapes`.
      activate: A faster form of the configured activation.
      norm: The LayerNorm behind the sub-layer, for the design that reads it.
    """
    import tensorflow as tf

    from adapter_bert_tf.encoder.arithmetic import dense, layer_norm

    activate = activate or get_activation(config.activation)
    x = source if config.parallel else output
    if config.design == PFEIFFER:
        x = tf.cast(norm(output + source), output.dtype)
    if config.layer_norm:
        # In front of the bottleneck: behind it, it would scale the small start up to 1.
        gamma, beta = weights["layer_norm/gamma"], weights["layer_norm/beta"]
        normal = layer_norm(tf.cast(x, tf.float32), gamma, beta, config.epsilon)
        x = tf.cast(normal, output.dtype)
    for layer in config.narrow_layers():
        x = activate(dense(x, weights[f"{layer}/kernel"], weights[f"{layer}/bias"]))
    update = dense(x, weights["up/kernel"], weights["up/bias"])
    if config.scaling != 1:
        update *= config.scaling
    return output * update if config.multiplicative else update
