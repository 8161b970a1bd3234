"""What is trained, counted for BERT-base and BERT-large without allocating either."""

import pytest
import tensorflow as tf

from adapter_bert_tf import AdapterBertEncoder, AdapterConfig, ClassificationHead, TaskModel, Tuning
from adapter_bert_tf.tuning.methods import METHODS, Method

SIZES = {"base": (12, 768, 12), "large": (24, 1024, 16)}
WORDS, CLASSES = 30522, 2


def _variables(size: str, adapter: AdapterConfig | None):
    layers, width, heads = SIZES[size]
    # A graph of its own only describes the variables.
    with tf.Graph().as_default():
        encoder = AdapterBertEncoder(
            vocab_size=WORDS,
            hidden_size=width,
            num_layers=layers,
            num_attention_heads=heads,
            inner_dim=4 * width,
            type_vocab_size=2,
            adapter=adapter,
        )
        tuning = Tuning("adapters" if adapter else "full")
        return TaskModel(encoder, ClassificationHead(CLASSES), tuning).variables_by_path()


def _formulas(size: str, m: int) -> dict[str, int]:
    layers, d, _ = SIZES[size]
    attention, feed_forward = 4 * (d * d + d), 8 * d * d + 5 * d
    embeddings = (WORDS + 512 + 2) * d + 2 * d
    pooler = d * d + d
    return {
        "head": CLASSES * d + CLASSES,
        "adapter": 2 * m * d + d + m,
        "norms": 2 * d * (2 * layers + 1),
        "layer": attention + feed_forward + 4 * d,
        "pooler": pooler,
        "base": embeddings + layers * (attention + feed_forward + 4 * d) + pooler,
    }


def test_bert_base_with_adapters_of_64_trains_2419202():
    variables = _variables("base", AdapterConfig(size=64))
    assert Tuning().count(variables)[0] == 2_419_202


@pytest.mark.parametrize("size", ["base", pytest.param("large", marks=pytest.mark.slow)])
def test_counts_follow_the_formulas(size):
    m, layers = 8, SIZES[size][0]
    f = _formulas(size, m)
    plain, adapted = _variables(size, None), _variables(size, AdapterConfig(size=m))

    assert Tuning("full").count(plain) == (f["base"] + f["head"],) * 2
    assert Tuning("head").count(plain)[0] == f["head"]
    assert Tuning("layer_norm").count(plain)[0] == f["norms"] + f["head"]
    for k in (1, 2, 3, 5, 7, 9, 11, 12):
        expected = k * f["layer"] + f["pooler"] + f["head"]
        assert Tuning("top_k", k=k).count(plain)[0] == expected

    adapters = 2 * layers * f["adapter"]
    total = f["base"] + adapters + f["head"]
    assert Tuning().count(adapted) == (adapters + f["norms"] + f["head"], total)
    assert Tuning(layer_norms=False).count(adapted)[0] == adapters + f["head"]
    upper = Tuning(from_layer=layers // 2).count(adapted)[0]
    # Below, nothing: neither the adapters and LayerNorms nor the embeddings' LayerNorm.
    assert upper == layers * f["adapter"] + (f["norms"] - 2 * SIZES[size][1]) // 2 + f["head"]


def test_trained_variables_are_named():
    paths = [
        "word_embeddings/embeddings",
        "embeddings/layer_norm/gamma",
        "transformer/layer_0/self_attention/query/kernel",
        "transformer/layer_0/attention_adapter/down/kernel",
        "transformer/layer_0/attention_adapter/layer_norm/gamma",
        "transformer/layer_1/output_layer_norm/beta",
        "transformer/layer_1/output/bias",
        "pooler_transform/kernel",
        "head/output/bias",
    ]
    assert Tuning("adapters").trained(paths) == {paths[i] for i in (1, 3, 4, 5, 8)}
    assert Tuning("adapters", layer_norms=False).trained(paths) == {paths[i] for i in (3, 4, 8)}
    assert Tuning("adapters", from_layer=1).trained(paths) == {paths[i] for i in (5, 8)}
    assert Tuning("layer_norm").trained(paths) == {paths[i] for i in (1, 5, 8)}
    assert Tuning("top_k", k=1).trained(paths) == {paths[i] for i in (5, 6, 7, 8)}
    # All layers are not everything: the embeddings stay as they are.
    assert Tuning("top_k", k=2).trained(paths) == {paths[i] for i in range(2, 9)}
    assert Tuning("head").trained(paths) == {paths[8]}
    assert Tuning("full").trained(paths) == set(paths)


def test_says_count_and_share():
    line = Tuning().describe(_variables("base", AdapterConfig(size=64)))
    assert line == "adapters: 2,419,202 of 111,863,042 parameters are trained (2.16%)"


@pytest.mark.parametrize("method", METHODS)
def test_round_trip(method):
    tuning = Tuning(method, k=2)
    assert Tuning(**tuning.to_dict()) == tuning


def test_wrong_methods_are_told():
    with pytest.raises(ValueError, match="method: expected one of adapters, .* not 'lora'"):
        Tuning("lora")
    with pytest.raises(ValueError, match="k: expected a whole number from 1"):
        Tuning("top_k", k=0)


def test_a_new_method_is_a_line(monkeypatch):
    monkeypatch.setitem(METHODS, "biases", Method(lambda path, *_: path.endswith("/bias"), 1e-3))
    tuning = Tuning("biases")
    assert tuning.learning_rate == 1e-3
    paths = ["transformer/layer_0/output/bias", "transformer/layer_0/output/kernel"]
    assert tuning.trained([*paths, "head/output/kernel"]) == {paths[0], "head/output/kernel"}
