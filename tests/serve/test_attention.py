"""Rows of equal length are computed as they are, others are padded: the answers are the same."""

import numpy as np
import pytest

from tests.serve.tasks import TEXTS, ask, expected, make_pack, serve


@pytest.fixture(scope="module")
def answer(bert, tmp_path_factory):
    pack = make_pack(bert, tmp_path_factory.mktemp("packs") / "pack", "a", max_seq_length=24)
    signature = serve(bert, [pack])["serving_default"]
    return lambda texts: (ask(signature, text=texts)["probabilities"], expected(bert, pack, texts))


@pytest.mark.parametrize(
    "texts",
    [TEXTS[:1], TEXTS[2:3] * 2, TEXTS, TEXTS[1:2] * 9, TEXTS[:1] * 8 + TEXTS[2:3]],
    ids=["one", "equal", "of several lengths", "equal, but too many", "one longer one"],
)
def test_a_row_does_not_depend_on_the_rows_beside_it(answer, texts):
    probabilities, wanted = answer(texts)
    np.testing.assert_allclose(probabilities, wanted, atol=1e-6)
