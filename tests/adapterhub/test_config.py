import dataclasses
import itertools
import json

import pytest

from adapter_bert_tf import AdapterConfig, UserError
from adapter_bert_tf.adapterhub.config import from_design, resolve, to_design
from adapter_bert_tf.encoder.activations import ACTIVATIONS
from tests.adapterhub import hub

BOTH, FEED_FORWARD = ("attention", "feed_forward"), ("feed_forward",)
PRESETS = {
    "seq_bn": hub.SEQUENTIAL,
    "pfeiffer": hub.SEQUENTIAL,
    "double_seq_bn": hub.DOUBLE,
    "houlsby": hub.DOUBLE,
    "par_bn": hub.PARALLEL,
    "parallel": hub.PARALLEL,
    "scaled_par_bn": {**hub.PARALLEL, "scaling": "learned"},
    "scaled_parallel": {**hub.PARALLEL, "scaling": "learned"},
    "compacter": hub.PHM,
    "compacter++": {**hub.SEQUENTIAL, **hub.PHM},
}


def _design(whole, size=4, layers=None, has_invertible=False) -> AdapterConfig:
    return to_design(resolve(whole, has_invertible), size, layers)


@pytest.mark.parametrize(
    ("fields", "design"),
    [
        (hub.DOUBLE, {"activation": "swish"}),
        (hub.SEQUENTIAL, {"design": "pfeiffer", "activation": "relu"}),
        (hub.PARALLEL, {"design": "parallel", "activation": "relu"}),
        ({**hub.SEQUENTIAL, "mh_adapter": True}, {"design": "pfeiffer", "sites": BOTH}),
        ({"output_adapter": False}, {"sites": ("attention",)}),
        ({"scaling": 2.5}, {"scaling": 2.5}),
        ({"scaling": 3}, {"scaling": 3.0}),
        ({**hub.PARALLEL, "scaling": 1.0}, {"design": "parallel", "scaling": 1.0}),
        ({**hub.PARALLEL, "scaling": "learned"}, {"design": "parallel", "scaling": 1.0}),
        ({"scaling": "channel"}, {"scaling": 1.0}),
        ({"ln_before": True}, {"layer_norm": True, "epsilon": 1e-5}),
        # Fields without an effect here.
        ({"residual_before_ln": False}, {}),
        ({"adapter_residual_before_ln": True}, {}),
        ({**hub.PARALLEL, "original_ln_before": True}, {"design": "parallel"}),
        ({**hub.PARALLEL, "residual_before_ln": False}, {"design": "parallel"}),
        ({"cross_adapter": True, "dropout": 0.3, "stochastic_depth": 0.1}, {}),
        ({"reduction_factor": {"0": 2, "default": 8}}, {}),
        ({"architecture": None, "unknown": [1]}, {}),
        ({"inv_adapter": None, "inv_adapter_reduction_factor": 2}, {}),
    ],
    ids=str,
)
def test_fields_become_a_design(fields, design):
    whole = hub.config(**fields)
    found = _design(whole)
    default = "relu" if fields.get("non_linearity") == "relu" else "swish"
    assert found == AdapterConfig(size=4, **{"activation": default, **design})
    assert _design(whole, layers=(0, 2)).layers == (0, 2)


@pytest.mark.parametrize("name", PRESETS)
def test_a_configuration_can_be_a_name(name):
    expected = resolve(hub.config(**PRESETS[name]), has_invertible=False)
    found = resolve({**hub.config(), "config": name}, has_invertible=False)
    # Sizes are those of the tensors.
    assert {**found, "reduction_factor": 4} == {field: expected[field] for field in found}


def test_a_name_can_have_values():
    text = "seq_bn[reduction_factor=8, non_linearity='tanh', leave_out=[0, 2],scaling=2.0]"
    fields = resolve({"name": "a", "config": text}, has_invertible=False)
    assert (fields["leave_out"], fields["original_ln_before"]) == ([0, 2], True)
    assert to_design(fields, 4, None) == AdapterConfig(
        size=4, design="pfeiffer", activation="tanh", scaling=2.0
    )


def test_none_is_the_librarys_default():
    found = resolve({"name": "a", "config": None}, has_invertible=False)
    assert found == resolve({"name": "a", "config": "seq_bn"}, has_invertible=False)


