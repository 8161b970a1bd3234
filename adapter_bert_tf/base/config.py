"""A BERT's sizes, read from the configuration files that exist."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from adapter_bert_tf.encoder.activations import ACTIVATIONS, HUGGING_FACE_NAMES
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.files import read_json_object


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
            num_attention_heads=shapes["transformer/layer_0/self_attention/query/kernel"][1],
            inner_dim=shapes["transformer/layer_0/intermediate/bias"][0],
            max_sequence_length=shapes["position_embedding/embeddings"][0],
            type_vocab_size=shapes["type_embeddings/embeddings"][0],
        )
    except (KeyError, ValueError, IndexError) as error:
        raise UserError(f"{origin}: not a BERT of Model Garden: {error} is missing") from None


def _from_json(raw: dict, path: str, activations: dict) -> BertConfig:
    activation = raw.get("hidden_act", "gelu")
    if not isinstance(activation, str) or activation not in activations:
        raise UserError(
            f"{path}: hidden_act {activation!r} is unknown; known are {', '.join(activations)}"
        )
    sizes = {
        field: _positive(raw, name, path)
        for field, name in (
            ("vocab_size", "vocab_size"),
            ("hidden_size", "hidden_size"),
            ("num_layers", "num_hidden_layers"),
            ("num_attention_heads", "num_attention_heads"),
            ("inner_dim", "intermediate_size"),
            ("max_sequence_length", "max_position_embeddings"),
            ("type_vocab_size", "type_vocab_size"),
        )
    }
    if sizes["hidden_size"] % sizes["num_attention_heads"]:
        raise UserError(f"{path}: hidden_size must be a multiple of num_attention_heads")
    return BertConfig(
        **sizes,
        inner_activation=activations[activation],
        output_dropout=_share(raw, "hidden_dropout_prob", 0.1, path),
        attention_dropout=_share(raw, "attention_probs_dropout_prob", 0.1, path),
        norm_epsilon=_share(raw, "layer_norm_eps", 1e-12, path),
    )


def _positive(raw: dict, name: str, path: str) -> int:
    value = raw.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UserError(f"{path}: {name} must be a whole number above 0, not {value!r}")
    return value


def _share(raw: dict, name: str, default: float, path: str) -> float:
    value = raw.get(name, default)
    if not isinstance(value, int | float) or not 0 <= value < 1:
        raise UserError(f"{path}: {name} must be a number from 0 to 1, not {value!r}")
    return value
