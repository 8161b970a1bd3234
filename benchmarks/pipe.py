"""Workers: processes that wait to be told what to do, and time themselves.

So two programs, each with its own interpreter, take turns within one run.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_ANSWERS = "BENCH_ANSWERS"


class Worker:
    """A started worker.

    Args:
      command: The program, which calls `serve`.

    Attributes:
      facts: What it told about itself at its start.
      peak_megabytes: The most memory that it had, up to its last answer.
    """

    def __init__(self, command: Sequence[str]):
        # Not over its standard output, where libraries may print.
        answers, its_end = os.pipe()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            pass_fds=[its_end],
            env={**os.environ, _ANSWERS: str(its_end)},
        )
        os.close(its_end)
        self._answers = os.fdopen(answers)
        self.facts = self._answer()

    def seconds(self, call: str) -> float:
        """Has the worker do `call` once, and returns the seconds that it took."""
        assert self._process.stdin
        self._process.stdin.write(f"{call}\n")
        self._process.stdin.flush()
        return self._answer()["seconds"]

    def _answer(self) -> dict[str, Any]:
        line = self._answers.readline()
        if not line:
            raise SystemExit(f"a worker ended: {self._process.args}")
        answer = json.loads(line)
        self.peak_megabytes: float = answer.pop("peak_megabytes")
        return answer

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_) -> None:
        self._process.communicate()  # Closes its input, which ends it.
        self._answers.close()


def serve(calls: Mapping[str, Callable[[], object]], **facts) -> None:
    """Answers a `Worker` until that is gone."""
    answers = os.fdopen(int(os.environ[_ANSWERS]), "w")

    def answer(**values) -> None:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({**values, "peak_megabytes": peak}), file=answers, flush=True)

    answer(**facts)
    for line in sys.stdin:
        start = time.perf_counter()
        calls[line.strip()]()
        answer(seconds=time.perf_counter() - start)
