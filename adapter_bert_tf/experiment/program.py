"""What the programs that run experiments have in common: workers, resuming, the report."""

import dataclasses
import functools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from absl import flags

from adapter_bert_tf import entry
from adapter_bert_tf.baseline.space import check_modules
from adapter_bert_tf.errors import UserError, file_error
from adapter_bert_tf.experiment import about
from adapter_bert_tf.experiment.places import Places
from adapter_bert_tf.experiment.records import in_words, read_records, write_records
from adapter_bert_tf.experiment.select import choose
from adapter_bert_tf.experiment.table import Experiment
from adapter_bert_tf.experiment.trials import searches, to_trials
from adapter_bert_tf.files import is_remote
from adapter_bert_tf.run.settings import ClassifierSettings
from adapter_bert_tf.run.source import check_files

# Seconds between two looks at the workers, and how many of them may be killed.
_PAUSE, _MOST_KILLED = 0.5, 20


def define_own_flags() -> None:
    """Defines the flags about the experiment itself."""
    flags.DEFINE_string("output_dir", None, "Experiment: folder of the experiment.")
    flags.DEFINE_boolean("dry_run", False, "Experiment: print what would be done, and how long.")
    flags.DEFINE_string("storage", None, "Experiment: a database that many machines share.")
    flags.DEFINE_integer(
        "workers",
        1,
        "Experiment: processes on this machine.",
        lower_bound=1,
        upper_bound=max(8, 4 * (os.cpu_count() or 1)),
    )
    flags.DEFINE_enum("pruner", None, ["median", "hyperband"], "Experiment: end bad trials early.")
    flags.DEFINE_boolean("retry_failed", False, "Experiment: do trials again that have failed.")
    flags.DEFINE_boolean("is_worker", False, "Worker: leaves the report to others.")


def refuse_remote(folder: str) -> None:
    """Refuses a remote folder: workers lock what they share, and a database is there."""
    if is_remote(folder):
        raise UserError(f"--output_dir={folder}: expected a folder on this machine")


@dataclasses.dataclass(frozen=True)
class Job:
    """An experiment that is to be done.

    Attributes:
      name: Its name.
      experiment: What is tried.
      places: Where files are.
      program: The program that does it.
      storage: URL of a database, if many machines share the trials.
      pruner: Name of the pruner, if bad trials are to be ended early.
    """

    name: str
    experiment: Experiment
    places: Places
    program: str
    storage: str | None = None
    pruner: str | None = None

    def check(self) -> None:
        """Reports wrong settings and missing files before TensorFlow is loaded."""
        checked = set()
        asked = searches(self.experiment)
        for search, _ in asked:
            check_modules(search.space)
        for trial in (*to_trials(self.experiment), *(trial for _, trial in asked)):
            settings = self.places.settings(trial)
            if trial.task not in checked and isinstance(settings, ClassifierSettings):
                check_files(settings)
            checked.add(trial.task)

    @functools.cached_property
    def identity(self) -> dict[str, str]:
        """What makes it another experiment."""
        return about.identify(self.name, self.experiment, self.places)

    def make_folder(self) -> None:
        """Makes the experiment's folder; refuses that of another one."""
        about.refuse_other(self.places.folder, self.identity)
        try:
            os.makedirs(self.places.folder, exist_ok=True)
        except OSError as error:
            raise file_error(self.places.folder, error) from None

    def run(self, workers: int, retry_failed: bool = False) -> None:
        """Does all trials, scores what was chosen, and writes the report."""
        # First of all, so that a report can be made at any time.
        described = about.collect(self.identity, self.program, sys.argv[1:])
        try:
            about.write(self.places.folder, described)
        except OSError as error:
            raise file_error(self.places.folder, error) from None
        if retry_failed:
            self._engine().retry_failed()
        if workers > 1:
            self._start_workers(workers)
        else:
            self.work()
        self._finish()
        report(self.places.folder)
        if not any(each.is_complete for each in read_records(self.places.folder)):
            raise UserError(f"{self.places.folder}: no trial is complete; the report says why")

    def work(self) -> None:
        """Does trials until none is left."""
        from adapter_bert_tf.experiment.worker import StoppedError, work

        try:
            work(self.experiment, self._engine(), self.places)
        except StoppedError:
            print("stopped; the same command resumes it")
            raise SystemExit(entry.STOPPED) from None

    def _engine(self):
        from adapter_bert_tf.experiment.engine import Engine

        study = about.study_name(self.identity)
        return Engine(self.places.folder, study, self.storage, self.pruner)

    def _start_workers(self, count: int) -> None:
        """Starts processes that share the machine, and waits for them."""
        threads = max(1, (os.cpu_count() or 1) // count)
        environment = {**os.environ, "TF_NUM_INTRAOP_THREADS": str(threads)}
        command = [sys.executable, "-m", self.program, *sys.argv[1:], "--workers=1", "--is_worker"]
        start = functools.partial(subprocess.Popen, command, env=environment)
        workers, is_stopped = [start() for _ in range(count)], threading.Event()

        def stop(*_: object) -> None:
            is_stopped.set()
            for worker in workers:
                worker.terminate()  # Each saves where it is, and says so.

        signal.signal(signal.SIGTERM, stop)
        codes = _wait_for(workers, start, is_stopped)
        if any(codes):
            raise SystemExit(next(code for code in codes if code))

    def _finish(self) -> None:
        """Does what is left when all trials are done."""
        from adapter_bert_tf.experiment.worker import ablate_all, score_tests

        engine = self._engine()
        score_tests(self.experiment, engine, self.places)
        if self.name == "ablation":
            ablate_all(self.experiment, engine, self.places)
        write_records(self.places.folder, engine.records())


def _wait_for(
    workers: list[subprocess.Popen],
    start: Callable[[], subprocess.Popen],
    is_stopped: threading.Event,
) -> list[int]:
    """Waits for all workers, and puts others in the place of those that are killed.

    Returns:
      What they have ended with.
    """
    codes: list[int] = []
    killed = 0
    while workers:
        time.sleep(_PAUSE)
        for worker in [each for each in workers if each.poll() is not None]:
            workers.remove(worker)
            if worker.returncode < 0 and killed < _MOST_KILLED and not is_stopped.is_set():
                killed += 1
                print(f"a worker was killed by signal {-worker.returncode}: another one goes on")
                workers.append(start())
            else:
                codes.append(worker.returncode)
    return codes


def report(folder: str) -> None:
    """Makes the report, from what is finished."""
    from adapter_bert_tf.experiment.report import pack_of, write_report

    kept = about.read(folder)
    write_report(folder, kept["experiment"], kept)
    for point in choose(read_records(folder)).values():
        pack = pack_of(point.first, folder)
        if pack is not None:
            told = in_words(point.first.settings)
            print(f"{point.first.task} {point.first.method} {told}: {os.path.join(folder, pack)}")
    print(f"report: {os.path.join(folder, 'report.html')}")
