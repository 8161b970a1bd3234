"""From the configuration of an AdapterHub adapter to our design, and back."""

import ast
import re
from collections.abc import Mapping
from typing import Any

from adapter_bert_tf.encoder.activations import HUGGING_FACE_NAMES
from adapter_bert_tf.encoder.adapter import (
    ATTENTION,
    FEED_FORWARD,
    HOULSBY,
    PARALLEL,
    PFEIFFER,
    AdapterConfig,
)
from adapter_bert_tf.errors import UserError

# Sites by the field that switches them on.
SITE_FIELDS = {"mh_adapter": ATTENTION, "output_adapter": FEED_FORWARD}
LEARNED = ("learned", "channel")
# The epsilon of PyTorch's LayerNorm, which stands in front of a bottleneck with `ln_before`.
EPSILON = 1e-5

# What a field is where a configuration does not have it.
_DEFAULTS: dict[str, Any] = {
    "original_ln_before": False,
    "original_ln_after": True,
    "ln_before": False,
    "ln_after": False,
    "is_parallel": False,
    "scaling": 1.0,
    "use_gating": False,
    "residual_before_ln": True,
    "adapter_residual_before_ln": False,
    "inv_adapter": None,
    "inv_adapter_reduction_factor": None,
    "cross_adapter": False,
    "leave_out": [],
    "dropout": 0.0,
    "phm_layer": False,
}
_SEQUENTIAL = {
    "mh_adapter": False,
    "output_adapter": True,
    "original_ln_before": True,
    "non_linearity": "relu",
    "reduction_factor": 16,
}
_DOUBLE = {
    "mh_adapter": True,
    "output_adapter": True,
    "non_linearity": "swish",
    "reduction_factor": 16,
}
_PARALLEL = {
    "mh_adapter": False,
    "output_adapter": True,
    "is_parallel": True,
    "scaling": 4.0,
    "non_linearity": "relu",
    "reduction_factor": 2,
}
_SCALED = {**_PARALLEL, "scaling": "learned"}
_COMPACT = {"phm_layer": True, "non_linearity": "gelu", "reduction_factor": 32}
# Configurations that a file may give by name.
_PRESETS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("seq_bn", "pfeiffer"), _SEQUENTIAL),
    **dict.fromkeys(("double_seq_bn", "houlsby"), _DOUBLE),
    **dict.fromkeys(("par_bn", "parallel"), _PARALLEL),
    **dict.fromkeys(("scaled_par_bn", "scaled_parallel"), _SCALED),
    "compacter": {**_DOUBLE, **_COMPACT},
    "compacter++": {**_SEQUENTIAL, **_COMPACT},
}
_WITH_VALUES = re.compile(r"([\w+]+)\[(.*)\]", re.DOTALL)
_LONGEST_NAME = 200
_LARGEST_SCALING = 1e30
# In files without a version, the names of two activations meant something else.
_OLD_NAMES = {"gelu": "gelu_new", "gelu_orig": "gelu"}


class RefusedError(UserError):
    """What our form can't hold exactly; the message names the field."""

    def __init__(self, field: str, value: Any, reason: str):
        super().__init__(f"{field}={_shown(value)}: {reason}")


def _shown(value: Any) -> str:
    """Returns a value of a file for a message: in one line, and not too long."""
    try:
        text = repr(value)
    except RecursionError:
        text = f"a deep {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:60]}..."


def check_name(name: Any) -> None:
    """Refuses what can't be a name; messages and the names of tensors contain it."""
    if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= _LONGEST_NAME:
        raise RefusedError("name", name, "expected the adapter's name")


def resolve(raw: Mapping[str, Any], has_invertible: bool) -> dict[str, Any]:
    """Returns all fields of an adapter's configuration, and refuses what we can't hold.

    Args:
      raw: The content of `adapter_config.json`.
      has_invertible: Whether the weights have an invertible adapter.
    """
    if raw.get("model_type", "bert") != "bert":
        raise RefusedError("model_type", raw["model_type"], "expected bert")
    check_name(raw.get("name"))
    if "config" not in raw:
        raise UserError("config: the field is missing")
    fields = {**_DEFAULTS, **_given(raw["config"])}
    activation = fields["non_linearity"]
    if "version" not in raw and isinstance(raw["config"], dict) and isinstance(activation, str):
        fields["non_linearity"] = _OLD_NAMES.get(activation, activation)
    # Old adapters of tasks may name an invertible one that they never had.
    is_unused = raw.get("type") == "text_task" and not has_invertible
    if (fields["inv_adapter"] is not None or fields.get("invertible_adapter")) and not is_unused:
        raise RefusedError(
            "inv_adapter", fields["inv_adapter"], "invertible adapters can't be held"
        )
    _check_types(fields)
    _check_exact(fields)
    return fields


def _given(config: Any) -> dict[str, Any]:
    if config is None:
        return dict(_SEQUENTIAL)
    if isinstance(config, str):
        config = _by_name(config)
    if not isinstance(config, dict):
        raise RefusedError("config", config, "expected an object")
    if config.get("architecture") is not None:
        raise RefusedError(
            "architecture", config["architecture"], "only bottleneck adapters are read"
        )
    for field in ("mh_adapter", "output_adapter", "reduction_factor", "non_linearity"):
        if field not in config:
            raise UserError(f"{field}: the field is missing in config")
    return config


