"""Looks for the best model without BERT, and says whether that is enough for a task.

    python -m adapter_bert_tf.baseline --task=sms_spam --data_dir=data --trials=40 \\
        --output_dir=baselines/sms
    python -m adapter_bert_tf.baseline --train_file=train.csv --dev_file=dev.csv \\
        --test_file=test.csv --output_dir=baselines/mine \\
        --space="module=glove hidden_layers=0,1 filters=50..100"

A trial is a small model on embeddings of words or texts: 21 choices, which --space narrows. The one
that is best on the validation set is kept in the folder's `pack`, which predict and export take.
The same command continues what was interrupted, or adds trials if --trials is higher.
"""

import os
from collections.abc import Iterator

from absl import flags

from adapter_bert_tf import entry
from adapter_bert_tf.baseline.space import SPACE, describe, narrow
from adapter_bert_tf.data.sources import find_task
from adapter_bert_tf.data.task import TEST
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.experiment.places import Places
from adapter_bert_tf.experiment.program import Job, define_own_flags, refuse_remote
from adapter_bert_tf.experiment.table import (
    BASELINE,
    NO_BERT,
    SAMPLERS,
    Arm,
    Experiment,
    Search,
)
from adapter_bert_tf.flags import define, given
from adapter_bert_tf.options import Option, options_of
from adapter_bert_tf.pack.pack import read_pack
from adapter_bert_tf.run.settings import ClassifierSettings

PROGRAM = "adapter_bert_tf.baseline"
# What is not about the examples, or is about tokens.
_LEFT_OUT = {"max_seq_length", "pad_to_max", "data_dir", "task"}


def _options() -> Iterator[Option]:
    for option in options_of(ClassifierSettings).values():
        is_of_data = option.group == "Data" and option.name not in _LEFT_OUT
        if is_of_data or option.name == "metric":
            yield option


def _main() -> None:
    values = flags.FLAGS
    if not values.output_dir:
        raise UserError("expected --output_dir, the folder of the search")
    refuse_remote(values.output_dir)
    places = Places(values.output_dir, values.data_dir, given(_options()))
    own_files = "train_file" in places.values
    if (values.task is None) != own_files:
        raise UserError("expected either --task, or files of your own such as --train_file")
    space = narrow(SPACE, values.space or ())
    task = str(places.values.get("name", "own files")) if own_files else find_task(values.task).name
    rows = places.values.pop("max_train_examples", None)
    experiment = Experiment(
        f"The baseline without BERT: {task}",
        (task,),
        "none",
        (Arm(NO_BERT, search=Search(space, values.trials, values.sampler)),),
        seeds=(values.seed,),
        fixed={"max_train_examples": rows} if rows else {},
        tests=not own_files or f"{TEST}_file" in places.values,
    )
    job = Job(BASELINE, experiment, places, PROGRAM, values.storage, values.pruner)
    job.check()
    if not values.dry_run:
        job.make_folder()
    if values.is_worker:
        job.work()
        return
    print(f"{task}: {values.trials} trials, {values.sampler}", *describe(space), sep="\n")
    if values.dry_run:
        return
    job.run(values.workers, values.retry_failed)
    _keep_best(values.output_dir)


def _keep_best(folder: str) -> None:
    """Copies what was found to a place of its own."""
    from adapter_bert_tf.experiment.worker import keep_best

    place = os.path.join(folder, "pack")
    keep_best(folder, place)
    metrics = read_pack(place).metrics
    print("  ".join(f"{name} {value:.4f}" for name, value in metrics.items()))
    print(f"pack: {place}")


def main() -> None:
    """Runs the program."""
    flags.DEFINE_string("task", None, "Data: name of the task, such as CoLA or sms_spam.")
    flags.DEFINE_string("data_dir", None, "Data: the task's folder, or one with it in it.")
    for _option in _options():
        define(_option)
    flags.DEFINE_integer("trials", 40, "Search: how many models are tried.", lower_bound=1)
    flags.DEFINE_enum("sampler", "tpe", list(SAMPLERS), "Search: how the next one is chosen.")
    flags.DEFINE_multi_string("space", None, "Search: fewer values, as hidden_layers=0,1.")
    flags.FLAGS["space"].help = "Search: fewer values of some choices, as hidden_layers=0,1."
    flags.DEFINE_integer("seed", 0, "Search: seed of everything that is random.", lower_bound=0)
    define_own_flags()
    entry.run(_main)


if __name__ == "__main__":
    main()
