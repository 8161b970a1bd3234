import json
import os
import pathlib
import subprocess
import sys
import zipfile

import pytest

from adapter_bert_tf import UserError
from adapter_bert_tf.glue_submission import write_glue_submission


def _run_folder(folder, *names: str) -> str:
    folder.mkdir()
    for name in names:
        (folder / name).write_text("index\tprediction\n0\t1\n")
    return str(folder)


def test_runs_are_put_together(tmp_path):
    runs = [
        _run_folder(tmp_path / "a", "CoLA.tsv"),
        _run_folder(tmp_path / "b", "MNLI-m.tsv", "MNLI-mm.tsv", "eval_results.json"),
    ]
    output = tmp_path / "glue.zip"
    command = [sys.executable, "-m", "adapter_bert_tf.glue_submission"]
    done = subprocess.run(
        [*command, f"--runs={','.join(runs)}", f"--output={output}"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "missing" in done.stdout
    assert "SST-2.tsv" in done.stdout
    with zipfile.ZipFile(output) as archive:
        assert sorted(archive.namelist()) == ["CoLA.tsv", "MNLI-m.tsv", "MNLI-mm.tsv"]
        assert archive.read("CoLA.tsv") == b"index\tprediction\n0\t1\n"


def test_wrong_runs_are_told(tmp_path):
    first = _run_folder(tmp_path / "a", "CoLA.tsv")
    with pytest.raises(UserError, match="no submission file"):
        write_glue_submission([_run_folder(tmp_path / "b")], str(tmp_path / "x.zip"))
    with pytest.raises(UserError, match="CoLA.tsv is in .*a as well"):
        write_glue_submission([first, _run_folder(tmp_path / "c", "CoLA.tsv")], "x.zip")
    with pytest.raises(UserError, match="--runs: expected the folders"):
        write_glue_submission([], str(tmp_path / "x.zip"))
    with pytest.raises(UserError, match="nowhere: no such folder"):
        write_glue_submission([str(tmp_path / "nowhere")], str(tmp_path / "x.zip"))
    for task, told in (("sms_spam", "sms_spam"), (None, "files of your own")):
        run = _run_folder(tmp_path / told)
        (tmp_path / told / "settings.json").write_text(json.dumps({"task": task}))
        with pytest.raises(UserError, match=f"a run of {told}, which is no task of GLUE"):
            write_glue_submission([run], str(tmp_path / "x.zip"))
    run = _run_folder(tmp_path / "cola")
    (tmp_path / "cola" / "settings.json").write_text('{"task": "cola"}')
    with pytest.raises(UserError, match="no submission file; run"):
        write_glue_submission([run], str(tmp_path / "x.zip"))
    assert not (tmp_path / "x.zip").exists()


def test_nothing_is_overwritten(tmp_path):
    run = _run_folder(tmp_path / "a", "CoLA.tsv")
    for output in (tmp_path / "a" / "CoLA.tsv", tmp_path / "letter.docx"):
        output.write_text("precious")
        with pytest.raises(UserError, match=f"--output={output}: exists, and is not overwritten"):
            write_glue_submission([run], str(output))
        assert output.read_text() == "precious"


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda path: path.write_text(""), "is empty"),
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: os.mkfifo(path), "not a pipe"),
        (lambda path: path.symlink_to("/dev/zero"), "not a pipe, socket or device"),
        (lambda path: (path.touch(), os.truncate(path, 10**12)), "expected 33,554,432 at most"),
    ],
)
def test_what_is_no_file_of_predictions_is_told(tmp_path, make, told):
    make(pathlib.Path(_run_folder(tmp_path / "a"), "CoLA.tsv"))
    with pytest.raises(UserError, match=f"CoLA.tsv: .*{told}"):
        write_glue_submission([str(tmp_path / "a")], str(tmp_path / "x.zip"))
    assert not (tmp_path / "x.zip").exists()
