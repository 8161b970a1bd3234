import re

import numpy as np
import pytest

from adapter_bert_tf import UserError
from adapter_bert_tf.adapterhub.config import resolve, to_design
from adapter_bert_tf.adapterhub.weights import HubWeights, has_invertible, to_tensors
from tests import tiny
from tests.adapterhub import hub

FIRST = "transformer/layer_0/feed_forward_adapter/"
PLACE = "encoder.layer.0.output.adapters.task."


def _weights(whole, tensors=None, width=tiny.WIDTH, layers=tiny.LAYERS) -> HubWeights:
    fields = resolve(whole, has_invertible=False)
    tensors = hub.tensors(whole) if tensors is None else tensors
    return HubWeights(tensors, whole["name"], fields, width, layers)


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("fields", [hub.DOUBLE, hub.SEQUENTIAL, hub.PARALLEL], ids=str)
def test_tensors_come_back_bit_for_bit(fields, norm):
    whole = hub.config("a b/c", **fields, ln_before=norm, leave_out=[1])
    tensors = hub.tensors(whole)
    found = _weights(whole, tensors)
    assert (found.size, found.layers) == (4, (0, 2))
    design = to_design(resolve(whole, has_invertible=False), found.size, found.layers)
    again = to_tensors(dict(found.variables()), design, "a b/c")
    assert again.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert again[name].flags.c_contiguous
        np.testing.assert_array_equal(again[name], tensor, err_msg=name)


def test_variables_are_those_of_our_adapters():
    whole = hub.config(**hub.SEQUENTIAL, ln_before=True)
    tensors = hub.tensors(whole)
    found = {name: value for name, value in _weights(whole, tensors).variables() if FIRST in name}
    stem = f"bert.{PLACE}"
    for name, expected in {
        "layer_norm/gamma": tensors[f"{stem}adapter_norm_before.weight"],
        "layer_norm/beta": tensors[f"{stem}adapter_norm_before.bias"],
        "down/kernel": tensors[f"{stem}adapter_down.1.weight"].T,
        "down/bias": tensors[f"{stem}adapter_down.1.bias"],
        "up/kernel": tensors[f"{stem}adapter_up.weight"].T,
        "up/bias": tensors[f"{stem}adapter_up.bias"],
    }.items():
        np.testing.assert_array_equal(found.pop(FIRST + name), expected)
    assert not found


def test_a_layer_norm_may_stand_in_the_file_once():
    whole = hub.config(ln_before=True)
    tensors = hub.tensors(whole)
    once = {name: value for name, value in tensors.items() if "norm_before" not in name}
    expected = dict(_weights(whole, tensors).variables())
    for path, value in _weights(whole, once).variables():
        np.testing.assert_array_equal(value, expected[path])


def test_smaller_bottlenecks_are_filled_up_with_zeros():
    whole = hub.config(reduction_factor={"0": 2, "2": 8, "default": 4})
    tensors = hub.tensors(whole)
    found = _weights(whole, tensors)
    assert found.size == 8
    variables = dict(found.variables())
    for layer, size in enumerate((8, 4, 2)):
        stem = f"bert.encoder.layer.{layer}.output.adapters.task."
        path = f"transformer/layer_{layer}/feed_forward_adapter/"
        down, up = variables[f"{path}down/kernel"], variables[f"{path}up/kernel"]
        bias = variables[f"{path}down/bias"]
        assert (down.shape, up.shape, bias.shape) == ((16, 8), (8, 16), (8,))
        np.testing.assert_array_equal(down[:, :size], tensors[f"{stem}adapter_down.0.weight"].T)
        np.testing.assert_array_equal(up[:size], tensors[f"{stem}adapter_up.weight"].T)
        np.testing.assert_array_equal(bias[:size], tensors[f"{stem}adapter_down.0.bias"])
        assert not down[:, size:].any()
        assert not up[size:].any()
        assert not bias[size:].any()
        assert variables[f"{path}up/bias"].shape == (16,)


