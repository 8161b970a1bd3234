"""AdapterHub's files for the tiny BERT, made without PyTorch, and what they mean in NumPy.

Names, shapes and arithmetic are those that version 1.3.0 of `adapters` has: `peer_write.py` lets it
write its own, and `test_exchange.py` compares with those.
"""

import json
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import safetensors.numpy
from scipy.special import erf, expit

from tests import numpy_bert, tiny
from tests.torch_bytes import state_file

NAME = "task"
# What a bottleneck is if nothing else is said.
FIELDS: dict[str, Any] = {
    "adapter_residual_before_ln": False,
    "cross_adapter": False,
    "dropout": 0.0,
    "factorized_phm_W": True,
    "factorized_phm_rule": False,
    "hypercomplex_nonlinearity": "glorot-uniform",
    "init_weights": "bert",
    "init_weights_seed": None,
    "inv_adapter": None,
    "inv_adapter_reduction_factor": None,
    "is_parallel": False,
    "learn_phm": True,
    "leave_out": [],
    "ln_after": False,
    "ln_before": False,
    "mh_adapter": True,
    "non_linearity": "swish",
    "original_ln_after": True,
    "original_ln_before": False,
    "output_adapter": True,
    "phm_bias": True,
    "phm_c_init": "normal",
    "phm_dim": 4,
    "phm_init_range": 0.0001,
    "phm_layer": False,
    "phm_rank": 1,
    "reduction_factor": 4,
    "residual_before_ln": True,
    "scaling": 1.0,
    "shared_W_phm": False,
    "shared_phm_rule": True,
    "stochastic_depth": 0.0,
    "use_gating": False,
}
DOUBLE: dict[str, Any] = {}
SEQUENTIAL = {"mh_adapter": False, "original_ln_before": True, "non_linearity": "relu"}
PARALLEL = {"mh_adapter": False, "is_parallel": True, "non_linearity": "relu", "scaling": 4.0}
PHM = {"phm_layer": True, "non_linearity": "gelu"}

Tensors = dict[str, np.ndarray]

ACTIVATIONS = {
    "gelu": lambda x: 0.5 * x * (1 + erf(x / np.sqrt(2))),
    "gelu_new": numpy_bert.gelu_tanh,
    "gelu_10": lambda x: np.clip(0.5 * x * (1 + erf(x / np.sqrt(2))), -10, 10),
    "quick_gelu": lambda x: x * expit(1.702 * x),
    "relu": lambda x: np.maximum(x, 0),
    "relu2": lambda x: np.maximum(x, 0) ** 2,
    "relu6": lambda x: np.clip(x, 0, 6),
    "leakyrelu": lambda x: np.where(x > 0, x, 0.01 * x),
    "tanh": np.tanh,
    "sigmoid": expit,
    "swish": lambda x: x * expit(x),
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "laplace": lambda x: 0.5 * (1 + erf((x - 0.707107) / (0.282095 * np.sqrt(2)))),
    "linear": lambda x: x,
}


def config(name: str = NAME, **fields) -> dict[str, Any]:
    """The content of adapter_config.json."""
    return {"config": {**FIELDS, **fields}, **_common(name)}


def head_config(name: str = NAME, **fields) -> dict[str, Any]:
    """The content of head_config.json, for a classification unless the fields say otherwise."""
    given = {"head_type": "classification", "num_labels": 3, "layers": 2, "use_pooler": False}
    given |= {"activation_function": "tanh", "bias": True, "dropout_prob": None} | fields
    labels = {f"LABEL_{i}": i for i in range(min(given["num_labels"], 100))}
    return {"config": {"label2id": labels, **given}, **_common(name)}


def _common(name: str) -> dict[str, Any]:
    return {
        "hidden_size": tiny.WIDTH,
        "model_class": "BertAdapterModel",
        "model_name": "bert-base-uncased",
        "model_type": "bert",
        "name": name,
        "version": "adapters.1.3.0",
    }


def place(layer: int, site: str, name: str = NAME) -> str:
    part = {"attention": "attention.output", "feed_forward": "output"}[site]
    return f"bert.encoder.layer.{layer}.{part}.adapters.{name}."


def places(fields: Mapping[str, Any]) -> list[tuple[int, str]]:
    """The layers and sites with a bottleneck."""
    sites = {"attention": fields["mh_adapter"], "feed_forward": fields["output_adapter"]}
    return [
        (layer, site)
        for layer in range(tiny.LAYERS)
        for site, has in sites.items()
        if has and layer not in fields["leave_out"]
    ]