def _by_name(text: str) -> dict[str, Any]:
    match = _WITH_VALUES.fullmatch(text)
    name, values = (match[1], match[2]) if match else (text, "")
    if name not in _PRESETS:
        raise RefusedError("config", text, f"expected one of {', '.join(_PRESETS)}")
    try:
        # As the library reads them: `a=1, b=2` as the literal of a dictionary.
        given = ast.literal_eval("{" + re.sub(r"(\w+)=", r"'\1':", values) + "}")
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise RefusedError("config", text, "expected fields with values in the brackets")
    return {**_PRESETS[name], **given}


def _check_types(fields: Mapping[str, Any]) -> None:
    flags = [name for name, value in _DEFAULTS.items() if isinstance(value, bool)]
    for field in (*SITE_FIELDS, *(name for name in flags if name != "residual_before_ln")):
        if not isinstance(fields[field], bool):
            raise RefusedError(field, fields[field], "expected true or false")
    left_out = fields["leave_out"]
    if not isinstance(left_out, list) or not all(type(each) is int for each in left_out):
        raise RefusedError("leave_out", left_out, "expected a list of layers")
    if not any(fields[field] for field in SITE_FIELDS):
        raise RefusedError("mh_adapter", False, "expected an adapter at one site at least")
    scaling = fields["scaling"]
    is_number = isinstance(scaling, int | float) and not isinstance(scaling, bool)
    if scaling not in LEARNED and not (is_number and abs(scaling) < _LARGEST_SCALING):
        raise RefusedError("scaling", scaling, f"expected a number, {' or '.join(LEARNED)}")
    name = fields["non_linearity"]
    if not isinstance(name, str) or name.lower() not in HUGGING_FACE_NAMES:
        known = ", ".join(HUGGING_FACE_NAMES)
        raise RefusedError("non_linearity", name, f"expected one of {known}")


def _check_exact(fields: Mapping[str, Any]) -> None:
    if not fields["original_ln_after"]:
        raise RefusedError("original_ln_after", False, "a sub-layer ends with its LayerNorm here")
    if fields["ln_after"]:
        raise RefusedError("ln_after", True, "no LayerNorm can stand behind the bottleneck")
    if fields["use_gating"]:
        raise RefusedError("use_gating", True, "gates can't be held")
    residual = fields["residual_before_ln"]
    reads_norm = fields["original_ln_before"] and not fields["is_parallel"]
    if residual is not True and (reads_norm or residual is not False):
        raise RefusedError(
            "residual_before_ln", residual, "the sub-layer's output is what is added to"
        )


def to_design(fields: Mapping[str, Any], size: int, layers: tuple[int, ...] | None):
    """Returns our design for all fields of a configuration.

    Args:
      fields: What `resolve` returned.
      size: Width of the bottleneck.
      layers: The layers with adapters, or None for all.
    """
    scaling = fields["scaling"]
    design = PFEIFFER if fields["original_ln_before"] else HOULSBY
    # Without a LayerNorm it does not matter, and equal designs are to be equal.
    epsilon = EPSILON if fields["ln_before"] else AdapterConfig.epsilon
    return AdapterConfig(
        size=size,
        activation=HUGGING_FACE_NAMES[fields["non_linearity"].lower()],
        sites=tuple(site for field, site in SITE_FIELDS.items() if fields[field]),
        layers=layers,
        layer_norm=fields["ln_before"],
        design=PARALLEL if fields["is_parallel"] else design,
        # What is learned is folded into the weights.
        scaling=1.0 if scaling in LEARNED else float(scaling),
        epsilon=epsilon,
    )


def from_design(adapter: AdapterConfig, width: int, num_layers: int) -> dict[str, Any]:
    """Returns the configuration that computes what our design does, or refuses it.

    Args:
      adapter: The design.
      width: Width of the encoder.
      num_layers: Number of its layers.
    """
    if adapter.multiplicative:
        raise RefusedError("adapter multiplicative", True, "AdapterHub's adapters add")
    if adapter.hidden_layers > 1:
        raise RefusedError("adapter hidden_layers", adapter.hidden_layers, "AdapterHub's have one")
    if adapter.layer_norm and adapter.epsilon != EPSILON:
        raise RefusedError("adapter layer_norm", True, f"AdapterHub's has an epsilon of {EPSILON}")
    names = {ours: name for name, ours in reversed(HUGGING_FACE_NAMES.items())}
    divides = width % adapter.size == 0
    return {
        **_DEFAULTS,
        **{field: site in adapter.sites for field, site in SITE_FIELDS.items()},
        # The library rounds the quotient down.
        "reduction_factor": width // adapter.size if divides else width / (adapter.size + 0.5),
        "non_linearity": names[adapter.activation],
        "original_ln_before": adapter.design == PFEIFFER,
        "is_parallel": adapter.design == PARALLEL,
        "ln_before": adapter.layer_norm,
        # It refuses a whole number.
        "scaling": float(adapter.scaling),
        "leave_out": sorted(set(range(num_layers)) - set(adapter.in_layers(num_layers))),
        "init_weights": "bert",
    }
