"""Tunes BERT to answer questions about texts, as SQuAD asks them, and scores the answers.

    python run_squad.py --train_file=train-v1.1.json --predict_file=dev-v1.1.json \\
        --output_dir=runs/squad

The paper tried learning rates of 3e-5, 1e-4, 3e-4 and 1e-3 with 3, 10 and 20 epochs; BERT-base with
adapters of 64 reached an F1 of 90.4 there.
"""

from adapter_bert_tf import entry, flags
from adapter_bert_tf.run.settings import SquadSettings
from adapter_bert_tf.run.source import check_squad_files


def _main() -> None:
    settings = flags.read_settings(SquadSettings)
    settings.devices.before_tensorflow()
    check_squad_files(settings)
    # Imported here, so that mistakes in flags and files are reported before TensorFlow is loaded.
    from adapter_bert_tf.run.squad import run_squad

    if run_squad(settings) is None:
        raise SystemExit(entry.STOPPED)


def main() -> None:
    """Runs the program."""
    flags.define_flags(SquadSettings)
    entry.run(_main)


if __name__ == "__main__":
    main()