def test_what_is_not_said_is_not_a_presets():
    given = {"mh_adapter": True, "output_adapter": True, "reduction_factor": 4}
    raw = {"name": "a", "config": {**given, "non_linearity": "relu"}, "version": "2"}
    assert _design(raw) == AdapterConfig(size=4, activation="relu")
    for field in raw["config"]:
        less = {name: value for name, value in raw["config"].items() if name != field}
        with pytest.raises(UserError, match=f"^{field}: the field is missing in config$"):
            resolve({**raw, "config": less}, has_invertible=False)
    with pytest.raises(UserError, match="^config: the field is missing$"):
        resolve({"name": "a"}, has_invertible=False)


@pytest.mark.parametrize(
    ("version", "name", "activation"),
    [
        ({}, "gelu", "gelu"),
        ({}, "gelu_orig", "gelu_erf"),
        ({}, "GELU", "gelu_erf"),
        ({}, "relu", "relu"),
        ({"version": "2.3.0"}, "gelu", "gelu_erf"),
        ({"version": "adapters.1.3.0"}, "gelu_new", "gelu"),
        ({"version": "adapters.1.3.0"}, "ReLU", "relu"),
        ({"version": "adapters.1.3.0"}, "LeakyReLU", "leaky_relu"),
        ({"version": "adapters.1.3.0"}, "SiLU", "swish"),
    ],
)
def test_names_of_activations_meant_something_else_before_versions(version, name, activation):
    whole = hub.config(non_linearity=name)
    del whole["version"]
    assert _design({**whole, **version}).activation == activation


def test_old_adapters_of_tasks_may_name_an_invertible_one_that_they_never_had():
    whole = hub.config(invertible_adapter={"block_type": "nice", "reduction_factor": 2})
    assert _design({**whole, "type": "text_task"}).size == 4
    for odd, has in ((whole, False), ({**whole, "type": "text_task"}, True)):
        with pytest.raises(UserError, match="^inv_adapter="):
            resolve(odd, has)


REFUSED = {
    "architecture": [{"architecture": "lora"}, {"architecture": "union", "configs": []}],
    "original_ln_after": [{"original_ln_after": False}, {"original_ln_after": None}],
    "ln_after": [{"ln_after": True}, {**hub.PARALLEL, "ln_after": True}],
    "use_gating": [{"use_gating": True}, {"use_gating": 1}],
    "residual_before_ln": [
        {**hub.SEQUENTIAL, "residual_before_ln": False},
        {"residual_before_ln": "post_add"},
        {"residual_before_ln": None},
    ],
    "inv_adapter": [{"inv_adapter": "nice"}, {"inv_adapter": "glow"}],
    "non_linearity": [
        *({"non_linearity": each} for each in ("prelu", "xielu", "step", "", None, 3, ["relu"])),
    ],
    "scaling": [
        *({"scaling": each} for each in ("fixed", None, True, [1.0], float("nan"), float("inf"))),
        *({"scaling": each} for each in (10**400, -(10**400), 1e39)),
    ],
    "leave_out": [{"leave_out": each} for each in (None, 1, "0", [0.0], [True], ["0"], {"0": 1})],
    "mh_adapter": [
        {"mh_adapter": "yes"},
        {"mh_adapter": 1},
        {"mh_adapter": False, "output_adapter": False},
    ],
    "output_adapter": [{"output_adapter": None}],
    "is_parallel": [{"is_parallel": "false"}],
    "ln_before": [{"ln_before": 0}],
    "original_ln_before": [{"original_ln_before": []}],
    "phm_layer": [{"phm_layer": "no"}],
    "cross_adapter": [{"cross_adapter": "no"}],
    "adapter_residual_before_ln": [{"adapter_residual_before_ln": None}],
}


