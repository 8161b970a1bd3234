"""python -m adapter_bert_tf.export as a user starts it."""

import os
import subprocess
import sys

import pytest

from tests.programs import run_quickly, run_without_tensorflow
from tests.serve.tasks import TEXTS, ask, load, make_pack


def _run(*flags: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "adapter_bert_tf.export", *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def packs(bert, tmp_path_factory) -> list[str]:
    folder = tmp_path_factory.mktemp("packs")
    return [
        make_pack(bert, folder / name, name, seed=i, max_seq_length=24)
        for i, name in enumerate(("a", "b"))
    ]


def test_packs_are_exported_and_added_and_shown(bert, packs, tmp_path):
    model = tmp_path / "model"
    done = _run(f"--bert={bert}", f"--packs={packs[0]}", f"--export_dir={model}")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"exported: {model}/1\n"
    done = run_quickly("adapter_bert_tf.export", f"--add_to={model}/1", f"--packs={packs[1]}")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"exported: {model}/2\n"
    before = ask(load(model / "1")["serving_default"], text=TEXTS)
    after = ask(load(model / "2")["serving_default"], text=TEXTS, task=["a"] * len(TEXTS))
    assert before["probabilities"].tolist() == after["probabilities"].tolist()
    cli = os.path.join(os.path.dirname(sys.executable), "saved_model_cli")
    shown = subprocess.run([cli, "show", "--dir", model / "2", "--all"], capture_output=True)
    for told in ("signature_def['serving_default']", "inputs['task']", "inputs['input_type_ids']"):
        assert told in shown.stdout.decode()


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--export_dir=models/m"], "--packs: expected the folders of task packs"),
        (["--packs=/nowhere"], "--export_dir, or --add_to: expected one"),
        (["--packs=/nowhere", "--export_dir=models/m", "--bert=BERT"], "/nowhere/pack.json"),
        (["--packs=/nowhere", "--export_dir=models/m", "--bert=minilmm"], "did you mean minilm"),
        (["--packs=/nowhere", "--add_to=models/3"], "adapter_bert_tf.json: No such file"),
    ],
)
def test_wrong_input_ends_with_one_line(bert, flags, told, tmp_path):
    flags = [flag.replace("=BERT", f"={bert}") for flag in flags]
    done = run_quickly("adapter_bert_tf.export", *flags, cwd=tmp_path)
    assert done.returncode == 1
    assert told in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert not (tmp_path / "models").exists()


@pytest.mark.parametrize("program", ["export", "answer"])
def test_a_pack_that_is_not_there_is_told_before_tensorflow_is_loaded(program, tmp_path):
    (tmp_path / "text.txt").write_text("A text.")
    flags = {
        "export": ["--packs=/nowhere", f"--export_dir={tmp_path}/model"],
        "answer": ["--pack=/nowhere", f"--context={tmp_path}/text.txt", "Why?"],
    }
    done = run_without_tensorflow(f"adapter_bert_tf.{program}", *flags[program])
    assert done.returncode == 1
    assert done.stderr.strip() == "error: /nowhere/pack.json: No such file or directory"
