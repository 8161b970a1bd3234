"""Kills runs at random moments: whatever the moment, they end as if nothing had happened.

    python -m tests.kills 50

kills runs of both programs so many times in all, starts each again until it is done, and compares
every file with those of a run that was left alone.

    python -m tests.kills 10 workers

asks one of two workers to stop, so many times, each time in a run of its own.
"""

import hashlib
import itertools
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

from tests import tiny
from tests.programs import ROOT, start_quickly

_Flags = Sequence[str]


def _classifier(folder: pathlib.Path) -> _Flags:
    return [
        *("--task=MRPC", f"--data_dir={tiny.write_mrpc(folder / 'MRPC')}"),
        *("--do_train", "--do_eval", "--do_predict"),
        *("--max_seq_length=32", "--num_train_epochs=6"),
    ]


def _squad(folder: pathlib.Path) -> _Flags:
    return [
        f"--train_file={tiny.write_squad(folder / 'train.json', 80)}",
        f"--predict_file={tiny.write_squad(folder / 'dev.json', 30)}",
        *("--max_seq_length=32", "--doc_stride=8", "--max_query_length=8", "--num_train_epochs=4"),
    ]


PROGRAMS: dict[str, Callable[[pathlib.Path], _Flags]] = {
    "run_classifier.py": _classifier,
    "run_squad.py": _squad,
}


class Killed:
    """Runs of one program that are killed.

    Args:
      program: The program.
      folder: An empty folder.
      seed: Decides the moments.
    """

    def __init__(self, program: str, folder: pathlib.Path, seed: int):
        folder.mkdir()
        bert = tiny.write_google_bert(folder / "bert")
        # The same paths for all runs, as some are kept in their files.
        self._made = folder / "made"
        self.program = program
        self._flags = [
            *PROGRAMS[program](folder),
            *(f"--bert={bert}", "--train_batch_size=8", "--learning_rate=3e-3"),
            *("--deterministic", "--save_checkpoints_steps=3"),
            *(f"--cache_dir={self._made / 'cache'}", f"--output_dir={self._made / 'run'}"),
            f"--export_dir={self._made / 'model'}",
        ]
        self._random = random.Random(seed)
        self._seconds = 0.0
        self._left_alone: dict[str, str] = {}

    def leave_alone(self) -> None:
        """Does a run that is not killed, to compare with."""
        begun = time.monotonic()
        assert not self._killed_after(None)
        self._seconds = time.monotonic() - begun
        self._left_alone = _take(self._made)

    def kill(self, most: int) -> tuple[int, list[str]]:
        """Kills a run until it has ended, or `most` times; returns how often, and what differs."""
        kills, begun = 0, time.monotonic()
        while kills < most and self._killed_after(self._random.uniform(0, self._seconds)):
            kills += 1
        if not kills:  # It was faster than the one that was left alone.
            self._seconds = time.monotonic() - begun
        if kills == most:
            assert not self._killed_after(None)
        return kills, _odd(_take(self._made), self._left_alone)

    def _killed_after(self, seconds: float | None) -> bool:
        """Starts the run, and returns whether it was killed rather than done."""
        with tempfile.TemporaryDirectory() as folder:
            process = start_quickly(folder, self.program, *self._flags)
            process.join(seconds)
            if process.exitcode is None:
                process.kill()
                process.join()
            told = (pathlib.Path(folder) / "err").read_text() if process.exitcode == 1 else ""
        assert process.exitcode in (0, -signal.SIGKILL), told
        return process.exitcode != 0


# They count what the process did before.
_OF_THE_PROCESS = ("fingerprint.pb", "saved_model.pb")
_SECONDS = re.compile(rb'"(seconds|examples_per_second)": [0-9.]+')


def _take(folder: pathlib.Path) -> dict[str, str]:
    """Returns a digest of each file of a run by its path, and takes the files out of the way."""
    found = {
        str(path.relative_to(folder)): (
            hashlib.sha256(_comparable(path)).hexdigest() if path.is_file() else "a folder"
        )
        for path in folder.rglob("*")
        if ".tfevents." not in path.name
    }
    os.rename(folder, folder.with_name(f"made-{time.monotonic_ns()}"))
    return found


def _odd(found: dict[str, str], wanted: dict[str, str]) -> list[str]:
    """Returns the files that one run has and the other has not, or has otherwise."""
    return sorted({path for path, _ in found.items() ^ wanted.items()})


