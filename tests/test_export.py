"""python -m adapter_bert_tf.export as a user starts it."""

import os
import subprocess
import sys

import numpy as np
import pytest

from adapter_bert_tf.base.load import find_base
from adapter_bert_tf.serve.export import export_packs
from tests.programs import run_quickly, run_without_tensorflow
from tests.serve.tasks import TEXTS, ask, expected, load, make_pack


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
    assert done.stdout.endswith(f"exported: {model}/1\n")
    done = run_quickly("adapter_bert_tf.export", f"--add_to={model}/1", f"--packs={packs[1]}")
    assert done.returncode == 0, done.stderr
    lines = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    assert ["added", f"b, from {packs[1]}"] in lines
    assert [text.split(":")[0] for name, text in lines if name == "task"] == ["a", "b"]
    assert lines[-1] == ["exported:", f"{model}/2"]
    before = ask(load(model / "1")["serving_default"], text=TEXTS)
    after = ask(load(model / "2")["serving_default"], text=TEXTS, task=["a"] * len(TEXTS))
    assert before["probabilities"].tolist() == after["probabilities"].tolist()
    cli = os.path.join(os.path.dirname(sys.executable), "saved_model_cli")
    shown = subprocess.run([cli, "show", "--dir", model / "2", "--all"], capture_output=True)
    for told in ("signature_def['serving_default']", "inputs['task']", "inputs['input_type_ids']"):
        assert told in shown.stdout.decode()


@pytest.mark.slow
def test_a_task_is_replaced_and_another_renamed_and_removed(bert, packs, tmp_path):
    model = tmp_path / "model"
    export_packs(find_base(bert), packs, str(model))
    again = make_pack(bert, tmp_path / "again", "a", seed=7, max_seq_length=24)
    done = run_quickly(
        "adapter_bert_tf.export", f"--add_to={model}", f"--packs={again}", "--rename=b:c"
    )
    assert done.returncode == 0, done.stderr
    assert f"replaced  a, by {again}" in done.stdout
    assert "renamed   b to c" in done.stdout
    first, second = (load(model / number)["serving_default"] for number in "12")
    tuned = ask(second, text=TEXTS, task=["a"] * len(TEXTS))["probabilities"]
    np.testing.assert_allclose(tuned, expected(bert, again), atol=1e-5)
    before = ask(first, text=TEXTS, task=["b"] * len(TEXTS))["probabilities"].tolist()
    assert ask(second, text=TEXTS, task=["c"] * len(TEXTS))["probabilities"].tolist() == before

    done = run_quickly("adapter_bert_tf.export", f"--add_to={model}/1", "--remove=a")
    assert done.returncode == 0, done.stderr
    assert "removed   a\n" in done.stdout
    told = "made from version 1, not from the newest, 2: it lacks a, c"
    assert f"note      {told}\n" in done.stdout
    assert f"Note: {told}." in (model / "3" / "README.md").read_text()
    assert ask(load(model / "3")["serving_default"], text=TEXTS)["probabilities"].tolist() == before


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--export_dir=models/m"], "--packs: expected the folders of task packs"),
        (["--packs=/nowhere"], "--export_dir, or --add_to: expected one"),
        (["--packs=/nowhere", "--export_dir=models/m", "--bert=BERT"], "/nowhere/pack.json"),
        (["--packs=/nowhere", "--export_dir=models/m", "--bert=minilmm"], "did you mean minilm"),
        (["--packs=/nowhere", "--add_to=models/3"], "adapter_bert_tf.json: No such file"),
        (["--add_to=models/3"], "--packs: expected the folders of task packs"),
        (["--add_to=models/3", "--rename=a"], "--rename=a: expected OLD:NEW"),
        (["--packs=a", "--export_dir=models/m", "--remove=a"], "expected with --add_to"),
        (
            ["--add_to=models/3", "--remove=a", "--drop_layers=1"],
            "--drop_layers: expected with --packs",
        ),
        (["--add_to=models/3", "--packs=a", "--bert=BERT"], "--bert: not with --add_to"),
        (["--add_to=models/3", "--remove=a", "--do_lower_case"], "--do_lower_case: not with"),
        (
            ["--add_to=models/3", "--rename=a:b,a:c"],
            "--rename=a: expected one new name, not b and c",
        ),
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
