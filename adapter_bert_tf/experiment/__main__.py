"""Runs an experiment of the paper, or a sweep of your own, and writes a report.

    python -m adapter_bert_tf.experiment tradeoff --output_dir=experiments/tradeoff
    python -m adapter_bert_tf.experiment sweep --train_file=train.csv --output_dir=sweeps/mine \\
        --adapter_size=2,8,64 --learning_rate=1e-4,3e-4 --seed=0,1,2 --tuning=adapters,full
    python -m adapter_bert_tf.experiment report --output_dir=sweeps/mine

Flags of run_classifier.py and run_squad.py take several values, separated by commas, which are
tried each with each. Where a value is a list itself, its parts are separated by +:
--adapter_layers=0+1+2,3+4+5. The same command continues what was interrupted.
"""

import os
import signal
import subprocess
import sys

from absl import flags

from adapter_bert_tf import entry
from adapter_bert_tf.errors import UserError, file_error
from adapter_bert_tf.experiment import about
from adapter_bert_tf.experiment.estimate import describe, estimate_seconds, measure
from adapter_bert_tf.experiment.given import define_flags, read_experiment, read_places
from adapter_bert_tf.experiment.places import Places
from adapter_bert_tf.experiment.records import write_records
from adapter_bert_tf.experiment.table import EXPERIMENTS, PROFILES, SWEEP, Experiment
from adapter_bert_tf.experiment.trials import to_trials
from adapter_bert_tf.files import is_remote
from adapter_bert_tf.run.settings import ClassifierSettings
from adapter_bert_tf.run.source import check_files

NAMES = (*EXPERIMENTS, SWEEP, "report")


def _main(name: str) -> None:
    values = flags.FLAGS
    if name not in NAMES:
        raise UserError(f"{name}: no such experiment; expected one of {', '.join(NAMES)}")
    if not values.output_dir:
        raise UserError("expected --output_dir, the experiment's folder")
    if is_remote(values.output_dir):
        raise UserError(f"--output_dir={values.output_dir}: expected a folder on this machine")
    if name == "report":
        _report()
        return
    experiment, places = read_experiment(name), read_places()
    if not values.dry_run:
        _check(experiment, places)
    if values.is_worker:
        _work(name, experiment, places)
        return
    print("\n".join(describe(experiment)), flush=True)
    if values.dry_run:
        hours = estimate_seconds(experiment, measure()) / 3600
        print(f"about {hours:,.1f} hours of training on this machine, one trial after another")
        return
    # First of all, so that a report can be made at any time.
    try:
        os.makedirs(values.output_dir, exist_ok=True)
        about.write(values.output_dir, about.collect(name, experiment, sys.argv))
    except OSError as error:
        raise file_error(values.output_dir, error) from None
    if values.workers > 1:
        _start_workers(values.workers)
    else:
        _work(name, experiment, places)
    _finish(name, experiment, places)
    _report()


def _report() -> None:
    """Makes the report, from what is finished."""
    from adapter_bert_tf.experiment.report import write_report

    folder = flags.FLAGS.output_dir
    kept = about.read(folder)
    write_report(folder, kept["experiment"], kept)
    print(f"report: {os.path.join(folder, 'report.html')}")


def _check(experiment: Experiment, places: Places) -> None:
    """Reports wrong settings and missing files before TensorFlow is loaded."""
    checked = set()
    for trial in to_trials(experiment):
        settings = places.settings(trial)
        if trial.task not in checked and isinstance(settings, ClassifierSettings):
            check_files(settings)
        checked.add(trial.task)


def _engine(name: str):
    from adapter_bert_tf.experiment.engine import Engine

    values = flags.FLAGS
    return Engine(values.output_dir, name, values.storage, values.pruner)


def _work(name: str, experiment: Experiment, places: Places) -> None:
    from adapter_bert_tf.experiment.worker import StoppedError, work

    try:
        work(experiment, _engine(name), places)
    except StoppedError:
        print("stopped; the same command resumes it")
        raise SystemExit(entry.STOPPED) from None


def _start_workers(count: int) -> None:
    """Starts processes that share the machine, and waits for them."""
    threads = max(1, (os.cpu_count() or 1) // count)
    environment = {**os.environ, "TF_NUM_INTRAOP_THREADS": str(threads)}
    command = [sys.executable, "-m", "adapter_bert_tf.experiment", *sys.argv[1:]]
    workers = [
        subprocess.Popen([*command, "--workers=1", "--is_worker"], env=environment)
        for _ in range(count)
    ]

    def stop(*_: object) -> None:
        for worker in workers:
            worker.terminate()  # Each saves where it is, and says so.

    signal.signal(signal.SIGTERM, stop)
    codes = [worker.wait() for worker in workers]
    if any(codes):
        raise SystemExit(next(code for code in codes if code))


def _finish(name: str, experiment: Experiment, places: Places) -> None:
    """Does what is left when all trials are done."""
    from adapter_bert_tf.experiment.worker import ablate_all, score_tests

    engine = _engine(name)
    score_tests(experiment, engine, places)
    if name == "ablation":
        ablate_all(experiment, engine, places)
    write_records(flags.FLAGS.output_dir, engine.records())


def main() -> None:
    """Runs the program."""
    flags.DEFINE_string("output_dir", None, "Experiment: folder of the experiment.")
    flags.DEFINE_enum("profile", "small", list(PROFILES), "Experiment: the grid and the base.")
    flags.DEFINE_boolean("dry_run", False, "Experiment: print what would be done, and how long.")
    flags.DEFINE_string("storage", None, "Experiment: a database that many machines share.")
    flags.DEFINE_integer("workers", 1, "Experiment: processes on this machine.", lower_bound=1)
    flags.DEFINE_enum("pruner", None, ["median", "hyperband"], "Experiment: end bad trials early.")
    flags.DEFINE_boolean("is_worker", False, "Worker: leaves the report to others.")
    define_flags()
    entry.run(_main, ("NAME",))


if __name__ == "__main__":
    main()
