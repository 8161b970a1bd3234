"""Puts the predictions of several runs into one file for the GLUE site.

python -m adapter_bert_tf.glue_submission --runs=runs/cola,runs/mnli --output=glue.zip
"""

import io
import os
import zipfile

from absl import flags

from adapter_bert_tf import entry
from adapter_bert_tf.data.glue import GLUE
from adapter_bert_tf.data.sources import task_key
from adapter_bert_tf.errors import UserError, file_error
from adapter_bert_tf.files import (
    MOST_OF_DESCRIPTION,
    exists,
    is_folder,
    read_bytes,
    refuse_existing,
    write_atomically,
)
from adapter_bert_tf.run.folder import RunFolder


def write_glue_submission(runs: list[str], output: str) -> list[str]:
    """Zips the submission files in the folders `runs`; returns the names that are missing."""
    names = list(dict.fromkeys(name for task in GLUE for name in task.submission.values()))
    found: dict[str, str] = {}
    if not runs:
        raise UserError("--runs: expected the folders of runs")
    refuse_existing(output, "--output")
    for run in runs:
        if not is_folder(run):
            raise UserError(f"{run}: no such folder")
        here = [name for name in names if exists(os.path.join(run, name))]
        if not here:
            _refuse_other_tasks(run)
            raise UserError(f"{run}: no submission file; run run_classifier.py --do_predict there")
        for name in here:
            if name in found:
                raise UserError(f"{run}: {name} is in {found[name]} as well")
            found[name] = run
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, run in found.items():
            archive.writestr(name, _read(os.path.join(run, name)))
    try:
        write_atomically(output, content.getvalue())
    except OSError as error:
        raise file_error(output, error) from None
    return [name for name in names if name not in found]


def _read(path: str) -> bytes:
    content = read_bytes(path, MOST_OF_DESCRIPTION)
    if not content:
        raise UserError(f"{path}: is empty; expected what run_classifier.py --do_predict writes")
    return content


def _refuse_other_tasks(run: str) -> None:
    """Refuses a run of a task that GLUE does not have: nothing it predicts could be submitted."""
    folder = RunFolder(run)
    asked = folder.asked() or folder.results().get("settings", {})
    task = asked.get("task")
    known = {task_key(each.name) for each in GLUE}
    if asked and (not isinstance(task, str) or task_key(task) not in known):
        raise UserError(f"{run}: a run of {task or 'files of your own'}, which is no task of GLUE")


def _main() -> None:
    missing = write_glue_submission(flags.FLAGS.runs, flags.FLAGS.output)
    print(flags.FLAGS.output)
    if missing:
        print(f"still missing for the GLUE site: {', '.join(missing)}")


def main() -> None:
    """Runs the program."""
    flags.DEFINE_list("runs", None, "Submission: folders of the runs.", required=True)
    flags.DEFINE_string("output", "submission.zip", "Submission: the file to write.")
    entry.run(_main)


if __name__ == "__main__":
    main()
