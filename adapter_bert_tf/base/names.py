"""The names of BERT's variables in all formats, in one table."""

import re

import numpy as np

# The columns are our path (which is Model Garden's name of the variable), the name in Google's TF1
# checkpoints, the name in Hugging Face's files, and the attributes that lead to the variable in a
# Model Garden checkpoint. `{i}` is the layer.
_TABLE = (
    (
        "word_embeddings/embeddings",
        "bert/embeddings/word_embeddings",
        "embeddings.word_embeddings.weight",
        "_embedding_layer/embeddings",
    ),
    (
        "position_embedding/embeddings",
        "bert/embeddings/position_embeddings",
        "embeddings.position_embeddings.weight",
        "_position_embedding_layer/embeddings",
    ),
    (
        "type_embeddings/embeddings",
        "bert/embeddings/token_type_embeddings",
        "embeddings.token_type_embeddings.weight",
        "_type_embedding_layer/embeddings",
    ),
    (
        "embeddings/layer_norm/{norm}",
        "bert/embeddings/LayerNorm/{norm}",
        "embeddings.LayerNorm.{norm}",
        "_embedding_norm_layer/{norm}",
    ),
    *(
        (
            f"transformer/layer_{{i}}/self_attention/{name}/{{dense}}",
            f"bert/encoder/layer_{{i}}/attention/self/{name}/{{dense}}",
            f"encoder.layer.{{i}}.attention.self.{name}.{{dense}}",
            f"_transformer_layers/{{i}}/_attention_layer/_{name}_dense/{{dense}}",
        )
        for name in ("query", "key", "value")
    ),
    (
        "transformer/layer_{i}/self_attention/attention_output/{dense}",
        "bert/encoder/layer_{i}/attention/output/dense/{dense}",
        "encoder.layer.{i}.attention.output.dense.{dense}",
        "_transformer_layers/{i}/_attention_layer/_output_dense/{dense}",
    ),
    (
        "transformer/layer_{i}/self_attention_layer_norm/{norm}",
        "bert/encoder/layer_{i}/attention/output/LayerNorm/{norm}",
        "encoder.layer.{i}.attention.output.LayerNorm.{norm}",
        "_transformer_layers/{i}/_attention_layer_norm/{norm}",
    ),
    (
        "transformer/layer_{i}/intermediate/{dense}",
        "bert/encoder/layer_{i}/intermediate/dense/{dense}",
        "encoder.layer.{i}.intermediate.dense.{dense}",
        "_transformer_layers/{i}/_intermediate_dense/{dense}",
    ),
    (
        "transformer/layer_{i}/output/{dense}",
        "bert/encoder/layer_{i}/output/dense/{dense}",
        "encoder.layer.{i}.output.dense.{dense}",
        "_transformer_layers/{i}/_output_dense/{dense}",
    ),
    (
        "transformer/layer_{i}/output_layer_norm/{norm}",
        "bert/encoder/layer_{i}/output/LayerNorm/{norm}",
        "encoder.layer.{i}.output.LayerNorm.{norm}",
        "_transformer_layers/{i}/_output_layer_norm/{norm}",
    ),
    (
        "pooler_transform/{dense}",
        "bert/pooler/dense/{dense}",
        "pooler.dense.{dense}",
        "_pooler_layer/{dense}",
    ),
)

_ADAPTER_SITES = (
    ("transformer/layer_{i}/attention_adapter", "bert/encoder/layer_{i}/attention/output/adapters"),
    ("transformer/layer_{i}/feed_forward_adapter", "bert/encoder/layer_{i}/output/adapters"),
)
_ADAPTER_PARTS = (
    ("down/kernel", "weights1"),
    ("down/bias", "biases1"),
    ("up/kernel", "weights2"),
    ("up/bias", "biases2"),
)

_ATTENTION = re.compile(
    r"/self_attention/((query|key|value)/(kernel|bias)|(?P<joined>attention_output/kernel))$"
)

_HUGGING_FACE_PARTS = {"kernel": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}


def google_names(num_layers: int) -> dict[str, str]:
    """Returns our paths by Google's TF1 names."""
    return {google: path for path, google, _, _ in _rows(num_layers)}


def adapter_bert_names(num_layers: int) -> dict[str, str]:
    """Returns our paths by the names in adapter-bert's checkpoints, for base and adapters."""
    adapters = {
        f"{theirs.format(i=i)}/{their_part}": f"{ours.format(i=i)}/{our_part}"
        for i in range(num_layers)
        for ours, theirs in _ADAPTER_SITES
        for our_part, their_part in _ADAPTER_PARTS
    }
    return google_names(num_layers) | adapters


def hugging_face_names(num_layers: int) -> dict[str, str]:
    """Returns our paths by Hugging Face's current names, without the prefix `bert.`."""
    names = {}
    for path, _, theirs, _ in _rows(num_layers):
        stem, part = theirs.rsplit(".", 1)
        names[f"{stem}.{_HUGGING_FACE_PARTS.get(part, part)}"] = path
    return names


def model_garden_attributes(num_layers: int) -> dict[str, str]:
    """Returns our paths by the attributes in Model Garden's TF2 checkpoints.

    `BertEncoderV2` saves by attribute. The older functional `BertEncoder` numbers its layers that
    have weights: three embeddings, their LayerNorm, the Transformer layers, the pooler.
    """
    by_attribute = {attributes: path for path, _, _, attributes in _rows(num_layers)}
    numbers = {
        "_embedding_layer": 0,
        "_position_embedding_layer": 1,
        "_type_embedding_layer": 2,
        "_embedding_norm_layer": 3,
        **{f"_transformer_layers/{i}": 4 + i for i in range(num_layers)},
        "_pooler_layer": 4 + num_layers,
    }
    by_number = {}
    for attributes, path in by_attribute.items():
        depth = 2 if attributes.startswith("_transformer_layers/") else 1
        parts = attributes.split("/")
        number = numbers["/".join(parts[:depth])]
        by_number["/".join([f"layer_with_weights-{number}", *parts[depth:]])] = path
    return by_attribute | by_number


def split_heads(path: str, array: np.ndarray, heads: int) -> np.ndarray:
    """Adds the axis of the heads to an attention variable, as in Model Garden."""
    match = _ATTENTION.search(path)
    if match is None or array.ndim == 0 or array.shape[0 if match["joined"] else -1] % heads:
        return array
    if match["joined"]:
        return array.reshape(heads, -1, array.shape[-1])
    return array.reshape(*array.shape[:-1], heads, -1)


def _rows(num_layers: int):
    for row in _TABLE:
        layers = range(num_layers) if "{i}" in row[0] else [0]
        parts = [("kernel", "gamma"), ("bias", "beta")] if row[0].endswith("}") else [("", "")]
        for i in layers:
            for dense, norm in parts:
                yield tuple(name.format(i=i, dense=dense, norm=norm) for name in row)
