import os
import subprocess
import sys

from tests.programs import ROOT

_PROGRAM = '''
"""A program.

    python program.py --size=3
"""
import sys
from absl import flags
from adapter_bert_tf import UserError, entry

def main():
    assert "tensorflow" not in sys.modules
    if flags.FLAGS.size == 0:
        raise KeyboardInterrupt
    if flags.FLAGS.size < 0:
        raise UserError("--size: expected a number above 0")
    print(flags.FLAGS.size)
    if flags.FLAGS.words:
        print(flags.FLAGS.words)

if __name__ == "__main__":
    flags.DEFINE_integer("size", 3, "Shape: how large.")
    flags.DEFINE_enum("color", None, ["red", "blue"], "Look: which color.")
    flags.DEFINE_string("words", None, "Text: what is printed.")
    entry.run(main)
'''


def _run(tmp_path, *flags: str) -> subprocess.CompletedProcess:
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM)
    # The program is elsewhere, and has to find this package.
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, program, *flags]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def test_runs_with_its_flags(tmp_path):
    done = _run(tmp_path, "--size=5")
    assert (done.returncode, done.stdout) == (0, "5\n")


def test_a_user_error_is_one_line_and_code_1(tmp_path):
    done = _run(tmp_path, "--size=-1")
    assert (done.returncode, done.stderr) == (1, "error: --size: expected a number above 0\n")
    assert _run(tmp_path, "stray").stderr.startswith("error: stray: unexpected argument")


def test_a_file_of_flags_that_is_none_is_told_in_a_line(tmp_path):
    path = tmp_path / "flags"
    path.write_text("--size=7\n")
    assert _run(tmp_path, f"--flagfile={path}").stdout == "7\n"
    path.write_bytes(bytes(range(256)))
    for flags in ([f"--flagfile={path}"], ["-flagfile", str(path)]):
        done = _run(tmp_path, *flags)
        assert (done.returncode, done.stderr) == (1, f"error: {path}: not UTF-8 at byte 128\n")
    path.unlink()
    os.mkfifo(path)
    done = _run(tmp_path, f"--flagfile={path}")
    assert done.stderr == f"error: {path}: expected a file, not a pipe, socket or device\n"


def test_what_a_terminal_can_not_show_is_escaped(tmp_path):
    done = _run(tmp_path, "--words=a\udcff")
    assert (done.returncode, done.stdout) == (0, "3\na\\udcff\n")


def test_ctrl_c_ends_it_without_a_trace(tmp_path):
    done = _run(tmp_path, "--size=0")
    assert (done.returncode, done.stderr) == (130, "")


def test_help_shows_flags_in_groups(tmp_path):
    done = _run(tmp_path, "--helpshort")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[lines.index("Shape") + 1].split() == ["--size", "how", "large.", "[3]"]
    assert lines[lines.index("Look") + 1].split() == ["--color", "which", "color.", "<red|blue>"]


def test_help_ends_quietly_where_its_reader_has_enough(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, program, "--help"]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(command, env=environment, stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")
