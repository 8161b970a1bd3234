import subprocess
import sys

import numpy as np
import pytest

from adapter_bert_tf import AdapterConfig, UserError, load_encoder, load_pack, read_pack
from adapter_bert_tf.base.checkpoint import write_checkpoint
from adapter_bert_tf.pack.original import import_checkpoint
from tests import tiny
from tests.programs import run_quickly

SIZE = tiny.ADAPTER


def _run(*flags: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "adapter_bert_tf.import_checkpoint", *flags]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture
def original(tmp_path):
    folder = tiny.write_google_bert(tmp_path / "original")
    write_checkpoint(f"{folder}/model.ckpt-9", tiny.original_tensors())
    return folder


def test_becomes_a_base_and_a_pack(original, bert, tmp_path):
    output = tmp_path / "imported"
    done = _run(
        f"--bert_config_file={original}/bert_config.json",
        f"--checkpoint={original}/model.ckpt-9",
        f"--output_dir={output}",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["base:", f"{output}/base", "pack:", f"{output}/pack"]

    adapter = read_pack(output / "pack").adapter
    assert (adapter.size, adapter.layers) == (SIZE, None)
    model = load_pack(load_encoder(output / "base", adapter), output / "pack")
    tensors = tiny.original_tensors()
    encoder = load_encoder(f"{original}/model.ckpt-9", adapter)
    pooled = encoder(tiny.inputs())["pooled_output"]
    expected = pooled @ tensors["output_weights"].T + tensors["output_bias"]
    np.testing.assert_allclose(model(tiny.inputs()), expected, atol=1e-5)
    assert load_encoder(output / "base", None).base.vocabulary.tokens[4] == "w0"

    # The pack fits the BERT that it was tuned on too, wherever that comes from.
    again = load_pack(load_encoder(bert, adapter), output / "pack")
    np.testing.assert_array_equal(again(tiny.inputs()), model(tiny.inputs()))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"checkpoint": "nowhere"}, "nowhere: no such checkpoint"),
        ({"bert_config_file": "nowhere.json"}, "nowhere.json: No such file"),
        ({"checkpoint": "bert_model.ckpt"}, "expected adapters of one size, found none"),
        ({"output_dir": ""}, "exists already, and is not overwritten"),
        ({"vocab_file": "bert_config.json"}, "the vocabulary has 1 tokens"),
    ],
)
def test_wrong_flags_end_with_one_line_and_write_nothing(original, tmp_path, changes, told):
    flags = {
        "bert_config_file": "bert_config.json",
        "checkpoint": "model.ckpt-9",
        "output_dir": "imported",
    } | changes
    before = sorted(path.name for path in (tmp_path / "original").iterdir())
    done = run_quickly(
        "adapter_bert_tf.import_checkpoint",
        *(f"--{name}={original}/{value}" for name, value in flags.items()),
    )
    assert done.returncode == 1
    assert told in done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(path.name for path in (tmp_path / "original").iterdir()) == before


@pytest.mark.parametrize(
    ("design", "told"),
    [({"activation": "relu"}, "activation=gelu, not relu"), ({"parallel": True}, "parallel")],
)
def test_the_original_knows_one_design(original, design, told):
    with pytest.raises(UserError, match=told):
        load_encoder(f"{original}/model.ckpt-9", AdapterConfig(size=SIZE, **design))


def test_one_output_becomes_a_regression(original, bert, tmp_path):
    tensors = tiny.original_tensors()
    tensors["output_weights"], tensors["output_bias"] = tensors["output_weights"][:1], np.ones([1])
    write_checkpoint(f"{original}/model.ckpt-9", tensors)
    import_checkpoint(
        f"{original}/model.ckpt-9", f"{original}/bert_config.json", f"{tmp_path}/imported"
    )
    pack = read_pack(tmp_path / "imported" / "pack")
    assert pack.head["kind"] == "regression"
    model = load_pack(load_encoder(bert, pack.adapter), tmp_path / "imported" / "pack")
    assert model(tiny.inputs()).shape == [4]


def test_a_checkpoint_without_a_head_is_told(original, tmp_path):
    tensors = tiny.original_tensors()
    del tensors["output_bias"]
    write_checkpoint(f"{original}/model.ckpt-9", tensors)
    done = run_quickly(
        "adapter_bert_tf.import_checkpoint",
        f"--bert_config_file={original}/bert_config.json",
        f"--checkpoint={original}/model.ckpt-9",
        f"--output_dir={tmp_path}/imported",
    )
    assert done.returncode == 1
    assert "expected a head" in done.stderr
