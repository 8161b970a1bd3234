"""Against features that the original program made."""

import json

import numpy as np
import pytest
import tensorflow as tf

from adapter_bert_tf import UserError
from adapter_bert_tf.base.presets import find_minilm
from adapter_bert_tf.text.inputs import IDS, MASK, SEGMENTS, encode
from adapter_bert_tf.text.tokenizer import Tokenizer, read_vocabulary


def test_every_row_is_the_originals(reference):
    try:
        # The public uncased vocabulary is MiniLM's as well.
        tokenizer = Tokenizer(read_vocabulary(f"{find_minilm()}/vocab.txt"))
    except UserError as error:
        pytest.skip(str(error))
    texts = json.loads((reference / "tokens" / "texts.json").read_text())
    with np.load(reference / "tokens" / "features.npz") as file:
        features = dict(file)
    length = int(features["max_seq_length"])
    pairs = np.array([pair is not None for _, pair in texts])
    for rows in (np.flatnonzero(pairs), np.flatnonzero(~pairs)):
        first = tf.constant([texts[row][0] for row in rows])
        second = tf.constant([texts[row][1] for row in rows]) if pairs[rows[0]] else None
        found = encode(tokenizer, first, second, length)
        names = {IDS: "input_ids", MASK: "input_mask", SEGMENTS: "segment_ids"}
        for name, theirs in names.items():
            dense = found[name].to_tensor(shape=[None, length])
            np.testing.assert_array_equal(dense, features[theirs][rows], err_msg=name)
