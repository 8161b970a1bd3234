"""Scores the rows of many files with a task of an export, on Apache Beam.

    python -m adapter_bert_tf.score --export_dir=models/bert/1 --task=SST-2 \\
        --input='data/*.csv' --output=scored/part.csv

writes `scored/part-00000-of-00004.csv` and so on: the rows of all files, in any order, with the
columns that `predict --file` adds. Rows that can't be scored are in `scored/part-bad.jsonl`, each
with its file, line and problem. Files are CSV, TSV or JSON, as for `predict`. A file is read by one
worker; its rows are scored by all. Options of Beam are given one by one:

    --runner=FlinkRunner --beam_option=flink_master=host:8081 --beam_option=parallelism=8

Workers need this package, as a wheel or in a container. On one machine, use `predict --file`.
"""

import importlib.util
import os

from absl import flags

from adapter_bert_tf import entry
from adapter_bert_tf.bulk.form import ENDINGS, form_of
from adapter_bert_tf.bulk.rows import Reader
from adapter_bert_tf.errors import UserError, quiet, some
from adapter_bert_tf.heads.kinds import TEXT_LABELS
from adapter_bert_tf.pack.pack import Pack
from adapter_bert_tf.serve.description import read_description


def _main() -> None:
    values = flags.FLAGS
    output, ending = os.path.splitext(values.output)
    if ending.lower() not in ENDINGS or not os.path.basename(output):
        raise UserError(
            f"--output={values.output}: expected a name that ends in {', '.join(ENDINGS)}"
        )
    version, task, pack = find_task(values.export_dir, values.task)
    if values.text_pair_column and not pack.inputs.get("pair"):
        raise UserError(f"--text_pair_column: {task} is a task on single texts")
    if importlib.util.find_spec("apache_beam") is None:
        raise UserError(
            "Apache Beam is not installed: pip install 'adapter-bert-tf[beam]'; on one machine, "
            "python -m adapter_bert_tf.predict --file=... scores a file without it"
        )
    reader = Reader(
        pack,
        values.text_column,
        values.text_pair_column,
        values.encoding,
        values.delimiter,
    )

    # Imported here, so that wrong flags are reported before Beam is loaded, and without its notes
    # about file systems whose packages are not installed.
    with quiet():
        from adapter_bert_tf.bulk.pipeline import Job, check_options, prepare_job, run_job

    options = check_options(values.runner, values.beam_option or ())
    job = prepare_job(
        Job(
            input=values.input,
            output=output,
            ending=ending,
            form=form_of(values.output),
            reader=reader,
            export_dir=version,
            task=task,
            batch_size=values.batch_size,
            num_shards=values.num_shards,
        )
    )
    counts = run_job(job, options)
    print(f"scored: {output}-*{ending}, {counts.scored:,} rows")
    if counts.bad:
        print(f"bad: {job.bad_file}, {counts.bad:,} rows or files that can't be scored")
    if not counts.scored:
        raise UserError(f"--input={values.input}: no row could be scored")


def find_task(export_dir: str, name: str | None) -> tuple[str, str, Pack]:
    """Returns the version of an export, and the name and the pack of the task that is asked for."""
    export = read_description(export_dir)
    tasks = {task.name: task.pack for task in export.tasks}
    if name is None and len(tasks) != 1:
        raise UserError(f"--task: expected one of {some(tasks, 20)}")
    name = next(iter(tasks)) if name is None else name
    if name not in tasks:
        raise UserError(f"--task={name}: not in {export.folder}; expected one of {some(tasks, 20)}")
    if tasks[name].kind not in TEXT_LABELS:
        raise UserError(f"--task={name}: answers questions; expected a task on texts")
    return export.folder, name, tasks[name]


def main() -> None:
    """Runs the program."""
    flags.DEFINE_string("export_dir", None, "Task: an export, or a version of it.", required=True)
    flags.DEFINE_string("task", None, "Task: its name, if the export has several.")
    flags.DEFINE_string("input", None, "Files: pattern of the files to score.", required=True)
    flags.DEFINE_string(
        "output", None, "Files: where to write: .csv, .tsv or .jsonl.", required=True
    )
    flags.DEFINE_integer(
        "num_shards", 0, "Files: how many to write; by default as many as suits.", lower_bound=0
    )
    flags.DEFINE_string("text_column", None, "Files: column of the text, if it can't be guessed.")
    flags.DEFINE_string("text_pair_column", None, "Files: column of the second text.")
    flags.DEFINE_string("encoding", None, "Files: their encoding; by default it is recognized.")
    flags.DEFINE_string(
        "delimiter", None, "Files: what separates columns; by default it is recognized."
    )
    flags.DEFINE_string("runner", "DirectRunner", "Run: Beam's runner.")
    option = "Run: an option of Beam, as NAME=VALUE; give the flag once for each."
    flags.DEFINE_multi_string("beam_option", None, option)
    flags.FLAGS["beam_option"].help = option  # absl adds a second line to it.
    flags.DEFINE_integer("batch_size", 64, "Run: texts that are computed together.", lower_bound=1)
    entry.run(_main)


if __name__ == "__main__":
    main()
