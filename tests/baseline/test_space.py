import dataclasses

import pytest

from adapter_bert_tf import UserError
from adapter_bert_tf.baseline.space import SPACE, Design, Range, describe, narrow


def test_the_space_is_the_papers():
    assert len(SPACE) == 21
    assert SPACE["filters"] == Range(50, 200)
    assert SPACE["hidden_layers"] == (0, 1, 2, 3, 5)
    assert SPACE["samples"] == (100_000, 200_000, 500_000, 1_000_000, 2_000_000)
    for rates in (SPACE["deep_rate"], SPACE["wide_rate"]):
        assert rates == (0.001, 0.005, 0.01, 0.05, 0.1, 0.5)


def test_a_design_has_only_values_of_the_space():
    for change in ({"hidden_layers": 4}, {"filters": 201}, {"fine_tune": 1}, {"deep_rate": "0.1"}):
        with pytest.raises(UserError, match=f"{next(iter(change))}=.*expected"):
            Design(**change)
    assert Design(embedding_dropout=0).embedding_dropout == 0.0


def test_a_bert_is_never_fine_tuned():
    assert not Design(module="bert:minilm", fine_tune=True).fine_tune
    assert Design(module="use", fine_tune=True).fine_tune


def test_any_choice_can_be_narrowed():
    given = "module=use,nnlm-50 fine_tune=no;filters=60..80 samples=1e5 embedding_dropout=0,0.2"
    found = narrow(SPACE, [given, "hidden_layers=0"])
    assert found["module"] == ("use", "nnlm-50")
    assert found["fine_tune"] == (False,)
    assert found["filters"] == Range(60, 80)
    assert found["samples"] == (100_000,)
    assert found["embedding_dropout"] == (0.0, 0.2)
    assert found["hidden_layers"] == (0,)
    untouched = set(SPACE) - {part.split("=")[0] for part in given.replace(";", " ").split()}
    assert all(found[name] == SPACE[name] for name in untouched - {"hidden_layers"})
    assert len(describe(found)) == 21


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("layers=1", "--space=layers=1: expected CHOICE=VALUES"),
        ("filters=nan..100", "--space: filters=nan: expected 50"),
        ("filters=inf", "--space: filters=inf: expected 50"),
        ("filters", "--space=filters: expected CHOICE=VALUES"),
        ("filters=10", "filters=10: expected 50..200"),
        ("filters=80..60", "expected the lower number first"),
        ("filters=60.5", "filters=60.5: expected 50..200"),
        ("hidden_layers=4", "hidden_layers=4: expected one of 0, 1, 2, 3, 5"),
        ("hidden_layers=0..3", "hidden_layers=0..3: expected one of"),
        ("fine_tune=maybe", "fine_tune='maybe': expected yes or no"),
        ("deep_rate=fast", "deep_rate=fast: expected one of"),
        ("module=glov", "glov: no text module; expected glove, nnlm-50"),
        ("module=bert:minilmm", "did you mean minilm"),
        ("module=", "module: expected one of"),
    ],
)
def test_wrong_narrowing_is_told(given, told):
    with pytest.raises(UserError) as error:
        narrow({**SPACE, "module": ("use",)}, [given])
    assert told in str(error.value)


def test_every_choice_has_a_default_that_it_may_have():
    for name, value in dataclasses.asdict(Design()).items():
        assert value in SPACE[name]
