"""Runs an experiment of the paper, or a sweep of your own, and writes a report.

    python -m adapter_bert_tf.experiment tradeoff --output_dir=experiments/tradeoff
    python -m adapter_bert_tf.experiment sweep --train_file=train.csv --output_dir=sweeps/mine \\
        --adapter_size=2,8,64 --learning_rate=1e-4,3e-4 --seed=0,1,2 --tuning=adapters,full
    python -m adapter_bert_tf.experiment report --output_dir=sweeps/mine

Flags of run_classifier.py and run_squad.py take several values, separated by commas, which are
tried each with each. Where a value is a list itself, its parts are separated by +:
--adapter_layers=0+1+2,3+4+5. The same command continues what was interrupted.
"""

from absl import flags

from adapter_bert_tf import entry
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.experiment.estimate import (
    describe,
    estimate_seconds,
    measure,
    rows_of_files,
)
from adapter_bert_tf.experiment.given import define_flags, read_experiment, read_places
from adapter_bert_tf.experiment.program import Job, define_own_flags, refuse_remote, report
from adapter_bert_tf.experiment.table import EXPERIMENTS, PROFILES, SWEEP
from adapter_bert_tf.experiment.trials import searches

PROGRAM = "adapter_bert_tf.experiment"
NAMES = (*EXPERIMENTS, SWEEP, "report")


def _main(name: str) -> None:
    values = flags.FLAGS
    if name not in NAMES:
        raise UserError(f"{name}: no such experiment; expected one of {', '.join(NAMES)}")
    if not values.output_dir:
        raise UserError("expected --output_dir, the experiment's folder")
    refuse_remote(values.output_dir)
    if name == "report":
        report(values.output_dir)
        return
    experiment, places = read_experiment(name), read_places()
    job = Job(name, experiment, places, PROGRAM, values.storage, values.pruner)
    if not values.dry_run:
        job.check()
        job.make_folder()
    if values.is_worker:
        job.work()
        return
    print("\n".join(describe(experiment)), flush=True)
    if values.dry_run:
        hours = estimate_seconds(experiment, measure(), rows_of_files(experiment, places)) / 3600
        without = ", without the searches" if searches(experiment) else ""
        told = f"about {hours:,.1f} hours of training on this machine, one trial after another"
        print(f"{told}{without}")
        return
    job.run(values.workers, values.retry_failed)


def main() -> None:
    """Runs the program."""
    flags.DEFINE_enum("profile", "small", list(PROFILES), "Experiment: the grid and the base.")
    define_own_flags()
    define_flags()
    entry.run(_main, (f"NAME, one of {', '.join(NAMES)}",))


if __name__ == "__main__":
    main()
