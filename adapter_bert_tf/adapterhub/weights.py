"""From the tensors of an AdapterHub adapter to our variables, and back."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from adapter_bert_tf.adapterhub.config import LEARNED, SITE_FIELDS
from adapter_bert_tf.adapterhub.files import Tensors
from adapter_bert_tf.encoder.adapter import ATTENTION, AdapterConfig
from adapter_bert_tf.errors import UserError, some

# How older versions of the library called `adapters`.
_OLD = re.compile(r"(attention|layer)_text_(task|lang)_adapters")
_INVERTIBLE = re.compile(r"(^|\.)invertible(_lang)?_adapters\.")
# How wide a Compacter's bottleneck may be for the width of BERT: the few numbers that it keeps
# become a large kernel, and must not take all of the memory.
_WIDEST = 4


def place_of(layer: int, site: str, name: str) -> str:
    """Returns what the names of an adapter's tensors begin with."""
    part = "attention.output" if site == ATTENTION else "output"
    return f"encoder.layer.{layer}.{part}.adapters.{name}."


def has_invertible(tensors: Mapping[str, np.ndarray]) -> bool:
    """Whether there is an invertible adapter among the tensors."""
    return any(_INVERTIBLE.search(name) for name in tensors)


class HubWeights:
    """The adapters in the tensors of a file.

    Args:
      tensors: The tensors by name.
      name: The adapter's name.
      fields: Its configuration, from `resolve`.
      width: Width of the encoder.
      num_layers: Number of its layers.
    """

    def __init__(
        self, tensors: Tensors, name: str, fields: Mapping[str, Any], width: int, num_layers: int
    ):
        self._tensors: Tensors = {}
        for old, tensor in tensors.items():
            new = _OLD.sub("adapters", old).removeprefix("bert.")
            if new in self._tensors:
                raise UserError(f"holds {new} twice")
            self._tensors[new] = tensor
        self._name, self._fields, self._width = name, fields, width
        self._used: set[str] = set()
        self.layers = tuple(i for i in range(num_layers) if i not in fields["leave_out"])
        sites = [site for field, site in SITE_FIELDS.items() if fields[field]]
        self._adapters = {
            (layer, site): self._adapter(place_of(layer, site, name))
            for layer in self.layers
            for site in sites
        }
        left = self._tensors.keys() - self._used
        if left:
            raise UserError(f"tensors that nothing is known of: {some(left)}")

    @property
    def size(self) -> int:
        """Width of the widest bottleneck."""
        return max((each["up/kernel"].shape[0] for each in self._adapters.values()), default=1)

    def variables(self) -> Iterator[tuple[str, np.ndarray]]:
        """Yields the values of our variables by path; all bottlenecks get the same width.

        Units that a bottleneck does not have are zeros: they add nothing.
        """
        size = self.size
        for (layer, site), values in self._adapters.items():
            more = size - values["up/kernel"].shape[0]
            room = {"down/kernel": [(0, 0), (0, more)], "up/kernel": [(0, more), (0, 0)]}
            room["down/bias"] = [(0, more)]
            for name, value in values.items():
                path = f"transformer/layer_{layer}/{site}_adapter/{name}"
                yield path, np.pad(value, room.get(name, [(0, 0)] * value.ndim))

    def _adapter(self, place: str) -> Tensors:
        found: Tensors = {}
        down = f"{place}adapter_down.0"
        if self._fields["ln_before"]:
            norm = f"{place}adapter_norm_before"
            # The same two tensors are also stored as the first part of the way down.
            copies = self._take(f"{down}.weight"), self._take(f"{down}.bias")
            gamma, beta = (self._find(f"{norm}.{part}") for part in ("weight", "bias"))
            found["layer_norm/gamma"] = copies[0] if gamma is None else gamma
            found["layer_norm/beta"] = copies[1] if beta is None else beta
            down = f"{place}adapter_down.1"
        up = f"{place}adapter_up"
        found["down/kernel"], found["down/bias"] = self._dense(down, "down")
        found["up/kernel"], found["up/bias"] = self._dense(up, "up")
        self._check_shapes(found, place)
        if self._fields["scaling"] in LEARNED:
            scaling = self._take(f"{place}scaling")
            if scaling.shape not in ((1,), (self._width,)):
                raise UserError(f"{place}scaling is {list(scaling.shape)}, expected a number")
            found["up/kernel"] = found["up/kernel"] * scaling
            found["up/bias"] = found["up/bias"] * scaling
        return found

    def _dense(self, place: str, way: str) -> tuple[np.ndarray, np.ndarray]:
        """Returns kernel and bias of a layer."""
        if not self._fields["phm_layer"]:
            return self._take(f"{place}.weight").T, self._take(f"{place}.bias")
        kernel = self._phm_kernel(place, way)
        bias = self._find(f"{place}.b")
        return kernel, np.zeros(kernel.shape[-1:], np.float32) if bias is None else bias

    def _phm_kernel(self, place: str, way: str) -> np.ndarray:
        """Expands a sum of Kronecker products, which is how Compacter keeps its kernels."""
        shared = f"shared_parameters.{self._name}."
        rules = self._product([f"{place}.phm_rule", f"{shared}phm_rule"])
        parts = self._product([f"{place}.W", f"{shared}W_{way}"])
        rows, columns = (rules.shape[i] * parts.shape[i] for i in (1, 2))
        wide, narrow = (rows, columns) if way == "down" else (columns, rows)
        if len(rules) != len(parts) or wide != self._width or narrow > _WIDEST * self._width:
            raise UserError(
                f"{place} has {list(rules.shape)} rules for {list(parts.shape)} parts, "
                f"the base wants a kernel for its width of {self._width}"
            )
        return np.einsum("nab,ncd->acbd", rules, parts, optimize=True).reshape(rows, columns)

    def _product(self, names: list[str]) -> np.ndarray:
        """Returns the matrices under one of the names, or the products of their two factors."""
        for name in names:
            if name in self._tensors:
                return self._matrices(name)
            if f"{name}_left" in self._tensors:
                left, right = (self._matrices(f"{name}_{side}") for side in ("left", "right"))
                elements = left.shape[0] * left.shape[1] * right.shape[2]
                most = max(_WIDEST * self._width**2, 1 << 20)
                if left.shape[::2] != right.shape[:2] or elements > most:
                    raise UserError(f"{name} has factors {list(left.shape)}, {list(right.shape)}")
                return np.matmul(left, right)
        raise UserError(f"missing tensors: {names[0]}")

    def _matrices(self, name: str) -> np.ndarray:
        tensor = self._take(name)
        if tensor.ndim != 3:
            raise UserError(f"{name} is {list(tensor.shape)}, expected matrices")
        return tensor

    def _find(self, name: str) -> np.ndarray | None:
        return self._take(name) if name in self._tensors else None

    def _take(self, name: str) -> np.ndarray:
        if name not in self._tensors:
            raise UserError(f"missing tensors: {name}")
        self._used.add(name)
        return self._tensors[name]

    def _check_shapes(self, found: Tensors, place: str) -> None:
        kernel = found["down/kernel"]
        size = kernel.shape[-1] if kernel.ndim == 2 else 0
        config = AdapterConfig(size=max(size, 1), layer_norm=self._fields["ln_before"])
        for name, shape in config.shapes(self._width).items():
            if found[name].shape != shape:
                raise UserError(
                    f"{place}{name} is {list(found[name].shape)}, the base wants {list(shape)}"
                )


def to_tensors(variables: Mapping[str, np.ndarray], adapter: AdapterConfig, name: str) -> Tensors:
    """Returns the tensors of our adapters under their names in PyTorch.

    Args:
      variables: The values of our variables by path.
      adapter: The adapters' design.
      name: The adapter's name.
    """
    found: Tensors = {}
    for path, value in variables.items():
        match = re.fullmatch(r"transformer/layer_(\d+)/(\w+)_adapter/(.*)/(\w+)", path)
        if match is None:
            continue
        place = f"bert.{place_of(int(match[1]), match[2], name)}"
        part = "weight" if match[4] in ("kernel", "gamma") else "bias"
        tensor = np.ascontiguousarray(value.T)
        down = f"adapter_down.{int(adapter.layer_norm)}"
        for layer in {
            "layer_norm": ["adapter_norm_before", "adapter_down.0"],
            "down": [down],
            "up": ["adapter_up"],
        }[match[3]]:
            found[f"{place}{layer}.{part}"] = tensor
    return found
