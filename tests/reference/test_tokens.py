"""Against features that the original program made."""

import hashlib
import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from adapter_bert_tf.base.presets import find_minilm
from adapter_bert_tf.text.inputs import IDS, MASK, SEGMENTS, encode
from adapter_bert_tf.text.tokenizer import Tokenizer, read_vocabulary
from tests.conftest import SHARED

# The public uncased vocabulary, which MiniLM has as well.
VOCABULARY = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
OURS = pathlib.Path(__file__).parent / "tokens"
# CoLA's and MRPC's rows too, which are not ours to pass on.
ALL = SHARED / "reference" / "tokens"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    path = pathlib.Path(find_minilm()) / "vocab.txt"
    assert hashlib.sha256(path.read_bytes()).hexdigest() == VOCABULARY
    return Tokenizer(read_vocabulary(str(path)))


@pytest.mark.parametrize("folder", [OURS, ALL], ids=["ours", "all"])
def test_every_row_is_the_originals(tokenizer, folder):
    if not folder.is_dir():
        pytest.skip(f"no rows at {folder}")
    texts = json.loads((folder / "texts.json").read_text())
    with np.load(folder / "features.npz") as file:
        features = dict(file)
    length = int(features["max_seq_length"])
    pairs = np.array([pair is not None for _, pair in texts])
    assert len(texts) == len(features["input_ids"])
    assert 0 < pairs.sum() < len(texts)
    for rows in (np.flatnonzero(pairs), np.flatnonzero(~pairs)):
        first = tf.constant([texts[row][0] for row in rows])
        second = tf.constant([texts[row][1] for row in rows]) if pairs[rows[0]] else None
        found = encode(tokenizer, first, second, length)
        names = {IDS: "input_ids", MASK: "input_mask", SEGMENTS: "segment_ids"}
        for name, theirs in names.items():
            dense = found[name].to_tensor(shape=[None, length])
            np.testing.assert_array_equal(dense, features[theirs][rows], err_msg=name)
