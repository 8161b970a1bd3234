import itertools

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from official.nlp.modeling import networks

from adapter_bert_tf import AdapterBertEncoder, AdapterConfig, load_encoder
from adapter_bert_tf.encoder.activations import gelu
from adapter_bert_tf.encoder.variables import is_adapter, variables_by_path
from tests import tiny

SIZES = {
    "vocab_size": tiny.WORDS,
    "hidden_size": tiny.WIDTH,
    "num_layers": tiny.LAYERS,
    "num_attention_heads": tiny.HEADS,
    "inner_dim": tiny.INNER,
    "max_sequence_length": tiny.LENGTH,
    "type_vocab_size": 2,
}
DESIGNS = [
    dict(zip(("parallel", "multiplicative", "layer_norm"), choices, strict=True))
    for choices in itertools.product([False, True], repeat=3)
]


def _pair(adapter=None, **options):
    """Model Garden's encoder and ours, with the same base weights."""
    theirs = networks.BertEncoderV2(inner_activation=gelu, **SIZES, **options)
    theirs(tiny.inputs())
    ours = AdapterBertEncoder(adapter=adapter, **SIZES, **options)
    ours.ensure_built()
    values = variables_by_path(theirs)
    for path, variable in variables_by_path(ours).items():
        if not is_adapter(path):
            variable.assign(values.pop(path))
    assert not values
    return theirs, ours


@pytest.mark.parametrize(
    "options",
    [{}, {"norm_first": True}, {"output_range": 1}, {"norm_first": True, "output_range": 1}],
)
def test_plain_encoder_is_model_gardens(options):
    theirs, ours = _pair(**options)
    expected, outputs = theirs(tiny.inputs()), ours(tiny.inputs())
    assert outputs.keys() == expected.keys()
    np.testing.assert_allclose(outputs["pooled_output"], expected["pooled_output"], atol=1e-5)
    np.testing.assert_allclose(outputs["sequence_output"], expected["sequence_output"], atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"norm_first": True}, {"output_range": 1}])
@pytest.mark.parametrize("design", DESIGNS)
def test_adapters_of_scale_zero_change_nothing(design, options):
    adapter = AdapterConfig(size=4, init_scale=0.0, **design)
    _, ours = _pair(adapter, **options)
    plain = AdapterBertEncoder(**SIZES, **options)
    plain.ensure_built()
    for path, variable in variables_by_path(plain).items():
        variable.assign(variables_by_path(ours)[path])
    np.testing.assert_array_equal(
        ours(tiny.inputs())["sequence_output"], plain(tiny.inputs())["sequence_output"]
    )


def test_small_start_changes_little_and_large_changes_much(bert):
    plain = load_encoder(bert, None)(tiny.inputs())["sequence_output"]
    small = load_encoder(bert, AdapterConfig(size=8))(tiny.inputs())["sequence_output"]
    large = load_encoder(bert, AdapterConfig(size=8, init_scale=0.5))(tiny.inputs())
    assert 0 < np.abs(small - plain).max() < 1e-3
    assert np.abs(large["sequence_output"] - plain).max() > 1e-2


@pytest.mark.parametrize("design", DESIGNS)
def test_every_design_changes_the_output_and_has_gradients(bert, design):
    encoder = load_encoder(bert, AdapterConfig(size=4, init_scale=0.3, **design))
    adapters = [v for path, v in variables_by_path(encoder).items() if is_adapter(path)]
    with tf.GradientTape() as tape:
        outputs = encoder(tiny.inputs(), training=True)
        loss = tf.reduce_sum(outputs["pooled_output"] ** 2)
    assert all(gradient is not None for gradient in tape.gradient(loss, adapters))
    plain = load_encoder(bert, None)(tiny.inputs())["sequence_output"]
    assert np.abs(encoder(tiny.inputs())["sequence_output"] - plain).max() > 1e-2


