"""Rows in every arrangement that attention computes in its own way."""

import numpy as np
import pytest
import tensorflow as tf

from adapter_bert_tf.base.load import find_base
from adapter_bert_tf.serve.export import export_packs
from tests.serve.tasks import ask, expected, make_pack, serve

RANDOM = np.random.default_rng(0)


def _texts(lengths: list[int]) -> list[str]:
    """Different texts of so many words."""
    return [" ".join(f"w{i}" for i in RANDOM.integers(1, 20, length)) for length in lengths]


@pytest.fixture(scope="module")
def pack(bert, tmp_path_factory) -> str:
    return make_pack(bert, tmp_path_factory.mktemp("pack"), "a", max_seq_length=24)


@pytest.fixture(scope="module")
def signature(bert, pack):
    return serve(bert, [pack])["serving_default"]


@pytest.mark.parametrize(
    "lengths", [[5], [5] * 4, [5] * 5, [5] * 8, [5] * 9, [5] * 8 + [6], [1, 9, 3], [*range(1, 20)]]
)
def test_equal_and_padded_rows(lengths, signature, bert, pack):
    texts = _texts(lengths)
    found = ask(signature, text=texts)["probabilities"]
    np.testing.assert_allclose(found, expected(bert, pack, texts, texts), atol=1e-5)


def test_no_rows(signature):
    assert ask(signature, text=[])["probabilities"].shape == (0, 2)


def test_onednn_adds_biases_and_masks_in_the_products(bert, pack, tmp_path):
    version = export_packs(find_base(bert), [pack], str(tmp_path / "model"))
    ops = _ops_when_run(version, _texts([5] * 3))
    if not any(op.startswith("_Mkl") for op in ops):
        pytest.skip("TensorFlow computes without oneDNN here")
    # In all layers but the last: one for queries, keys and values, and one for the scores of rows
    # that are equal, or padded.
    assert ops.count("_MklFusedBatchMatMulV2") >= 2


def _ops_when_run(version: str, texts: list[str]) -> list[str]:
    """The operations of the graph that TensorFlow makes of a signature."""
    v1 = tf.compat.v1
    with v1.Session(graph=tf.Graph()) as session:
        model = v1.saved_model.load(session, ["serve"], version)
        signature = model.signature_def["serving_default"]
        metadata = v1.RunMetadata()
        session.run(
            signature.outputs["probabilities"].name,
            {signature.inputs["text"].name: texts},
            options=v1.RunOptions(output_partition_graphs=True),
            run_metadata=metadata,
        )
    return [node.op for graph in metadata.partition_graphs for node in graph.node]
