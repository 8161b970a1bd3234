import dataclasses
import pathlib

import numpy as np
import pytest

from adapter_bert_tf import UserError
from adapter_bert_tf.encoder.adapter import AdapterConfig
from adapter_bert_tf.options import in_json, option, options_of, take


@dataclasses.dataclass(frozen=True)
class _Shape:
    """A class with an option of each type, and a field that is none."""

    size: int = option(3, "How large.")
    rate: float | None = option(None, "How quick.", aliases=("speed",))
    name: str | None = option(None, "What it is called.", group="Look")
    round: bool = option(False, "Whether it is round.", flag="is_round")
    sides: tuple[int, ...] | None = option(None, "Its sides.")
    color: str = option("red", "Its color.", choices=("red", "blue"))
    inner: int = 7


def test_a_field_tells_all_about_its_flag():
    options = options_of(_Shape, "shape_")
    assert set(options) == {
        "shape_size",
        "shape_rate",
        "shape_name",
        "is_round",
        "shape_sides",
        "shape_color",
    }
    size, rate, sides = (options[f"shape_{name}"] for name in ("size", "rate", "sides"))
    assert (size.field, size.type, size.many, size.default) == ("size", int, False, 3)
    assert (size.help, size.group) == ("How large.", "Tuning")
    assert (rate.type, rate.default, rate.aliases) == (float, None, ("speed",))
    assert (sides.type, sides.many) == (int, True)
    assert options["shape_name"].group == "Look"
    assert options["shape_color"].choices == ("red", "blue")


def test_a_new_field_of_a_design_is_an_option_by_itself():
    more = dataclasses.make_dataclass(
        "Wider", [("gate", bool, option(False, "Gate it."))], bases=(AdapterConfig,), frozen=True
    )
    known, found = options_of(AdapterConfig, "adapter_"), options_of(more, "adapter_")
    assert found.keys() - known.keys() == {"adapter_gate"}
    assert found["adapter_gate"].type is bool
    assert take(more, {"adapter_gate": True}, "adapter_") == {"gate": True}


def test_what_belongs_to_a_class_is_taken():
    values = {"size": 5, "speed": 2, "is_round": True, "other": 1}
    assert take(_Shape, values) == {"size": 5, "rate": 2.0, "round": True}
    assert values == {"other": 1}


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({"name": pathlib.Path("a/b")}, {"name": "a/b"}),
        ({"size": np.int64(4)}, {"size": 4}),
        ({"rate": np.float32(0.5)}, {"rate": 0.5}),
        ({"rate": None}, {"rate": None}),
        ({"sides": [1, 2]}, {"sides": (1, 2)}),
        ({"sides": range(3)}, {"sides": (0, 1, 2)}),
        ({"sides": 3}, {"sides": (3,)}),
    ],
)
def test_python_values_become_the_fields_own(given, taken):
    found = take(_Shape, dict(given))
    assert found == taken
    assert [type(value) for value in found.values()] == [type(value) for value in taken.values()]


def test_one_text_is_not_a_list_of_letters():
    several = dataclasses.make_dataclass(
        "Several", [("names", tuple[str, ...] | None, option(None, "Names."))]
    )
    assert take(several, {"names": "label"}) == {"names": ("label",)}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"size": "3"}, "--size='3': expected a whole number"),
        ({"size": 2.5}, "--size=2.5: expected a whole number"),
        ({"size": True}, "--size=True: expected a whole number"),
        ({"size": None}, "--size=None: expected a whole number"),
        ({"rate": "fast"}, "--rate='fast': expected a number"),
        ({"name": 3}, "--name=3: expected a text"),
        ({"is_round": 1}, "--is_round=1: expected True or False"),
        ({"sides": ["a"]}, "--sides='a': expected a whole number"),
        ({"color": "pink"}, "--color=pink: expected one of red, blue"),
    ],
)
def test_values_of_another_type_are_told(given, told):
    with pytest.raises(UserError, match=told):
        take(_Shape, given)


def test_lists_of_flags_are_parsed():
    sides = options_of(_Shape)["sides"]
    assert sides.parse(["1", "2"]) == (1, 2)
    with pytest.raises(UserError, match="--sides=1,x: expected numbers, separated by commas"):
        sides.parse(["1", "x"])


def test_json_holds_nested_classes():
    @dataclasses.dataclass
    class Outer:
        shape: _Shape
        more: dict

    found = in_json(Outer(_Shape(sides=(1, 2)), {"x": (3,)}))
    assert found["shape"]["sides"] == [1, 2]
    assert found["shape"]["inner"] == 7
    assert found["more"] == {"x": [3]}
