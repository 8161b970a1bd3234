"""Tunes BERT for a classification or regression task, scores it and predicts with it.

python run_classifier.py --task=SST-2 --data_dir=glue/SST-2 --output_dir=runs/sst2
"""

from adapter_bert_tf import entry, flags
from adapter_bert_tf.run.settings import ClassifierSettings
from adapter_bert_tf.run.source import check_files


def _main() -> None:
    settings = flags.read_settings(ClassifierSettings)
    settings.devices.before_tensorflow()
    check_files(settings)
    # Imported here, so that mistakes in flags and files are reported before TensorFlow is loaded.
    from adapter_bert_tf.run.classifier import run_classifier

    if run_classifier(settings) is None:
        raise SystemExit(entry.STOPPED)


def main() -> None:
    """Runs the program."""
    flags.define_flags(ClassifierSettings)
    entry.run(_main)


if __name__ == "__main__":
    main()