@pytest.mark.parametrize("scaling", ["learned", "channel"])
def test_a_learned_scaling_is_folded_into_the_way_up(scaling):
    whole = hub.config(scaling=scaling)
    tensors = hub.tensors(whole)
    found = dict(_weights(whole, tensors).variables())
    stem = f"bert.{PLACE}"
    factor = tensors[f"{stem}scaling"]
    assert factor.shape == ((1,) if scaling == "learned" else (16,))
    hidden = np.random.default_rng(0).normal(size=[5, 4])
    wanted = factor * (
        hidden @ tensors[f"{stem}adapter_up.weight"].T + tensors[f"{stem}adapter_up.bias"]
    )
    folded = hidden @ found[f"{FIRST}up/kernel"] + found[f"{FIRST}up/bias"]
    np.testing.assert_allclose(folded, wanted, atol=1e-6)


PHM = {
    "the default": {},
    "rules of their own": {"shared_phm_rule": False},
    "factors of the rules": {"factorized_phm_rule": True},
    "own factors of the rules": {"factorized_phm_rule": True, "shared_phm_rule": False},
    "whole parts": {"factorized_phm_W": False},
    "shared parts": {"shared_W_phm": True},
    "without a bias": {"phm_bias": False},
    "two of rank 3": {"phm_dim": 2, "phm_rank": 3},
    "behind a LayerNorm": {"ln_before": True},
    "with a learned scaling": {"scaling": "channel"},
    "twice as wide": {"reduction_factor": 0.5},
}


@pytest.mark.parametrize("name", PHM)
def test_compacters_kernels_are_sums_of_kronecker_products(name):
    whole = hub.config(**{**hub.PHM, **PHM[name]})
    tensors = hub.tensors(whole)
    found = dict(_weights(whole, tensors).variables())
    size = hub.size_in(whole["config"], 0)
    stem = f"bert.{PLACE}"
    scaling = tensors.get(f"{stem}scaling", np.float32(1))
    down = f"{stem}adapter_down.{int(whole['config']['ln_before'])}"
    for key, path, shape, factor in (
        (down, "down", (16, size), 1),
        (f"{stem}adapter_up", "up", (size, 16), scaling),
    ):
        kernel, bias = found[f"{FIRST}{path}/kernel"], found[f"{FIRST}{path}/bias"]
        assert (kernel.shape, kernel.dtype, bias.dtype) == (shape, np.float32, np.float32)
        expected = hub.phm_kernel(tensors, key, "task") * factor
        np.testing.assert_allclose(kernel, expected, atol=1e-6)
        np.testing.assert_allclose(bias, tensors.get(f"{key}.b", np.zeros(shape[1])) * factor)


@pytest.mark.parametrize(
    "rename",
    [
        lambda name: name.removeprefix("bert."),
        *(
            lambda name, kind=kind: re.sub(
                r"(attention\.)?output\.adapters",
                lambda match: (
                    f"{match[1] or ''}output."
                    f"{'attention' if match[1] else 'layer'}_text_{kind}_adapters"
                ),
                name,
            )
            for kind in ("task", "lang")
        ),
    ],
    ids=["without bert", "task", "lang"],
)
def test_older_names_are_known(rename):
    whole = hub.config()
    tensors = hub.tensors(whole)
    renamed = {rename(name): tensor for name, tensor in tensors.items()}
    assert not renamed.keys() & tensors.keys()
    expected = dict(_weights(whole, tensors).variables())
    found = dict(_weights(whole, renamed).variables())
    assert found.keys() == expected.keys()
    for path, value in expected.items():
        np.testing.assert_array_equal(found[path], value)


def test_an_adapter_in_no_layer_has_no_variables():
    whole = hub.config(leave_out=[0, 1, 2, 99])
    found = _weights(whole, {})
    assert (found.layers, found.size, list(found.variables())) == ((), 1, [])


@pytest.mark.parametrize(
    "name",
    ["bert.invertible_adapters.task.F.0.weight", "invertible_lang_adapters.task.s1.0.weight"],
)
def test_invertible_adapters_are_seen(name):
    assert has_invertible({name: np.zeros(1)})
    assert not has_invertible(hub.tensors(hub.config()))


def _changed(fields, **changes):
    """The tensors for the fields, with some that are replaced, added or (None) left out."""
    tensors = hub.tensors(hub.config(**fields))
    stem = "bert.encoder.layer.1.output.adapters.task."
    for name, value in changes.items():
        shared = f"bert.shared_parameters.task.{name}"
        key = shared if shared in tensors else f"{stem}{name.replace('__', '.')}"
        if value is None:
            del tensors[key]
        else:
            tensors[key] = np.zeros(value, np.float32)
    return tensors


LEARNED = {"scaling": "learned"}


