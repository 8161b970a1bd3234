"""The baseline program, as a user starts it."""

import pathlib
import subprocess
import sys
import time

import pytest

from adapter_bert_tf.experiment.records import read_records
from tests.baseline import made
from tests.programs import ROOT, run_quickly, run_without_tensorflow

PROGRAM = "adapter_bert_tf.baseline"


@pytest.fixture(scope="module")
def given(tmp_path_factory, second_format) -> list[str]:
    folder = tmp_path_factory.mktemp("data")
    sizes = {"train": 96, "dev": 40, "test": 40}
    files = {
        name: made.write_csv(folder / f"{name}.csv", rows, seed)
        for seed, (name, rows) in enumerate(sizes.items())
    }
    return [
        *(f"--{name}_file={path}" for name, path in files.items()),
        f"--cache_dir={folder}/cache",
        f"--space=module={second_format} samples=1e5 deep_rate=0.05,0.1",
    ]


@pytest.fixture(scope="module")
def found(given, tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("found") / "out"
    done = run_quickly(PROGRAM, *given, "--trials=4", f"--output_dir={folder}")
    assert done.returncode == 0, done.stderr
    assert f"pack: {folder}/pack" in done.stdout
    assert "test_accuracy" in done.stdout
    return folder


def test_the_best_on_validation_is_kept_with_its_test_score(found):
    records = read_records(str(found))
    assert [each.state for each in records] == ["complete"] * 4
    best = max(records, key=lambda each: each.value)
    assert [each for each in records if each.test is not None] == [best]
    packs = list(found.glob("trials/*/pack"))
    assert packs == [found / best.folder / "pack"]
    text = f"test_accuracy {best.test:.4f}"
    shown = run_quickly("adapter_bert_tf.show", f"{found}/pack").stdout
    assert text in shown
    assert "module=" in shown
    assert "All designs, best first" in (found / "report.md").read_text()


def test_what_was_found_predicts(found):
    asked = f"--pack={found}/pack", f"--text={made.NO}", f"--text={made.YES}"
    assert "--trust_module" in run_quickly("adapter_bert_tf.predict", *asked).stderr
    done = run_quickly("adapter_bert_tf.predict", *asked, "--trust_module")
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["no", "yes"]


def test_the_same_command_trains_nothing_again_and_more_trials_go_on(found, given):
    before = read_records(str(found))
    for trials, count in ((4, 4), (5, 5)):
        done = run_quickly(PROGRAM, *given, f"--trials={trials}", f"--output_dir={found}")
        assert done.returncode == 0, done.stderr
        after = read_records(str(found))
        assert len(after) == count
        assert [each.value for each in after[:4]] == [each.value for each in before]


@pytest.mark.slow
def test_a_killed_search_finds_what_one_finds_that_was_not(given, tmp_path):
    command = [sys.executable, "-m", PROGRAM, *given, "--trials=8"]

    def start(name: str) -> subprocess.Popen:
        return subprocess.Popen(
            [*command, f"--output_dir={tmp_path}/{name}"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    assert start("whole").wait(300) == 0
    killed = start("killed")
    while not (tmp_path / "killed" / "trials.csv").exists():
        assert killed.poll() is None
        time.sleep(0.1)
    killed.kill()
    killed.communicate()
    assert start("killed").wait(300) == 0

    def values(name: str) -> list[tuple]:
        return [(each.settings, each.value) for each in read_records(str(tmp_path / name))]

    assert values("killed") == values("whole")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "expected either --task, or files of your own"),
        (["--task=sms_spm"], "--task=sms_spm: no such task; did you mean sms_spam"),
        (["--task=sms_spam", "--data_dir=/nowhere"], "--data_dir=/nowhere: no folder for sms_spam"),
        (["--train_file=/nowhere.csv"], "/nowhere.csv: No such file"),
        (["--task=sms_spam", "--space=layers=1"], "--space=layers=1: expected CHOICE=VALUES"),
        (["--task=sms_spam", "--space=module=poems"], "poems: no text module"),
        (["--task=sms_spam", "--space=module=http://a.com/m"], "expected https://"),
        (["--task=CoLA", "--trials=0"], "trials"),
    ],
)
def test_mistakes_are_one_line_before_tensorflow_is_loaded(
    arguments, told, tmp_path, second_format
):
    module = [f"--space=module={second_format}"]
    done = run_without_tensorflow(PROGRAM, *module, *arguments, f"--output_dir={tmp_path}/out")
    assert done.returncode == 1
    assert told in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_remote_folder_is_refused_at_the_start(tmp_path):
    flags = ["--task=sms_spam", "--output_dir=ram://b"]
    done = run_without_tensorflow(PROGRAM, *flags, cwd=tmp_path)
    assert done.stderr == "error: --output_dir=ram://b: expected a folder on this machine\n"
    assert not list(tmp_path.iterdir())


def test_labels_that_are_wrong_are_told_before_anything_is_written(given, tmp_path):
    bad = tmp_path / "bad.csv"
    bad.write_text("text,label\nword1,maybe\n")
    flags = [*given, f"--dev_file={bad}", f"--output_dir={tmp_path}/out"]
    done = run_without_tensorflow(PROGRAM, *flags)
    assert done.returncode == 1
    assert "unknown label 'maybe'" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()
