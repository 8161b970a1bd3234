"""Tunes BERT for a classification or regression task, scores it and predicts with it.

python run_classifier.py --task=SST-2 --data_dir=glue/SST-2 --output_dir=runs/sst2
"""

from absl import flags

from adapter_bert_tf import entry


def _define_flags() -> None:
    string, integer = flags.DEFINE_string, flags.DEFINE_integer
    number, boolean = flags.DEFINE_float, flags.DEFINE_boolean

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
    integer("max_seq_length", 128, "Data: tokens of a row at the most.")
    boolean("pad_to_max", False, "Data: pad all rows to --max_seq_length.")
    string("cache_dir", None, "Data: where tokenised examples are kept.")

    string("bert", "minilm", "Base: a folder, a checkpoint, a TF-Hub handle or a preset.")
    string("init_checkpoint", None, "Base: the original's name for --bert.")
    string("bert_config_file", None, "Base: bert_config.json, if not beside the checkpoint.")
    string("vocab_file", None, "Base: vocab.txt, if not beside the checkpoint.")
    boolean("do_lower_case", None, "Base: lower-case the text; by default as the base says.")

    methods = ["adapters", "full", "top_k", "layer_norm", "head"]
    flags.DEFINE_enum("tuning", "adapters", methods, "Tuning: what is trained besides the head.")
    integer("adapter_size", 64, "Tuning: width of the adapters.")
    number("adapter_init_scale", 1e-3, "Tuning: deviation of the adapters at the start.")
    string("adapter_activation", "gelu", "Tuning: non-linearity of the adapters.")
    flags.DEFINE_list("adapter_sites", ["attention", "feed_forward"], "Tuning: what they follow.")
    flags.DEFINE_list("adapter_layers", None, "Tuning: layers that get them, from 0; all else.")
    boolean("adapter_parallel", False, "Tuning: adapters beside the sub-layers.")
    boolean("adapter_layer_norm", False, "Tuning: a LayerNorm in each adapter.")
    integer("adapter_hidden_layers", 1, "Tuning: layers of --adapter_size in each.")
    boolean("adapter_multiplicative", False, "Tuning: adapters scale, instead of add.")
    boolean("train_layer_norms", True, "Tuning: train LayerNorms beside the adapters.")
    integer("train_from_layer", 0, "Tuning: nothing below this layer is trained.")
    integer("top_k", 1, "Tuning: layers for --tuning=top_k.")
    string("pack", None, "Tuning: a task pack to start from.")

    string("output_dir", None, "Run: its folder.", required=True)
    boolean("do_train", True, "Run: train.")
    boolean("do_eval", True, "Run: evaluate.")
    boolean("do_predict", False, "Run: predict the test set.")
    string(
        "export_dir", None, "Run: export the task for TF Serving: a model's folder, or a version."
    )
    integer("train_batch_size", 32, "Run: rows of a training batch.")
    integer("eval_batch_size", 64, "Run: rows of an evaluation batch.")
    integer("predict_batch_size", 64, "Run: rows of a prediction batch.")
    number("learning_rate", None, "Run: largest learning rate; by default that of --tuning.")
    number("num_train_epochs", 3.0, "Run: passes over the training examples.")
    number("warmup_proportion", 0.1, "Run: share of the steps in which the rate rises.")
    integer("save_checkpoints_steps", 1000, "Run: steps between checkpoints.")
    integer("early_stopping", None, "Run: epochs without a better metric that end it.")
    integer("seed", 0, "Run: seed of everything random.")
    boolean("deterministic", False, "Run: the same bits every time, at some cost in speed.")

    boolean("use_tpu", False, "Devices: compute on a TPU.")
    string("tpu_name", None, "Devices: name or address of the TPU.")
    string("tpu_zone", None, "Devices: its zone.")
    string("gcp_project", None, "Devices: its project.")
    integer("num_tpu_cores", None, "Devices: cores that the TPU has to have.")
    precisions = ["bfloat16", "float16"]
    flags.DEFINE_enum("mixed_precision", None, precisions, "Devices: compute in half precision.")


def _settings():
    from adapter_bert_tf.encoder.adapter_config import AdapterConfig
    from adapter_bert_tf.errors import UserError
    from adapter_bert_tf.run.settings import ClassifierSettings
    from adapter_bert_tf.tuning.methods import Tuning

    values = flags.FLAGS
    layers = values.adapter_layers
    if layers and not all(layer.isdigit() for layer in layers):
        raise UserError(f"--adapter_layers={','.join(layers)}: expected numbers from 0")
    adapter = AdapterConfig(
        size=values.adapter_size,
        init_scale=values.adapter_init_scale,
        activation=values.adapter_activation,
        sites=tuple(values.adapter_sites),
        layers=tuple(map(int, layers)) if layers else None,
        parallel=values.adapter_parallel,
        layer_norm=values.adapter_layer_norm,
        hidden_layers=values.adapter_hidden_layers,
        multiplicative=values.adapter_multiplicative,
    )
    tuning = Tuning(
        values.tuning,
        k=values.top_k,
        layer_norms=values.train_layer_norms,
        from_layer=values.train_from_layer,
    )
    # Flags and settings have the same names; a flag that was not given leaves the default.
    given = {name: values[name].value for name in ClassifierSettings.names() if name in values}
    given = {name: value for name, value in given.items() if value is not None}
    given["bert"] = values.init_checkpoint or values.bert
    given["adapter"] = adapter if values.tuning == "adapters" else None
    return ClassifierSettings(**{**given, "tuning": tuning})


def _main() -> None:
    values = flags.FLAGS
    if values.mixed_precision == "bfloat16":
        entry.trap_free_bfloat16()
    # Here, so that what absl says of the flags comes before TensorFlow is loaded.
    from adapter_bert_tf.run.classifier import ClassifierRun
    from adapter_bert_tf.run.strategy import find_strategy, seed_everything, set_precision

    settings = _settings()
    strategy = find_strategy(
        values.use_tpu,
        values.tpu_name,
        values.tpu_zone,
        values.gcp_project,
        values.num_tpu_cores,
    )
    seed_everything(values.seed, values.deterministic)
    set_precision(values.mixed_precision)
    if not ClassifierRun(settings, strategy).run():
        raise SystemExit(entry.STOPPED)


if __name__ == "__main__":
    _define_flags()
    entry.run(_main)
