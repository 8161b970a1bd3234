"""Tunes BERT to answer questions about texts, as SQuAD asks them, and scores the answers.

    python run_squad.py --train_file=train-v1.1.json --predict_file=dev-v1.1.json \\
        --output_dir=runs/squad

The paper tried learning rates of 3e-5, 1e-4, 3e-4 and 1e-3 with 3, 10 and 20 epochs; BERT-base
with adapters of 64 reached an F1 of 90.4 there.
"""

from absl import flags

from adapter_bert_tf import entry, run_flags


def _define_flags() -> None:
    string, integer, boolean = flags.DEFINE_string, flags.DEFINE_integer, flags.DEFINE_boolean
    string("train_file", None, "Data: questions to train with; without files, TFDS.")
    string("predict_file", None, "Data: questions to answer.")
    run_flags.define_data_flags(max_seq_length=384)
    integer("doc_stride", 128, "Data: tokens between the starts of two windows of a context.")
    integer("max_query_length", 64, "Data: tokens of a question at the most.")
    boolean("version_2_with_negative", False, "Data: questions may have no answer (v2.0).")
    boolean("verbose_logging", False, "Data: name the questions that are left out.")
    run_flags.define_model_flags()
    run_flags.define_run_flags(predict=True, predict_batch_size=8)
    integer("n_best_size", 20, "Answers: how many are listed for a question.")
    integer("max_answer_length", 30, "Answers: tokens of one at the most.")
    threshold = 'Answers: "" is taken if its score is above the best one\'s by more.'
    flags.DEFINE_float("null_score_diff_threshold", 0.0, threshold)


def _main() -> None:
    run_flags.prepare()
    # Here, so that what absl says of the flags comes before TensorFlow is loaded.
    from adapter_bert_tf.run.squad import SquadRun
    from adapter_bert_tf.run.squad_settings import SquadSettings

    settings = run_flags.read_settings(SquadSettings)
    if not SquadRun(settings, run_flags.prepare_devices()).run():
        raise SystemExit(entry.STOPPED)


if __name__ == "__main__":
    _define_flags()
    entry.run(_main)