@pytest.mark.parametrize(
    ("fields", "changes", "told"),
    [
        ({}, {"adapter_up__weight": None}, "missing tensors: encoder.layer.1.output.adapters.task"),
        ({}, {"adapter_up__bias": None}, "missing tensors: .*adapter_up.bias"),
        ({"ln_before": True}, {"adapter_down__0__bias": None}, "missing tensors: .*down.0.bias"),
        (LEARNED, {"scaling": None}, "missing tensors: .*scaling"),
        (hub.PHM, {"adapter_up__W_left": None}, "missing tensors: .*adapter_up.W"),
        (hub.PHM, {"adapter_up__W_right": None}, "missing tensors: .*adapter_up.W_right"),
        (hub.PHM, {"phm_rule": None}, "missing tensors: .*phm_rule"),
        ({}, {"gate__weight": (1, 16)}, "that nothing is known of: .*gate.weight"),
        ({}, {"scaling": (1,)}, "that nothing is known of: .*scaling"),
        ({}, {"adapter_norm_before__bias": (16,)}, "nothing is known of: .*norm_before.bias"),
        ({}, {"adapter_up__weight": (16, 5)}, r"up/kernel is \[5, 16\], the base wants \[4, 16\]"),
        ({}, {"adapter_up__weight": (16,)}, r"up/kernel is \[16\], the base wants \[4, 16\]"),
        ({}, {"adapter_up__weight": ()}, r"up/kernel is \[\], the base wants"),
        ({}, {"adapter_down__0__weight": (4,)}, r"down/kernel is \[4\], the base wants \[16, 1\]"),
        ({}, {"adapter_down__0__weight": (4, 16, 1)}, r"down/kernel is \[1, 16, 4\], the base"),
        ({}, {"adapter_down__0__weight": (0, 16)}, r"down/kernel is \[16, 0\], the base wants"),
        ({}, {"adapter_down__0__bias": (1,)}, r"down/bias is \[1\], the base wants \[4\]"),
        (LEARNED, {"scaling": (3,)}, r"scaling is \[3\], expected a number"),
        (LEARNED, {"scaling": (10**6, 1, 1)}, r"scaling is \[1000000, 1, 1\], expected"),
        (LEARNED, {"scaling": ()}, r"scaling is \[\], expected"),
        (hub.PHM, {"phm_rule": (4, 4)}, r"phm_rule is \[4, 4\], expected matrices"),
        (hub.PHM, {"phm_rule": (3, 4, 4)}, "rules for .* parts, the base wants a kernel"),
        (hub.PHM, {"phm_rule": (4, 4, 4000)}, "rules for .* parts, the base wants a kernel"),
        (hub.PHM, {"adapter_up__W_left": (4, 1, 2)}, r"W has factors \[4, 1, 2\], \[4, 1, 4\]"),
        (hub.PHM, {"adapter_up__W_left": (4, 1)}, r"W_left is \[4, 1\], expected matrices"),
        # Small factors of huge kernels.
        (hub.PHM, {"adapter_up__W_left": (4, 10**6, 1)}, r"W has factors \[4, 1000000, 1\]"),
        (hub.PHM, {"adapter_up__W_left": (4, 50_000, 1)}, "the base wants a kernel for its width"),
    ],
    ids=str,
)
def test_tensors_that_do_not_fit_are_told(fields, changes, told):
    whole = hub.config(**fields)
    with pytest.raises(UserError, match=told):
        _weights(whole, _changed(fields, **changes))


def test_a_tensor_under_two_names_is_told():
    tensors = hub.tensors(hub.config())
    name = next(iter(tensors))
    tensors[name.removeprefix("bert.")] = tensors[name]
    with pytest.raises(UserError, match="^holds encoder.layer.0.* twice$"):
        _weights(hub.config(), tensors)


def test_tensors_of_other_layers_or_another_name_are_told():
    whole = hub.config()
    with pytest.raises(UserError, match="that nothing is known of: encoder.layer.2"):
        _weights(whole, layers=2)
    with pytest.raises(UserError, match="missing tensors: encoder.layer.3.attention"):
        _weights(whole, layers=4)
    with pytest.raises(UserError, match="missing tensors: .*adapters.other"):
        _weights(hub.config("other"), hub.tensors(whole))


def test_a_base_of_another_width_is_told():
    with pytest.raises(UserError, match=r"kernel is \[16, 4\], the base wants \[24, 4\]"):
        _weights(hub.config(), width=24)
