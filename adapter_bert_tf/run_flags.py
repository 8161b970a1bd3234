"""The flags that run_classifier.py and run_squad.py have in common, and what they mean."""

from typing import TYPE_CHECKING, TypeVar

from absl import flags

from adapter_bert_tf import entry
from adapter_bert_tf.errors import UserError

if TYPE_CHECKING:
    import tensorflow as tf

    from adapter_bert_tf.run.settings import RunSettings

    Settings = TypeVar("Settings", bound=RunSettings)

_METHODS = ["adapters", "full", "top_k", "layer_norm", "head"]
_PRECISIONS = ["bfloat16", "float16"]


def define_data_flags(max_seq_length: int) -> None:
    """Defines what both programs do with examples."""
    integer, string, boolean = flags.DEFINE_integer, flags.DEFINE_string, flags.DEFINE_boolean
    integer("max_seq_length", max_seq_length, "Data: tokens of a row at the most.")
    boolean("pad_to_max", False, "Data: pad all rows to --max_seq_length.")
    string("cache_dir", None, "Data: where tokenised examples are kept.")


def define_model_flags() -> None:
    """Defines base and tuning."""
    string, integer = flags.DEFINE_string, flags.DEFINE_integer
    number, boolean = flags.DEFINE_float, flags.DEFINE_boolean

    string("bert", "minilm", "Base: a folder, a checkpoint, a TF-Hub handle or a preset.")
    string("init_checkpoint", None, "Base: the original's name for --bert.")
    string("bert_config_file", None, "Base: bert_config.json, if not beside the checkpoint.")
    string("vocab_file", None, "Base: vocab.txt, if not beside the checkpoint.")
    boolean("do_lower_case", None, "Base: lower-case the text; by default as the base says.")

    flags.DEFINE_enum("tuning", "adapters", _METHODS, "Tuning: what is trained besides the head.")
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


def define_run_flags(predict: bool, predict_batch_size: int) -> None:
    """Defines what a run does, and where it computes."""
    string, integer = flags.DEFINE_string, flags.DEFINE_integer
    number, boolean = flags.DEFINE_float, flags.DEFINE_boolean

    string("output_dir", None, "Run: its folder.", required=True)
    boolean("do_train", True, "Run: train.")
    boolean("do_predict", predict, "Run: predict.")
    string("export_dir", None, "Run: export for TF Serving: a model's folder, or a new version.")
    integer("train_batch_size", 32, "Run: rows of a training batch.")
    integer("predict_batch_size", predict_batch_size, "Run: rows of a prediction batch.")
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
    flags.DEFINE_enum("mixed_precision", None, _PRECISIONS, "Devices: compute in half precision.")


def prepare() -> None:
    """Does what has to be done before TensorFlow is loaded."""
    if flags.FLAGS.mixed_precision == "bfloat16":
        entry.trap_free_bfloat16()


def read_settings(kind: "type[Settings]") -> "Settings":
    """Returns the settings that the flags ask for: they have the same names."""
    # Here, so that what absl says of the flags comes before TensorFlow is loaded.
    from adapter_bert_tf.tuning.methods import Tuning

    values = flags.FLAGS
    tuning = Tuning(
        values.tuning,
        k=values.top_k,
        layer_norms=values.train_layer_norms,
        from_layer=values.train_from_layer,
    )
    # A flag that was not given leaves the default.
    given = {name: values[name].value for name in kind.names() if name in values}
    given = {name: value for name, value in given.items() if value is not None}
    given["bert"] = values.init_checkpoint or values.bert
    given["adapter"] = _adapter() if values.tuning == "adapters" else None
    return kind(**{**given, "tuning": tuning})


def _adapter():
    from adapter_bert_tf.encoder.adapter_config import AdapterConfig

    values = flags.FLAGS
    layers = values.adapter_layers
    if layers and not all(layer.isdigit() for layer in layers):
        raise UserError(f"--adapter_layers={','.join(layers)}: expected numbers from 0")
    return AdapterConfig(
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


def prepare_devices() -> "tf.distribute.Strategy":
    """Seeds, sets the precision, and returns the strategy that the flags ask for."""
    from adapter_bert_tf.run.devices import find_strategy, seed_everything, set_precision

    values = flags.FLAGS
    strategy = find_strategy(
        values.use_tpu,
        values.tpu_name,
        values.tpu_zone,
        values.gcp_project,
        values.num_tpu_cores,
    )
    seed_everything(values.seed, values.deterministic)
    set_precision(values.mixed_precision)
    return strategy