@pytest.mark.parametrize(
    ("field", "fields"),
    [(field, fields) for field, each in REFUSED.items() for fields in each],
    ids=lambda each: str(each)[:60],
)
def test_what_our_form_does_not_hold_is_refused_by_its_field(field, fields):
    with pytest.raises(UserError) as error:
        resolve(hub.config(**fields), has_invertible=False)
    message = str(error.value)
    assert message.startswith(f"{field}=")
    assert message.isprintable()
    assert len(message) < 400


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("model_type", {"model_type": "roberta"}),
        ("model_type", {"model_type": ["bert"]}),
        *(("name", {"name": name}) for name in (None, 3, "", "a\nb", "a\ud800", "a" * 201, ["a"])),
        *(("config", {"config": each}) for each in ([], 3, True, "lora", "seq_bn|lora", "a" * 999)),
        ("config", {"config": "seq_bn[scaling]"}),
        ("config", {"config": "seq_bn[scaling=__import__('os')]"}),
        ("config", {"config": "seq_bn[1]"}),
        ("config", {"config": "seq_bn[[]=1]"}),
        ("config", {"config": "seq_bn[scaling=" + "(" * 10_000 + "]"}),
        ("config", {"config": "seq_bn[scaling=1" + "+1" * 100_000 + "]"}),
        ("config", {"config": "seq_bn[scaling='\ud800']"}),
        ("architecture", {"config": "seq_bn[architecture='lora']"}),
        ("use_gating", {"config": "seq_bn[use_gating=True]"}),
    ],
    ids=lambda each: ascii(each)[:60],
)
def test_odd_files_are_refused_by_the_field(field, changes):
    with pytest.raises(UserError) as error:
        resolve({**hub.config(), **changes}, has_invertible=False)
    message = str(error.value)
    assert message.startswith(f"{field}=")
    assert message.isprintable()
    assert len(message) < 400


def test_a_value_that_is_too_deep_to_show_is_told():
    deep = []
    for _ in range(10_000):
        deep = [deep]
    with pytest.raises(UserError, match="^scaling=a deep list: expected"):
        resolve(hub.config(scaling=deep), has_invertible=False)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("design", ["houlsby", "pfeiffer", "parallel"])
def test_a_design_comes_back(design, activation):
    for sites, layers, scaling, norm in itertools.product(
        (BOTH, FEED_FORWARD, ("attention",)), (None, (0, 2)), (1, 0.5), (False, True)
    ):
        adapter = AdapterConfig(
            size=5,
            design=design,
            activation=activation,
            sites=sites,
            layers=layers,
            scaling=scaling,
            layer_norm=norm,
            epsilon=1e-5 if norm else AdapterConfig.epsilon,
        )
        config = from_design(adapter, width=16, num_layers=3)
        assert config["leave_out"] == ([] if layers is None else [1])
        assert isinstance(config["scaling"], float)
        raw = json.loads(json.dumps({**hub.config(), "config": config}))
        assert _design(raw, size=5, layers=layers) == adapter


def test_the_original_programs_switch_comes_back_as_its_design():
    adapter = AdapterConfig(size=4, parallel=True)
    config = from_design(adapter, width=16, num_layers=3)
    assert (config["is_parallel"], config["scaling"], config["mh_adapter"]) == (True, 1.0, True)
    assert _design({**hub.config(), "config": config}) == adapter


@pytest.mark.parametrize("width", [16, 312, 384, 768, 1024])
def test_the_reduction_factor_gives_the_size(width):
    for size in {*range(1, 200), width - 1, width, width + 1, 3 * width, 5 * width + 7}:
        config = from_design(AdapterConfig(size=size), width, num_layers=2)
        # As the library computes it, from a JSON file.
        factor = json.loads(json.dumps(config["reduction_factor"]))
        assert max(1, int(width // factor)) == size
    assert from_design(AdapterConfig(size=width // 4), width, 2)["reduction_factor"] == 4


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"multiplicative": True}, "adapter multiplicative=True: "),
        ({"hidden_layers": 2}, "adapter hidden_layers=2: "),
        ({"layer_norm": True}, "adapter layer_norm=True: AdapterHub's has an epsilon of 1e-05"),
    ],
)
def test_designs_that_adapterhub_lacks_are_refused(changes, told):
    with pytest.raises(UserError, match=f"^{told}"):
        from_design(AdapterConfig(size=4, **changes), width=16, num_layers=3)


def test_every_field_of_the_design_is_thought_of():
    """A new field has to be exported, or refused, or said here to be of no matter."""
    exported = {"size", "activation", "sites", "layers", "layer_norm", "design", "scaling"}
    refused = {"multiplicative", "hidden_layers", "epsilon"}
    no_matter = {"init_scale", "parallel"}
    names = {field.name for field in dataclasses.fields(AdapterConfig)}
    assert names == exported | refused | no_matter