def _comparable(path: pathlib.Path) -> bytes:
    if any(each in path.name for each in _OF_THE_PROCESS):
        return b""
    return _SECONDS.sub(b"", path.read_bytes())


# What a worker says when it has been stopped.
_STOPPED = "the same command resumes it"


class Stopped:
    """Runs of two workers, of which one is asked to stop.

    Args:
      folder: An empty folder.
      seed: Decides the moments, and which worker it is.
    """

    def __init__(self, folder: pathlib.Path, seed: int):
        folder.mkdir()
        bert = tiny.write_google_bert(folder / "bert")
        self._made = folder / "made"
        self._flags = [
            *("--task=MRPC", f"--data_dir={tiny.write_mrpc(folder / 'MRPC')}", f"--bert={bert}"),
            *("--max_seq_length=32", "--train_batch_size=8", "--num_train_epochs=20"),
            *("--deterministic", "--save_checkpoints_steps=3"),
            *(f"--cache_dir={folder / 'cache'}", f"--output_dir={self._made}"),
        ]
        self._random = random.Random(seed)
        begun = time.monotonic()
        self._finish()
        self._seconds = time.monotonic() - begun
        self._left_alone = _take(self._made)

    def stop(self) -> str:
        """Stops one worker, lets both go on, and returns what is wrong with that, or ""."""
        moment, index = self._random.uniform(0, self._seconds), self._random.randrange(2)
        workers = start_two(self._flags)
        time.sleep(moment)
        workers[index].send_signal(signal.SIGTERM)
        ends = [_end_of(each) for each in workers]
        codes = [code for code, *_ in ends]
        told = [_STOPPED in out for _, out, _ in ends]
        texts = self._finish()
        resumed = [line[-30:] for line in texts[0].splitlines() if "resumed" in line]
        odd = _odd(_take(self._made), self._left_alone)
        print(f"worker {index} after {moment:.1f} s: {codes} {told} {resumed}", flush=True)
        if -signal.SIGKILL in codes:
            return "it had to be killed"
        if resumed and not all(told):
            return "it does not say how to resume"
        return f"differs: {odd}" if odd else ""

    def _finish(self) -> list[str]:
        ends = [_end_of(each, patience=600) for each in start_two(self._flags)]
        assert [code for code, *_ in ends] == [0, 0], ends
        return [out for _, out, _ in ends]


def _end_of(worker: subprocess.Popen, patience: float = 100) -> tuple[int, str, str]:
    """Returns how a worker ended, and what it printed; if it waits for the other, it is stopped."""
    for stop in (lambda: worker.send_signal(signal.SIGTERM), worker.kill):
        try:
            out, errors = worker.communicate(timeout=patience)
            return worker.returncode, out, errors
        except subprocess.TimeoutExpired:
            stop()
    out, errors = worker.communicate()
    return worker.returncode, out, errors


def free_addresses(count: int) -> list[str]:
    """Returns addresses of this machine at which nobody listens."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return addresses


def start_two(flags: _Flags) -> list[subprocess.Popen]:
    """Starts two workers of one run of the classifier."""
    cluster = {"worker": free_addresses(2)}
    users = {name: value for name, value in os.environ.items() if name[:3] != "TF_"}
    tasks = [{"cluster": cluster, "task": {"type": "worker", "index": i}} for i in range(2)]
    return [
        subprocess.Popen(
            [sys.executable, str(ROOT / "run_classifier.py"), *flags],
            env={**users, "TF_CONFIG": json.dumps(task)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for task in tasks
    ]


def _kill(count: int, folder: pathlib.Path) -> bool:
    runs = [Killed(name, folder / name, seed) for seed, name in enumerate(PROGRAMS)]
    for each in runs:
        each.leave_alone()
    good = True
    for each in itertools.cycle(runs):
        kills, odd = each.kill(count)
        count -= kills
        print(f"{each.program}: {kills} kills; differs: {odd}", flush=True)
        good &= not odd
        if count <= 0:
            return good
    return good


def _stop(count: int, folder: pathlib.Path) -> bool:
    stopped = Stopped(folder / "workers", seed=0)
    problems = [stopped.stop() for _ in range(count)]
    print(*filter(None, problems), sep="\n")
    return not any(problems)


def _main() -> None:
    with tempfile.TemporaryDirectory() as name:
        do = _stop if "workers" in sys.argv else _kill
        sys.exit(not do(int(sys.argv[1]), pathlib.Path(name)))


if __name__ == "__main__":
    _main()
