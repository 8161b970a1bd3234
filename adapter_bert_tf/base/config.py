"""A BERT's sizes, read from the configuration files that exist."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from adapter_bert_tf.checks import SHARE, Check, fields, one_of, whole
from adapter_bert_tf.encoder.activations import ACTIVATIONS, HUGGING_FACE_NAMES
from adapter_bert_tf.encoder.adapter import MOST_LAYERS
from adapter_bert_tf.errors import UserError, first_line
from adapter_bert_tf.files import read_json_object

# Beyond any BERT, so that a damaged file does not ask for all of the memory.
MOST_WORDS = 5_000_000
# What a BERT's sizes may be, with their names in configuration files.
_SIZES = {
    "vocab_size": ("vocab_size", whole(1, MOST_WORDS)),
    "hidden_size": ("hidden_size", whole(1, 16_384)),
    "num_layers": ("num_hidden_layers", whole(1, MOST_LAYERS)),
    "num_attention_heads": ("num_attention_heads", whole(1, 1024)),
    "inner_dim": ("intermediate_size", whole(1, 65_536)),
    "max_sequence_length": ("max_position_embeddings", whole(1, 65_536)),
    "type_vocab_size": ("type_vocab_size", whole(1, 1024)),
}
_RATES: dict[str, tuple[str, Check]] = {
    "output_dropout": ("hidden_dropout_prob", SHARE),
    "attention_dropout": ("attention_probs_dropout_prob", SHARE),
    "norm_epsilon": ("layer_norm_eps", SHARE),
}


@dataclasses.dataclass(frozen=True)
class BertConfig:
    """The sizes and settings of a base."""

    vocab_size: int
    hidden_size: int
    num_layers: int
    num_attention_heads: int
    inner_dim: int
    max_sequence_length: int
    type_vocab_size: int
    inner_activation: str = "gelu"
    output_dropout: float = 0.1
    attention_dropout: float = 0.1
    norm_epsilon: float = 1e-12

    def encoder_arguments(self) -> dict[str, Any]:
        """Returns the arguments of `AdapterBertEncoder`."""
        arguments = dataclasses.asdict(self)
        return {**arguments, "inner_activation": ACTIVATIONS[self.inner_activation]}

    def computation(self) -> dict[str, Any]:
        """Returns the settings that change the outputs but not the shapes of the weights."""
        return {
            "num_attention_heads": self.num_attention_heads,
            "inner_activation": self.inner_activation,
            "norm_epsilon": self.norm_epsilon,
        }


def read_google_config(path: str) -> BertConfig:
    """Reads the `bert_config.json` of Google's checkpoints."""
    raw = read_json_object(path)
    if raw.get("embedding_size", raw.get("hidden_size")) != raw.get("hidden_size"):
        raise UserError(
            f"{path}: embedding_size differs from hidden_size, so this is not a plain BERT"
        )
    return _from_json(raw, path, {name: name for name in ACTIVATIONS})


def read_hugging_face_config(path: str) -> BertConfig:
    """Reads the `config.json` of Hugging Face's models."""
    raw = read_json_object(path)
    if raw.get("model_type", "bert") != "bert":
        raise UserError(f"{path}: model_type is {raw['model_type']!r}, expected 'bert'")
    if raw.get("position_embedding_type", "absolute") != "absolute":
        raise UserError(f"{path}: position_embedding_type must be 'absolute'")
    return _from_json(raw, path, HUGGING_FACE_NAMES)


def config_from_shapes(shapes: Mapping[str, tuple[int, ...]], origin: str) -> BertConfig:
    """Finds the sizes from the shapes of Model Garden's variables, without a configuration file."""
    try:
        words, hidden = shapes["word_embeddings/embeddings"]
        return BertConfig(
            vocab_size=words,
            hidden_size=hidden,
            num_layers=sum(path.endswith("/intermediate/bias") for path in shapes),
            num_attention_heads=shapes["transformer/layer_0/self_attention/query/bias"][0],
            inner_dim=shapes["transformer/layer_0/intermediate/bias"][0],
            max_sequence_length=shapes["position_embedding/embeddings"][0],
            type_vocab_size=shapes["type_embeddings/embeddings"][0],
        )
    except (KeyError, ValueError, IndexError) as error:
        raise UserError(f"{origin}: not a BERT: {first_line(error)}") from None


def config_from_export(raw: Any, where: str) -> "BertConfig":
    """Checks the configuration that an export keeps, under our own names."""
    needed = {field: check for field, (_, check) in _SIZES.items()}
    rates = {field: check for field, (_, check) in _RATES.items()}
    fields(needed, {**rates, "inner_activation": one_of(ACTIVATIONS)})(raw, where)
    return _whole_heads(BertConfig(**raw), where)


def _from_json(raw: dict, path: str, activations: dict) -> BertConfig:
    activation = raw.get("hidden_act", "gelu")
    one_of(activations)(activation, f"{path}: hidden_act")
    fields(dict(_SIZES.values()), dict(_RATES.values()), closed=False)(raw, f"{path}:")
    values = {field: raw[name] for field, (name, _) in {**_SIZES, **_RATES}.items() if name in raw}
    return _whole_heads(BertConfig(inner_activation=activations[activation], **values), path)


def _whole_heads(config: BertConfig, where: str) -> BertConfig:
    if config.hidden_size % config.num_attention_heads:
        raise UserError(f"{where}: hidden_size must be a multiple of num_attention_heads")
    return config