def size_in(fields: Mapping[str, Any], layer: int) -> int:
    factor = fields["reduction_factor"]
    if isinstance(factor, dict):
        factor = factor.get(str(layer), factor.get("default"))
    return max(1, int(tiny.WIDTH // factor))


def tensors(whole: Mapping[str, Any], seed: int = 0, width: int = tiny.WIDTH) -> Tensors:
    """Random tensors for the content of an adapter_config.json."""
    fields, name, random = whole["config"], whole["name"], np.random.default_rng(seed)
    found: Tensors = {}

    def new(key: str, *shape: int, mean: float = 0.0, scale: float = 0.3) -> None:
        found[key] = (mean + scale * random.normal(size=shape)).astype(np.float32)

    for layer, site in places(fields):
        stem, size = place(layer, site, name), size_in(fields, layer)
        down = "adapter_down.0"
        if fields["ln_before"]:
            new(f"{stem}adapter_norm_before.weight", width, mean=1.0)
            new(f"{stem}adapter_norm_before.bias", width)
            for part in ("weight", "bias"):
                found[f"{stem}{down}.{part}"] = found[f"{stem}adapter_norm_before.{part}"]
            down = "adapter_down.1"
        for key, inputs, outputs in ((down, width, size), ("adapter_up", size, width)):
            if fields["phm_layer"]:
                _new_phm(new, fields, f"{stem}{key}", name, inputs, outputs)
            else:
                new(f"{stem}{key}.weight", outputs, inputs)
                new(f"{stem}{key}.bias", outputs)
        if fields["scaling"] in ("learned", "channel"):
            new(f"{stem}scaling", 1 if fields["scaling"] == "learned" else width, mean=1.5)
    return found


def _new_phm(new, fields, key: str, name: str, inputs: int, outputs: int) -> None:
    count, rank = fields["phm_dim"], fields["phm_rank"]
    shared = f"bert.shared_parameters.{name}."
    rule = f"{shared}phm_rule" if fields["shared_phm_rule"] else f"{key}.phm_rule"
    if fields["factorized_phm_rule"]:
        new(f"{rule}_left", count, count, 1, scale=0.5)
        new(f"{rule}_right", count, 1, count, scale=0.5)
    else:
        new(rule, count, count, count, scale=0.5)
    way = "down" if ".adapter_down" in key else "up"
    parts = f"{shared}W_{way}" if fields["shared_W_phm"] else f"{key}.W"
    if fields["factorized_phm_W"]:
        new(f"{parts}_left", count, inputs // count, rank, scale=0.5)
        new(f"{parts}_right", count, rank, outputs // count, scale=0.5)
    else:
        new(parts, count, inputs // count, outputs // count, scale=0.5)
    if fields["phm_bias"]:
        new(f"{key}.b", outputs)


def head_tensors(whole: Mapping[str, Any], seed: int = 1) -> Tensors:
    """Random tensors for the content of a head_config.json."""
    fields, random = whole["config"], np.random.default_rng(seed)
    step = 2 if fields["activation_function"] is None else 3
    found: Tensors = {}
    for number in range(fields["layers"]):
        is_last = number == fields["layers"] - 1
        outputs = fields["num_labels"] if is_last else tiny.WIDTH
        stem = f"heads.{whole['name']}.{1 + step * number}"
        found[f"{stem}.weight"] = random.normal(size=[outputs, tiny.WIDTH], scale=0.3)
        if not is_last or fields.get("bias", True):
            found[f"{stem}.bias"] = random.normal(size=[outputs])
    return {key: array.astype(np.float32) for key, array in found.items()}


def write(
    folder: pathlib.Path,
    whole: Mapping[str, Any],
    adapter: Mapping[str, np.ndarray] | None = None,
    head: Mapping[str, Any] | None = None,
    of_head: Mapping[str, np.ndarray] | None = None,
    as_bin: bool = False,
) -> pathlib.Path:
    """Writes a folder as `save_adapter` does. Tensors that are not given are random."""
    folder.mkdir(parents=True, exist_ok=True)
    adapter = tensors(whole) if adapter is None else adapter
    _write(folder, "adapter_config.json", whole, ("adapter", "pytorch_adapter"), adapter, as_bin)
    if head is not None:
        of_head = head_tensors(head) if of_head is None else of_head
        names = ("model_head", "pytorch_model_head")
        _write(folder, "head_config.json", head, names, of_head, as_bin)
    return folder


def _write(folder, config_name, settings, names, arrays, as_bin) -> None:
    text = json.dumps(settings, indent=2, sort_keys=True)
    (folder / config_name).write_text(text)
    if as_bin:
        (folder / f"{names[1]}.bin").write_bytes(state_file(arrays))
    else:
        content = safetensors.numpy.save(dict(arrays), metadata={"format": "pt"})
        (folder / f"{names[0]}.safetensors").write_bytes(content)


def safetensors_file(name: str, data: bytes, **entry) -> bytes:
    """A safetensors file of one tensor, of which the header may say anything."""
    entry = {"dtype": "F32", "shape": [len(data) // 4], "data_offsets": [0, len(data)], **entry}
    header = json.dumps({name: entry}).encode()
    return len(header).to_bytes(8, "little") + header + data


def read(folder: pathlib.Path) -> tuple[dict, Tensors, dict | None, Tensors]:
    """What stands in a folder of safetensors files."""
    found: list = []
    for config_name, name in (("adapter_config", "adapter"), ("head_config", "model_head")):
        path = folder / f"{config_name}.json"
        if path.exists():
            found += [json.loads(path.read_text())]
            found += [safetensors.numpy.load_file(folder / f"{name}.safetensors")]
        else:
            found += [None, {}]
    return tuple(found)


def hidden_states(
    whole: Mapping[str, Any], adapter: Mapping[str, np.ndarray], inputs: Mapping[str, np.ndarray]
) -> np.ndarray:
    """What the tiny BERT with the adapter computes for all tokens."""
    fields, name = whole["config"], whole["name"]
    values = {key: array.astype(np.float64) for key, array in adapter.items()}
    present = set(places(fields))

    def dense(x, key):
        if not fields["phm_layer"]:
            return x @ values[f"{key}.weight"].T + values[f"{key}.bias"]
        return x @ phm_kernel(values, key, name) + values.get(f"{key}.b", 0.0)

    def adapt(layer, site, output, source, norm):
        if (layer, site) not in present:
            return output
        stem = place(layer, site, name)
        x = norm(output + source) if fields["original_ln_before"] else output
        x = source if fields["is_parallel"] else x
        down = f"{stem}adapter_down.0"
        if fields["ln_before"]:
            before = (values[f"{stem}adapter_norm_before.{part}"] for part in ("weight", "bias"))
            x, down = numpy_bert.layer_norm(x, *before, epsilon=1e-5), f"{stem}adapter_down.1"
        hidden = ACTIVATIONS[fields["non_linearity"]](dense(x, down))
        scaling = values.get(f"{stem}scaling", fields["scaling"])
        return output + scaling * dense(hidden, f"{stem}adapter_up")

    return numpy_bert.encode(inputs, adapt)


def phm_kernel(values: Mapping[str, np.ndarray], key: str, name: str) -> np.ndarray:
    """The kernel `[inputs, outputs]` of a PHM layer: a sum of Kronecker products."""
    shared = f"bert.shared_parameters.{name}."
    way = "down" if ".adapter_down" in key else "up"

    def whole(*stems):
        for stem in stems:
            if stem in values:
                return values[stem]
            if f"{stem}_left" in values:
                return values[f"{stem}_left"] @ values[f"{stem}_right"]
        raise KeyError(stems)

    rules = whole(f"{key}.phm_rule", f"{shared}phm_rule")
    parts = whole(f"{key}.W", f"{shared}W_{way}")
    return sum(np.kron(rule, part) for rule, part in zip(rules, parts, strict=True))


def logits(
    whole: Mapping[str, Any], head: Mapping[str, np.ndarray], tokens: np.ndarray
) -> np.ndarray:
    """What a head makes of the tokens' outputs."""
    fields = whole["config"]
    x = numpy_bert.pool(tokens) if fields["use_pooler"] else tokens[:, 0]
    name = fields["activation_function"]
    step = 2 if name is None else 3
    for number in range(fields["layers"]):
        stem = f"heads.{whole['name']}.{1 + step * number}"
        x = x @ head[f"{stem}.weight"].T + head.get(f"{stem}.bias", 0.0)
        if number < fields["layers"] - 1 and name is not None:
            x = ACTIVATIONS[name](x)
    return x