@pytest.mark.parametrize("site", ["attention", "feed_forward"])
def test_sites_and_layers_choose_where_adapters_stand(bert, site):
    encoder = load_encoder(bert, AdapterConfig(size=4, sites=(site,), layers=[1]))
    adapters = [path for path in variables_by_path(encoder) if is_adapter(path)]
    assert adapters
    assert all(path.startswith(f"transformer/layer_1/{site}_adapter/") for path in adapters)


def test_layers_that_do_not_exist_are_told():
    with pytest.raises(ValueError, match="from 0 to 2"):
        AdapterBertEncoder(adapter=AdapterConfig(layers=[3]), **SIZES)


def test_config_round_trip():
    encoder = AdapterBertEncoder(
        adapter=AdapterConfig(size=4, layers=[0, 2], parallel=True), norm_epsilon=1e-6, **SIZES
    )
    again = AdapterBertEncoder.from_config(encoder.get_config())
    assert again.get_config() == encoder.get_config()
    assert again.adapter == encoder.adapter
    again.ensure_built()
    encoder.ensure_built()
    for path, variable in variables_by_path(again).items():
        variable.assign(variables_by_path(encoder)[path])
    np.testing.assert_array_equal(
        again(tiny.inputs())["pooled_output"], encoder(tiny.inputs())["pooled_output"]
    )


def test_serializes_as_a_keras_layer():
    encoder = AdapterBertEncoder(adapter=AdapterConfig(size=4), **SIZES)
    again = tf_keras.layers.deserialize(tf_keras.layers.serialize(encoder))
    assert isinstance(again, AdapterBertEncoder)
    assert again.adapter == encoder.adapter


def test_variables_and_checkpoints_are_model_gardens(tmp_path):
    theirs, ours = _pair()
    names = {path: v.shape for path, v in variables_by_path(theirs).items()}
    assert {path: v.shape for path, v in variables_by_path(ours).items()} == names
    saved = tf.train.Checkpoint(encoder=theirs).save(str(tmp_path / "ckpt"))
    fresh = AdapterBertEncoder(**SIZES)
    fresh.ensure_built()
    status = tf.train.Checkpoint(encoder=fresh).restore(saved)
    status.assert_existing_objects_matched()
    np.testing.assert_allclose(
        fresh(tiny.inputs())["pooled_output"], theirs(tiny.inputs())["pooled_output"], atol=1e-6
    )


def test_the_mask_has_no_copy_for_each_query():
    encoder = AdapterBertEncoder(**SIZES)
    mask = tf.constant(tiny.inputs()["input_mask"])
    found = encoder._attention_mask_layer(tf.zeros([*mask.shape, tiny.WIDTH]), mask)
    np.testing.assert_array_equal(found, mask[:, tf.newaxis])


def test_attention_scores_are_model_gardens():
    theirs, ours = _pair(return_attention_scores=True)
    expected, outputs = theirs(tiny.inputs()), ours(tiny.inputs())
    for scores, expected_scores in zip(
        outputs["attention_scores"], expected["attention_scores"], strict=True
    ):
        np.testing.assert_allclose(scores, expected_scores, atol=1e-6)


def test_hidden_dropout_follows_the_attention_too():
    """BERT drops the attention's output at the hidden rate; Model Garden at the attention's."""
    encoder = AdapterBertEncoder(**SIZES, output_dropout=0.5, attention_dropout=0.0)
    encoder.ensure_built()
    assert encoder.transformer_layers[0]._attention_dropout.rate == 0.5


def test_base_products_are_2d(bert):
    encoder = load_encoder(bert, None)
    graph = tf.function(encoder.__call__).get_concrete_function(tiny.inputs()).graph
    types = [op.type for op in graph.get_operations()]
    # Query, key, value, output, intermediate and output of each layer, and the pooler; the one-hot
    # product of the segments is the embedding's.
    assert types.count("MatMul") == 6 * tiny.LAYERS + 2
    # Only the attention itself, which has no weights, is on more axes.
    assert types.count("BatchMatMulV2") == 2 * tiny.LAYERS
    assert "Einsum" not in types
