"""python -m adapter_bert_tf.export_adapterhub as a user starts it."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest

from adapter_bert_tf import AdapterConfig, Tuning, import_adapterhub, load_encoder, load_pack
from adapter_bert_tf.pack.pack import read_pack
from tests import numpy_bert, tiny
from tests.adapterhub import hub
from tests.programs import ROOT, run_quickly
from tests.serve.tasks import make_pack

PROGRAM = "adapter_bert_tf.export_adapterhub"
TUNING = Tuning(layer_norms=False)


def test_a_pack_becomes_a_folder(bert, tmp_path):
    adapter = AdapterConfig(5, design="parallel", activation="relu")
    pack = make_pack(bert, tmp_path / "pack", "mine", adapter, classes=3, tuning=TUNING)
    output = tmp_path / "hub" / "mine"
    flags = [f"--pack={pack}", f"--output_dir={output}", "--name=other"]
    done = subprocess.run(
        [sys.executable, "-m", PROGRAM, *flags], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"adapter: {output}\n"
    # What the files mean is what the pack computes.
    config, tensors, head_config, head_tensors = hub.read(output)
    assert config["name"] == "other"
    model = load_pack(load_encoder(bert, adapter), pack)
    tokens = hub.hidden_states(config, tensors, tiny.inputs())
    mask = tiny.inputs()["input_mask"][:, :, None]
    found = model.encoder(tiny.inputs())["sequence_output"]
    np.testing.assert_allclose(found * mask, tokens * mask, atol=1e-5)
    wanted = hub.logits(head_config, head_tensors, tokens)
    np.testing.assert_allclose(model(tiny.inputs()), wanted, atol=1e-5)
    assert np.abs(tokens - numpy_bert.encode(tiny.inputs())).max() > 0.1

    import_adapterhub(output, bert=bert, output_dir=tmp_path / "again")
    assert read_pack(tmp_path / "again").labels == ["mine-0", "mine-1", "mine-2"]
    again = load_pack(load_encoder(bert, adapter), tmp_path / "again")
    np.testing.assert_array_equal(again(tiny.inputs()), model(tiny.inputs()))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"pack": "nowhere"}, "nowhere/pack.json: No such file"),
        ({"pack": "norms"}, "norms: has trained LayerNorms, .* --layer_norms=false"),
        ({"output_dir": "pack"}, "pack: exists already, and is not overwritten"),
        ({"name": "a.b"}, "--name='a.b': PyTorch does not take this name"),
        ({"bert": "nowhere"}, "nowhere: no such folder, checkpoint or preset"),
    ],
    ids=str,
)
def test_mistakes_end_with_one_line_and_write_nothing(bert, tmp_path, changes, told):
    make_pack(bert, tmp_path / "pack", "mine", tuning=TUNING)
    make_pack(bert, tmp_path / "norms", "norms")
    before = sorted(os.listdir(tmp_path))
    flags = {"pack": "pack", "output_dir": "hub"} | changes
    done = run_quickly(PROGRAM, *(f"--{key}={each}" for key, each in flags.items()), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.search(told, done.stderr), done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(os.listdir(tmp_path)) == before
