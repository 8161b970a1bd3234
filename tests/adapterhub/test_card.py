import ast
import dataclasses
import re
import types

import pytest

from adapter_bert_tf import AdapterConfig, Tuning
from adapter_bert_tf.adapterhub.card import make_card
from adapter_bert_tf.pack.pack import Pack

PACK = Pack(
    base={"origin": "here", "fingerprint": "0123456789abcdef"},
    adapter=AdapterConfig(8, design="pfeiffer"),
    tuning=Tuning(layer_norms=False),
    head={"kind": "classification", "settings": {"classes": 2}},
    task="SST-2",
    labels=["no", "yes"],
    metrics={"accuracy": 0.91234},
    vocabulary=None,
    inputs={},
    variables=[],
    weights="",
    sha256="",
)


def _card(name="sst", origin="bert-base-uncased", **changes) -> str:
    base = types.SimpleNamespace(origin=origin)
    return make_card(dataclasses.replace(PACK, **changes), base, name)


def _code(card: str) -> list[str]:
    found = re.findall("```python\n(.*?)```", card, re.DOTALL)
    for each in found:
        ast.parse(each)
    return found


def test_says_what_the_adapter_is():
    card = _card()
    assert card.startswith("---\nlibrary_name: adapters\n")
    for line in (
        "# sst",
        "A pfeiffer adapter of size 8 for bert-base-uncased, tuned with adapter_bert_tf.",
        "| Task | SST-2 |",
        "| Kind | classification |",
        "| Labels | no, yes |",
        "| Metrics | accuracy 0.9123 |",
        "| Base | bert-base-uncased, fingerprint 0123456789ab |",
    ):
        assert line in card.splitlines()


def test_shows_how_to_load_it_in_both_libraries():
    torch, ours = _code(_card())
    assert 'from_pretrained("bert-base-uncased")' in torch
    assert "use_safetensors=True" in torch
    assert 'bert="bert-base-uncased", output_dir="packs/sst"' in ours
    assert 'ab.load_task("packs/sst")\ntask.predict(texts)' in ours


def test_what_is_asked_depends_on_the_head():
    assert (
        "task.answer(question, context)" in _code(_card(head={"kind": "span", "settings": {}}))[1]
    )
    without = _code(_card(head={"kind": "none", "settings": {}}, labels=[]))[1]
    assert "load_task" not in without
    assert '# ab.tune(..., pack="packs/sst")' in without


@pytest.mark.parametrize("name", ['a"b', "a'b", "a\\", "größe", "a b@c", '"""'])
def test_code_and_table_hold_with_odd_names(name):
    card = _card(name, origin=f"/some/{name}", task=f"{name}|", labels=["a|b", "c\nd\te"])
    for each in _code(card):
        texts = [node.value for node in ast.walk(ast.parse(each)) if isinstance(node, ast.Constant)]
        assert f"/some/{name}" in texts
    assert f"packs/{name}" in texts
    rows = [line for line in card.splitlines() if line.startswith("|")]
    assert len(rows) == 7
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 3 for row in rows), rows


def test_many_labels_are_cut():
    card = _card(labels=[f"l{i}" for i in range(100)])
    assert "| Labels | l0, l1," in card
    assert "l19 ... |" in card
