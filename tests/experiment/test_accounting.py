"""What a suite of tasks costs."""

import pytest

from adapter_bert_tf.base.load import load_encoder
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.experiment.accounting import SuiteCost, suite_cost
from adapter_bert_tf.pack.pack import read_pack, read_tensors
from adapter_bert_tf.tuning.methods import Tuning
from tests import tiny
from tests.serve.tasks import make_pack

BASE = sum(array.size for array in tiny.google_tensors().values())


def _adapters(size: int, width: int, layers: int) -> int:
    return 2 * layers * (2 * width * size + width + size)


def test_the_base_is_counted_once():
    cost = SuiteCost(100, (2, 3))
    assert cost.total == pytest.approx(1.05)
    assert cost.shares == [0.02, 0.03]
    assert cost.share == pytest.approx(0.025)


def test_full_fine_tuning_shares_nothing():
    assert SuiteCost(100, (100,) * 9).total == pytest.approx(9)


def test_no_tasks_need_no_base():
    assert SuiteCost(100, ()).total == 0


def test_the_papers_suites():
    """Nine tasks with adapters of 64 on BERT-large are 1.2 times the base; 2.1 % a task."""
    cost = SuiteCost(335_000_000, (_adapters(64, 1024, 24),) * 9)
    assert cost.total == pytest.approx(1.2, abs=0.05)
    assert 100 * cost.share == pytest.approx(2.1, abs=0.3)


def test_packs_are_counted_by_what_they_hold(bert, tmp_path):
    packs = [make_pack(bert, tmp_path / str(n), classes=n) for n in (2, 3)]
    norms = 2 * tiny.WIDTH * (2 * tiny.LAYERS + 1)
    shared = _adapters(tiny.ADAPTER, tiny.WIDTH, tiny.LAYERS) + norms
    heads = [(tiny.WIDTH + 1) * n for n in (2, 3)]
    cost = suite_cost(packs, BASE)
    assert cost.held == tuple(shared + head for head in heads)
    assert cost.total == pytest.approx(1 + (2 * shared + sum(heads)) / BASE)


def test_a_pack_of_full_fine_tuning_replaces_the_base(bert, tmp_path):
    pack = make_pack(bert, tmp_path / "full", adapter=None, tuning=Tuning("full"))
    tensors = read_tensors(pack, read_pack(pack))
    base = sum(array.size for path, array in tensors.items() if not path.startswith("head/"))
    assert 1 <= suite_cost([pack], base).total < 1.1


def test_the_base_is_counted_where_the_pack_says(bert, tmp_path):
    pack = make_pack(bert, tmp_path / "pack")
    weights = load_encoder(bert, None).weights
    assert suite_cost([pack]).base == sum(each.shape.num_elements() for each in weights)


def test_packs_of_different_bases_are_refused(bert, tmp_path):
    other = tiny.write_google_bert(tmp_path / "other", seed=1)
    packs = [make_pack(each, tmp_path / str(i)) for i, each in enumerate((bert, other))]
    with pytest.raises(UserError, match="different bases"):
        suite_cost(packs, BASE)


def test_a_pack_without_weights_is_named(bert, tmp_path):
    pack = make_pack(bert, tmp_path / "pack")
    weights = tmp_path / "pack" / read_pack(pack).weights
    weights.unlink()
    with pytest.raises(UserError, match=weights.name):
        suite_cost([pack], BASE)
