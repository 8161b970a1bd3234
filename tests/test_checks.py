import math
import time

import pytest

from adapter_bert_tf import UserError
from adapter_bert_tf.checks import (
    NUMBER,
    SHARE,
    Range,
    boolean,
    digest,
    each,
    fields,
    file_name,
    maybe,
    named,
    one_of,
    text,
    whole,
)

_CHECK = fields(
    {"size": whole(1, 10), "kind": one_of(["round", "flat"])},
    {
        "rate": SHARE,
        "is_new": boolean,
        "sides": each(text, different=True, most=3),
        "metrics": named(NUMBER),
        "parts": each(fields({"file": file_name}, {})),
        "sha256": maybe(digest),
    },
)
_RIGHT = {"size": 3, "kind": "flat"}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"size": 1},
        {"size": 10},
        {"rate": 0},
        {"rate": 0.999},
        {"is_new": False},
        {"sides": ["a", "b", "c"]},
        {"metrics": {"f1": -1e300, "any name": 0}},
        {"parts": [{"file": "a.txt"}, {"file": "a.txt"}]},
        {"sha256": None},
        {"sha256": "0" * 64},
    ],
)
def test_what_is_right_is_returned(more):
    value = {**_RIGHT, **more}
    assert _CHECK(value, "a.json:") is value


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"size": 0}, "a.json: size: expected a whole number from 1 to 10, not 0"),
        ({"size": 10**400}, "a.json: size: expected a whole number from 1 to 10, not 1"),
        ({"size": 2.0}, "a.json: size: expected a whole number from 1 to 10, not 2.0"),
        ({"size": True}, "a.json: size: expected a whole number from 1 to 10, not True"),
        ({"kind": ["flat"]}, "a.json: kind: expected one of round, flat, not ['flat']"),
        ({"rate": 1}, "a.json: rate: expected a number from 0 below 1, not 1"),
        ({"rate": math.nan}, "a.json: rate: expected a number from 0 below 1, not nan"),
        ({"is_new": 1}, "a.json: is_new: expected true or false, not 1"),
        ({"sides": "abc"}, "a.json: sides: expected a list, not 'abc'"),
        ({"sides": ["a", 1]}, "a.json: sides[1]: expected a text, not 1"),
        ({"sides": ["a", "b", "a"]}, "a.json: sides: 'a' is there twice"),
        ({"sides": ["a"] * 4}, "a.json: sides: expected 3 at most, not 4"),
        ({"metrics": {"f1": math.inf}}, "a.json: metrics.f1: expected a number, not inf"),
        ({"metrics": {"a\nb": "x"}}, r"a.json: metrics.'a\nb': expected a number, not 'x'"),
        ({"parts": [{}]}, "a.json: parts[0]: expected a field 'file'"),
        ({"parts": [{"file": "../a"}]}, "parts[0].file: expected a file in the same folder"),
        ({"parts": [{"file": ".."}]}, "parts[0].file: expected a file in the same folder"),
        ({"sha256": "0" * 63 + "G"}, "a.json: sha256: expected a SHA-256, not '0000"),
        ({"colour": 1}, "a.json: colour: no such field is known"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(more, told):
    with pytest.raises(UserError) as error:
        _CHECK({**_RIGHT, **more}, "a.json:")
    assert str(error.value).startswith(told) or told in str(error.value)
    assert len(str(error.value)) < 150


def test_a_missing_field_and_another_type_are_told():
    with pytest.raises(UserError, match="^a.json: expected a field 'kind'"):
        _CHECK({"size": 1}, "a.json:")
    with pytest.raises(UserError, match=r"^a.json: expected an object, not \[\]"):
        _CHECK([], "a.json:")


def test_a_message_stays_short_and_in_one_line_whatever_the_value():
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    for value in (deep, "x\n\x1b[31m" * 10**5, {"a": deep}, list(range(10**5))):
        with pytest.raises(UserError) as error:
            NUMBER(value, "a.json: size")
        assert len(str(error.value)) < 200
        assert str(error.value).isprintable()


def test_a_name_that_is_there_twice_among_many_is_found_at_once():
    names = [f"v{number}" for number in range(200_000)]
    start = time.monotonic()
    with pytest.raises(UserError, match="'v199999' is there twice"):
        each(text, different=True)([*names, names[-1]], "a.json: names")
    assert time.monotonic() - start < 20


def test_half_a_character_is_no_text():
    for value in ({**_RIGHT, "sides": ["\ud800"]}, {**_RIGHT, "metrics": {"\udc00": 1}}):
        with pytest.raises(UserError, match="expected a text that UTF-8 can hold") as error:
            _CHECK(value, "a.json:")
        assert str(error.value).isascii()


def test_ranges_say_what_they_are():
    assert str(Range()) == "a number"
    assert str(Range(0, above=True)) == "a number above 0"
    assert str(Range(2, whole=True)) == "a whole number from 2"
    assert str(Range(0, 100, above=True)) == "a number above 0 and up to 100"
    assert str(whole(1, 4096)) == "a whole number from 1 to 4,096"
