"""run_squad.py and the programs beside it, as a user starts them."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from adapter_bert_tf import load_task
from tests import tiny
from tests.programs import run_quickly, run_with_mock_data

ROOT = pathlib.Path(__file__).parents[1]


@pytest.fixture(scope="module")
def files(tmp_path_factory, bert) -> list[str]:
    folder = tmp_path_factory.mktemp("squad")
    return [
        f"--train_file={tiny.write_squad(folder / 'train.json', 80)}",
        f"--predict_file={tiny.write_squad(folder / 'dev.json', 30)}",
        f"--bert={bert}",
        "--max_seq_length=32",
        "--doc_stride=8",
        "--max_query_length=8",
        "--train_batch_size=8",
        "--learning_rate=3e-3",
        f"--cache_dir={folder / 'cache'}",
    ]


@pytest.fixture(scope="module")
def run(files, tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("runs") / "squad"
    command = [sys.executable, "run_squad.py", *files, f"--output_dir={folder}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SQuAD v1.1: span" in done.stdout
    return folder


@pytest.mark.slow
def test_the_command_as_it_is_typed(tmp_path):
    done = run_with_mock_data("run_squad.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    folder = re.search(r"^folder +(runs/\S+)$", done.stdout, re.MULTILINE)[1]
    assert len(_json(tmp_path / folder / "predictions.json")) == 8
    assert load_task(tmp_path / folder / "pack").answer("When?", "In 1889.").text
    assert os.listdir(tmp_path) == ["runs"]


def _json(path: pathlib.Path):
    return json.loads(path.read_text())


def test_writes_answers_and_scores(run):
    predictions = _json(run / "predictions.json")
    assert len(predictions) == 30
    n_best = _json(run / "nbest_predictions.json")
    assert all(n_best[name][0]["text"] == text for name, text in predictions.items())
    results = _json(run / "eval_results.json")
    assert results["metrics"].keys() == {"exact_match", "f1"}
    assert results["task"] == "SQuAD v1.1"
    assert not (run / "null_odds.json").exists()


def test_a_finished_run_says_so(run, files):
    before = (run / "predictions.json").stat().st_mtime_ns
    done = run_quickly("run_squad.py", *files, f"--output_dir={run}")
    assert done.returncode == 0, done.stderr
    assert "is finished" in done.stdout
    assert (run / "predictions.json").stat().st_mtime_ns == before


def test_scores_a_file(run, files):
    data = next(flag for flag in files if "predict_file" in flag).split("=")[1]
    program = "adapter_bert_tf.squad_evaluate"
    done = run_quickly(program, data, str(run / "predictions.json"))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == pytest.approx(_json(run / "eval_results.json")["metrics"])


def test_answers_a_question(run, bert, tmp_path):
    context = tmp_path / "context.txt"
    context.write_text("w3 w4\nw5  w0 é w6. " * 200)
    done = run_quickly(
        "adapter_bert_tf.answer",
        f"--pack={run / 'pack'}",
        f"--bert={bert}",
        f"--context={context}",
        "w1 w2?",
    )
    assert done.returncode == 0, done.stderr
    answer, _, place = (line.split(maxsplit=1)[1] for line in done.stdout.splitlines())
    start, end = (int(word.replace(",", "")) for word in place.split()[1:4:2])
    assert " ".join(context.read_text()[start:end].split()) == answer


def test_wrong_input_is_told_in_one_line(files, tmp_path):
    flags = [*files, "--train_file=README.md", f"--output_dir={tmp_path / 'run'}"]
    done = run_quickly("run_squad.py", *flags, cwd=ROOT)
    assert done.returncode == 1
    assert "README.md: not JSON: Expecting value at line 1, column 1" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()
