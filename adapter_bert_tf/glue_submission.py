"""Puts the predictions of several runs into one file for the GLUE site.

python -m adapter_bert_tf.glue_submission --runs=runs/cola,runs/mnli --output=glue.zip
"""

import io
import os
import zipfile

from absl import flags

from adapter_bert_tf import entry
from adapter_bert_tf.data.glue import GLUE
from adapter_bert_tf.errors import UserError, file_error
from adapter_bert_tf.files import exists, local_copy, write_atomically


def write_glue_submission(runs: list[str], output: str) -> list[str]:
    """Zips the submission files in the folders `runs`; returns the names that are missing."""
    names = list(dict.fromkeys(name for task in GLUE for name in task.submission.values()))
    found: dict[str, str] = {}
    for run in runs:
        here = [name for name in names if exists(os.path.join(run, name))]
        if not here:
            raise UserError(f"{run}: no submission file; run run_classifier.py --do_predict there")
        for name in here:
            if name in found:
                raise UserError(f"{run}: {name} is in {found[name]} as well")
            found[name] = run
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, run in found.items():
            with local_copy(os.path.join(run, name)) as local:
                archive.write(local, name)
    try:
        write_atomically(output, content.getvalue())
    except OSError as error:
        raise file_error(output, error) from None
    return [name for name in names if name not in found]


def _main() -> None:
    missing = write_glue_submission(flags.FLAGS.runs, flags.FLAGS.output)
    print(flags.FLAGS.output)
    if missing:
        print(f"still missing for the GLUE site: {', '.join(missing)}")


if __name__ == "__main__":
    flags.DEFINE_list("runs", None, "Submission: folders of the runs.", required=True)
    flags.DEFINE_string("output", "submission.zip", "Submission: the file to write.")
    entry.run(_main)
