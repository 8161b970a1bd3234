import json
import os
import subprocess
import sys

import pytest

from adapter_bert_tf import load_task
from adapter_bert_tf.score import find_task
from adapter_bert_tf.serve.export import export
from tests.programs import ROOT, run_without_tensorflow
from tests.serve.tasks import make_pack

PROGRAM = "adapter_bert_tf.score"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.fixture(scope="module")
def place(bert, tmp_path_factory):
    """A folder with packs, their export, and a file to score."""
    folder = tmp_path_factory.mktemp("score")
    packs = [
        make_pack(bert, folder / "one", "one", max_seq_length=24),
        make_pack(bert, folder / "two", "two", classes=None, pair=True, max_seq_length=24),
    ]
    export(packs, str(folder / "models"), bert=bert)
    (folder / "in.csv").write_text("text,other\nw1,w2\nw3 w4,w5\n")
    return folder


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ("--export_dir=nowhere --task=one --output=out.csv", "nowhere/assets.extra/"),
        ("--export_dir=models/1 --output=out.csv", "--task: expected one of one, two"),
        ("--export_dir=models/1 --task=on --output=out.csv", "--task=on: not in models/1"),
        ("--export_dir=models/1 --task=one --output=out", "expected a name that ends in .csv"),
        (
            "--export_dir=models/1 --task=one --output=out.csv --text_pair_column=other",
            "--text_pair_column: one is a task on single texts",
        ),
    ],
)
def test_mistakes_are_told_in_a_line_before_tensorflow_is_loaded(place, flags, told):
    done = run_without_tensorflow(PROGRAM, "--input=*.csv", *flags.split(), cwd=place)
    assert done.returncode == 1
    assert told in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr


def test_a_model_means_its_newest_version(place):
    assert find_task(str(place / "models"), "one")[:2] == (str(place / "models" / "1"), "one")


_WITHOUT_BEAM = """
import runpy, sys
sys.modules["apache_beam"] = None
runpy.run_module("adapter_bert_tf.score", run_name="__main__", alter_sys=True)
"""


def test_without_beam_it_says_what_to_install(place):
    flags = ["--export_dir=models/1", "--task=one", "--input=*.csv", "--output=out.csv"]
    command = [sys.executable, "-c", _WITHOUT_BEAM, *flags]
    done = subprocess.run(command, cwd=place, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install 'adapter-bert-tf[beam]'" in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr


@pytest.mark.slow
def test_files_are_scored(bert, place):
    pytest.importorskip("apache_beam", reason="Apache Beam is not installed: extra beam")
    flags = ["--export_dir=models", "--task=one", "--input=*.csv", "--output=out/a.jsonl"]
    command = [sys.executable, "-m", PROGRAM, *flags]
    done = subprocess.run(command, cwd=place, env=ENVIRONMENT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "scored: out/a-*.jsonl, 2 rows\n"), done.stderr
    (path,) = (place / "out").iterdir()
    assert path.name == "a-00000-of-00001.jsonl"
    rows = sorted(map(json.loads, path.read_text().splitlines()), key=lambda row: row["text"])
    wanted = load_task(str(place / "one"), bert).predict(["w1", "w3 w4"])
    assert [row["label"] for row in rows] == [each.label for each in wanted]
    assert [row["other"] for row in rows] == ["w2", "w5"]
    # Beam is there, and the mistake is in a column.
    done = subprocess.run(
        [*command, "--text_column=x"], cwd=place, env=ENVIRONMENT, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1, done.stderr
