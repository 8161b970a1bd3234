"""TFDS without a network is told at once, and with its mock data it works."""

import time
import urllib.error
import urllib.request

import pytest
import tensorflow_datasets as tfds

from adapter_bert_tf import UserError
from adapter_bert_tf.data.download import load_tfds


@pytest.mark.parametrize("name", ["glue/cola", "squad/v1.1"])
def test_without_data_and_network_it_is_told_at_once(name, tmp_path, monkeypatch):
    def unreachable(*_, **__):
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(urllib.request, "urlopen", unreachable)
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(tfds.core.constants, "DATA_DIR", str(tmp_path))
    start = time.monotonic()
    with pytest.raises(UserError, match=f"TFDS: {name} is not on this machine.*; give --files"):
        load_tfds(name, "train", "give --files")
    assert time.monotonic() - start < 20


def test_mock_data_needs_no_network(monkeypatch):
    monkeypatch.setattr(urllib.request, "urlopen", None)
    with tfds.testing.mock_data(num_examples=3):
        assert len(list(load_tfds("glue/cola", "train", ""))) == 3
