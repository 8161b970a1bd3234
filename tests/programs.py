"""Programs, each in a process of its own that has TensorFlow loaded already.

Loading it takes longer than what most of them do. What a program does before and while it loads
TensorFlow is not tested so.
"""

import multiprocessing
import os
import pathlib
import resource
import runpy
import subprocess
import sys
import tempfile
from multiprocessing.context import ForkServerProcess

ROOT = pathlib.Path(__file__).parents[1]
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [
        "tensorflow_text",
        "adapter_bert_tf.run.classifier",
        "adapter_bert_tf.run.squad",
        "adapter_bert_tf.serve.export",
    ]
)


class Ended(subprocess.CompletedProcess):
    """How a program ended.

    Attributes:
      megabytes: The most memory that it had.
    """

    megabytes: float


def run_quickly(program: str, *flags: str, cwd=None) -> Ended:
    """Runs a script of the project, or one of its modules, as `python program flags` would."""
    with tempfile.TemporaryDirectory() as folder:
        process = start_quickly(folder, program, *flags, cwd=cwd)
        try:
            process.join(timeout=300)
        finally:  # A test that has waited for long enough may end the waiting.
            is_late = process.exitcode is None
            process.kill()
        assert not is_late, f"{program} did not end"
        out, err, memory = (pathlib.Path(folder, each).read_text() for each in _TOLD)
    ended = Ended((program, *flags), process.exitcode, out, err)
    ended.megabytes = float(memory)
    return ended


_TOLD = ("out", "err", "memory")


def start_quickly(folder: str, program: str, *flags: str, cwd=None) -> ForkServerProcess:
    """Starts one; what it prints goes to the files `out` and `err` in the folder."""
    paths = [os.path.join(folder, name) for name in _TOLD]
    process = _FORKS.Process(target=_run, args=(program, flags, cwd, *paths))
    process.start()
    return process


_WITHOUT = """
import runpy, sys
sys.modules["tensorflow"] = None  # Importing it fails from here on.
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""


def run_without_tensorflow(program: str, *flags: str, cwd=None) -> subprocess.CompletedProcess:
    """Runs one of the project's modules in a process in which TensorFlow can't be loaded."""
    return subprocess.run(
        [sys.executable, "-c", _WITHOUT, program, *flags],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )


_MOCKED = """
import runpy, sys
import tensorflow as tf, tensorflow_datasets as tfds

CONTEXT = "The tower was built in 1889 by an engineer. It stands in Paris, beside a river."

def questions(builder, *_, **__):
    answers = {"text": ["1889"], "answer_start": [CONTEXT.index("1889")]}
    rows = [
        {"id": str(i), "title": "", "context": CONTEXT, "question": "When?", "answers": answers}
        for i in range(8)
    ]
    return tf.data.Dataset.from_generator(lambda: iter(rows), output_signature={
        **dict.fromkeys(["id", "title", "context", "question"], tf.TensorSpec([], tf.string)),
        "answers": {
            "text": tf.TensorSpec([None], tf.string),
            "answer_start": tf.TensorSpec([None], tf.int32),
        },
    })

# TFDS makes up answers that are not in their contexts.
given = {"as_dataset_fn": questions} if "squad" in sys.argv[1] else {}
with tfds.testing.mock_data(num_examples=24, **given):
    runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""


def run_with_mock_data(program: str, *flags: str, cwd) -> subprocess.CompletedProcess:
    """Runs a script of the project in a process in which TFDS makes up its data."""
    return subprocess.run(
        [sys.executable, "-c", _MOCKED, str(ROOT / program), *flags],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=600,
    )


def _run(program: str, flags: tuple[str, ...], cwd, out: str, err: str, memory: str) -> None:
    for path, number in ((out, 1), (err, 2)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    if cwd:
        os.chdir(cwd)
    sys.argv = [program, *flags]
    try:
        if program.endswith(".py"):
            sys.argv[0] = str(ROOT / program)
            runpy.run_path(sys.argv[0], run_name="__main__")
        else:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        pathlib.Path(memory).write_text(str(kilobytes / 1024))
