"""What an adapter is: the choices of the paper, with the original's defaults."""

import dataclasses
import numbers
from typing import Any

from adapter_bert_tf.encoder.activations import get_activation
from adapter_bert_tf.errors import UserError

ATTENTION = "attention"
FEED_FORWARD = "feed_forward"
SITES = (ATTENTION, FEED_FORWARD)


@dataclasses.dataclass(frozen=True)
class AdapterConfig:
    """The design of an encoder's adapters.

    Args:
      size: Width of the bottleneck.
      activation: Non-linearity of the bottleneck; "gelu" is the tanh form.
      init_scale: Standard deviation of the kernels at the start. The original code has
        1e-3, the paper's text 1e-2; above that, training degrades.
      sites: Sub-layers that are followed by an adapter: "attention", "feed_forward".
      layers: Transformer layers (from 0) that get adapters; None for all of them.
      parallel: The bottleneck reads the sub-layer's input, instead of its output.
      layer_norm: A LayerNorm in front of the bottleneck.
      hidden_layers: Layers of width `size` in the bottleneck.
      multiplicative: The bottleneck scales the sub-layer's output, `y * (1 + f)`, instead
        of adding to it, `y + f`.

    Example:
      `AdapterConfig(size=64, layers=range(6, 12))` leaves the lower half of BERT-base as it is.
    """

    size: int = 64
    activation: str = "gelu"
    init_scale: float = 1e-3
    sites: tuple[str, ...] = SITES
    layers: tuple[int, ...] | None = None
    parallel: bool = False
    layer_norm: bool = False
    hidden_layers: int = 1
    multiplicative: bool = False

    def __post_init__(self):
        # In the order of SITES, whatever the order given; what is unknown is told below.
        order = (*SITES, *sorted(set(self.sites) - set(SITES)))
        object.__setattr__(self, "sites", tuple(site for site in order if site in self.sites))
        if self.layers is not None:
            object.__setattr__(self, "layers", tuple(sorted({int(layer) for layer in self.layers})))
        self._check()

    def _check(self) -> None:
        for field in ("size", "hidden_layers"):
            value = getattr(self, field)
            if not isinstance(value, numbers.Integral) or value < 1:
                raise UserError(f"adapter {field} must be a whole number above 0, not {value!r}")
            object.__setattr__(self, field, int(value))
        if self.init_scale < 0:
            raise UserError(f"adapter init_scale must not be negative, not {self.init_scale!r}")
        if not self.sites or set(self.sites) - set(SITES):
            raise UserError(f"adapter sites must be among {', '.join(SITES)}, not {self.sites!r}")
        get_activation(self.activation)

    def in_layers(self, num_layers: int) -> tuple[int, ...]:
        """The layers with adapters, of an encoder with `num_layers` layers."""
        return tuple(range(num_layers)) if self.layers is None else self.layers

    def narrow_layers(self) -> list[str]:
        """The names of the layers of width `size`."""
        return ["down", *(f"hidden_{i}" for i in range(1, self.hidden_layers))]

    def variables(self) -> list[str]:
        """The names of an adapter's variables, below its own."""
        layers = [*self.narrow_layers(), "up"]
        names = [f"{layer}/{part}" for layer in layers for part in ("kernel", "bias")]
        return ["layer_norm/gamma", "layer_norm/beta", *names] if self.layer_norm else names

    def differences(self, other: "AdapterConfig", num_layers: int) -> list[str]:
        """The fields in which tuned adapters differ; how they started does not matter."""
        mine = dataclasses.replace(self, layers=self.in_layers(num_layers)).to_dict()
        theirs = dataclasses.replace(other, layers=other.in_layers(num_layers)).to_dict()
        return [name for name in mine if name != "init_scale" and mine[name] != theirs[name]]

    def to_dict(self) -> dict[str, Any]:
        """The configuration as JSON can hold it; `AdapterConfig(**config)` reads it back."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in dataclasses.asdict(self).items()
        }
