"""Tunes BERT for a classification or regression task, scores it and predicts with it.

python run_classifier.py --task=SST-2 --data_dir=glue/SST-2 --output_dir=runs/sst2
"""

from absl import flags

from adapter_bert_tf import entry, run_flags


def _define_flags() -> None:
    string, boolean = flags.DEFINE_string, flags.DEFINE_boolean
    string("task", None, "Data: name of the task, such as CoLA or sms_spam.")
    flags.DEFINE_alias("task_name", "task")
    string("data_dir", None, "Data: folder with the task's original files; without it, TFDS.")
    string("train_file", None, "Data: your own examples: CSV, TSV or JSON lines with a header.")
    string("dev_file", None, "Data: your own examples for evaluation.")
    string("test_file", None, "Data: your own examples for prediction.")
    string("text_column", None, "Data: column of the text, where it can't be guessed.")
    string("text_pair_column", None, "Data: column of the second text, likewise.")
    string("label_column", None, "Data: column of the label, likewise.")
    boolean("regression", None, "Data: the labels are values, even if they are whole.")
    run_flags.define_data_flags(max_seq_length=128)
    run_flags.define_model_flags()
    run_flags.define_run_flags(predict=False, predict_batch_size=64)
    boolean("do_eval", True, "Run: evaluate.")
    flags.DEFINE_integer("eval_batch_size", 64, "Run: rows of an evaluation batch.")


def _main() -> None:
    run_flags.prepare()
    # Here, so that what absl says of the flags comes before TensorFlow is loaded.
    from adapter_bert_tf.run.classifier import ClassifierRun
    from adapter_bert_tf.run.classifier_settings import ClassifierSettings

    settings = run_flags.read_settings(ClassifierSettings)
    if not ClassifierRun(settings, run_flags.prepare_devices()).run():
        raise SystemExit(entry.STOPPED)


if __name__ == "__main__":
    _define_flags()
    entry.run(_main)
