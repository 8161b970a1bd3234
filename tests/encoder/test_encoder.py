import itertools

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from official.nlp.modeling import networks

from adapter_bert_tf import AdapterBertEncoder, AdapterConfig, UserError, internals, load_encoder
from adapter_bert_tf.encoder import fast
from adapter_bert_tf.encoder.activations import gelu
from adapter_bert_tf.encoder.variables import is_adapter, is_layer_norm, variables_by_path
from tests import numpy_bert, tiny

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
# These read the LayerNorm behind a sub-layer, so there has to be one.
BOTH = ("attention", "feed_forward")
PFEIFFER = [
    {"design": "pfeiffer"},
    {"design": "pfeiffer", "sites": BOTH, "scaling": 2.0},
    {"design": "pfeiffer", "sites": BOTH, "layer_norm": True, "multiplicative": True},
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


@pytest.mark.parametrize(
    ("design", "options"),
    [
        *itertools.product(DESIGNS, [{}, {"norm_first": True}, {"output_range": 1}]),
        *itertools.product(PFEIFFER, [{}, {"output_range": 1}]),
    ],
)
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


@pytest.mark.parametrize("design", [*DESIGNS, *PFEIFFER])
def test_every_design_changes_the_output_and_has_gradients(bert, design):
    encoder = load_encoder(bert, AdapterConfig(size=4, init_scale=0.3, **design))
    adapters = [v for path, v in variables_by_path(encoder).items() if is_adapter(path)]
    with tf.GradientTape() as tape:
        outputs = encoder(tiny.inputs(), training=True)
        loss = tf.reduce_sum(outputs["pooled_output"] ** 2)
    assert all(gradient is not None for gradient in tape.gradient(loss, adapters))
    plain = load_encoder(bert, None)(tiny.inputs())["sequence_output"]
    assert np.abs(encoder(tiny.inputs())["sequence_output"] - plain).max() > 1e-2


def _as_numpy(encoder: AdapterBertEncoder) -> numpy_bert.Adapt:
    """An encoder's adapters, written from the papers."""
    config = encoder.adapter
    values = {path: v.numpy().astype(np.float64) for path, v in variables_by_path(encoder).items()}

    def adapt(layer, site, output, source, norm):
        stem = f"transformer/layer_{layer}/{site}_adapter/"
        if f"{stem}up/kernel" not in values:
            return output
        x = {"houlsby": output, "pfeiffer": norm(output + source), "parallel": source}[
            config.design
        ]
        if config.layer_norm:
            gamma, beta = values[f"{stem}layer_norm/gamma"], values[f"{stem}layer_norm/beta"]
            x = numpy_bert.layer_norm(x, gamma, beta, config.epsilon)
        hidden = np.tanh(x @ values[f"{stem}down/kernel"] + values[f"{stem}down/bias"])
        update = hidden @ values[f"{stem}up/kernel"] + values[f"{stem}up/bias"]
        update = config.scaling * update
        return output * (1 + update) if config.multiplicative else output + update

    return adapt


@pytest.mark.parametrize("is_fast", [True, False], ids=["fast", "plain"])
@pytest.mark.parametrize(
    "design",
    [
        {"design": "houlsby"},
        *PFEIFFER,
        {"design": "pfeiffer", "layers": (0, 2)},
        {"design": "parallel"},
        {"parallel": True},
        {"layer_norm": True, "epsilon": 0.5},
    ],
    ids=str,
)
def test_every_design_computes_what_its_paper_says(bert, design, is_fast):
    adapter = AdapterConfig(size=5, activation="tanh", **design)
    with fast.switched(is_fast):
        encoder = load_encoder(bert, adapter)
    random = np.random.default_rng(0)
    for path, variable in variables_by_path(encoder).items():
        if is_adapter(path):
            variable.assign_add(random.normal(size=variable.shape, scale=0.3))
    expected = numpy_bert.encode(tiny.inputs(), _as_numpy(encoder))
    mask = tiny.inputs()["input_mask"][:, :, None]
    found = encoder(tiny.inputs())["sequence_output"]
    np.testing.assert_allclose(found * mask, expected * mask, atol=2e-5)
    in_graph = tf.function(encoder.__call__)(tiny.inputs())["sequence_output"]
    np.testing.assert_allclose(in_graph * mask, expected * mask, atol=2e-5)
    first = encoder(tiny.inputs(), output_range=1)["sequence_output"]
    np.testing.assert_allclose(first[:, 0], expected[:, 0], atol=2e-5)


def test_pfeiffers_design_needs_layer_norms_behind_the_sub_layers():
    encoder = AdapterBertEncoder(adapter=AdapterConfig(design="pfeiffer"), norm_first=True, **SIZES)
    with pytest.raises(UserError, match="pfeiffer needs LayerNorms behind the sub-layers"):
        encoder.ensure_built()


def test_pfeiffers_adapters_add_no_variables_of_the_layer_norm_that_they_read():
    plain, ours = (
        AdapterBertEncoder(adapter=adapter, **SIZES)
        for adapter in (None, AdapterConfig(size=4, **PFEIFFER[1]))
    )
    for encoder in (plain, ours):
        encoder.ensure_built()
    names = [path for path in variables_by_path(ours) if not is_adapter(path)]
    assert sorted(names) == sorted(variables_by_path(plain))
    assert len(ours.weights) == len({id(each) for each in ours.weights})
    assert ours.adapter_parameters() == tiny.LAYERS * 2 * (2 * 4 * tiny.WIDTH + 4 + tiny.WIDTH)


@pytest.mark.parametrize("site", ["attention", "feed_forward"])
def test_sites_and_layers_choose_where_adapters_stand(bert, site):
    encoder = load_encoder(bert, AdapterConfig(size=4, sites=(site,), layers=[1]))
    adapters = [path for path in variables_by_path(encoder) if is_adapter(path)]
    assert adapters
    assert all(path.startswith(f"transformer/layer_1/{site}_adapter/") for path in adapters)


def test_layers_that_do_not_exist_are_told():
    with pytest.raises(ValueError, match="from 0 to 2"):
        AdapterBertEncoder(adapter=AdapterConfig(layers=[3]), **SIZES)


@pytest.mark.parametrize("design", [{"parallel": True}, *PFEIFFER, {"design": "parallel"}], ids=str)
def test_config_round_trip(design):
    encoder = AdapterBertEncoder(
        adapter=AdapterConfig(size=4, layers=[0, 2], init_scale=0.3, **design),
        norm_epsilon=1e-6,
        **SIZES,
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


@pytest.mark.parametrize("built", [True, False], ids=["built", "restored_before_the_first_call"])
def test_variables_and_checkpoints_are_model_gardens(tmp_path, built):
    theirs, ours = _pair()
    names = {path: v.shape for path, v in variables_by_path(theirs).items()}
    assert {path: v.shape for path, v in variables_by_path(ours).items()} == names
    saved = tf.train.Checkpoint(encoder=theirs).save(str(tmp_path / "ckpt"))
    fresh = AdapterBertEncoder(**SIZES)
    if built:
        fresh.ensure_built()
    status = tf.train.Checkpoint(encoder=fresh).restore(saved)
    fresh.ensure_built()
    status.assert_existing_objects_matched()
    np.testing.assert_allclose(
        fresh(tiny.inputs())["pooled_output"], theirs(tiny.inputs())["pooled_output"], atol=1e-6
    )


def test_the_mask_has_no_copy_for_each_query():
    encoder = AdapterBertEncoder(**SIZES)
    mask = tf.constant(tiny.inputs()["input_mask"])
    layer = internals.get_encoder_layers(encoder)["mask"]
    found = layer(tf.zeros([*mask.shape, tiny.WIDTH]), mask)
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
    layers = internals.get_block_layers(encoder.transformer_layers[0])
    assert layers["attention_dropout"].rate == 0.5


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


@pytest.mark.parametrize(
    ("design", "options"),
    [
        *itertools.product([None, *DESIGNS], [{}, {"norm_first": True}, {"output_range": 1}]),
        *itertools.product(PFEIFFER, [{}, {"output_range": 1}]),
    ],
    ids=str,
)
def test_fast_layers_compute_what_the_plain_ones_do(design, options):
    adapter = None if design is None else AdapterConfig(size=4, init_scale=0.3, **design)
    rates = {"output_dropout": 0.0, "attention_dropout": 0.0}
    encoders = []
    for on in (True, False):
        with fast.switched(on):
            encoders.append(AdapterBertEncoder(adapter=adapter, **SIZES, **rates, **options))
            encoders[-1].ensure_built()
    quick, plain = encoders
    values = variables_by_path(quick)
    assert values.keys() == variables_by_path(plain).keys()
    for path, variable in variables_by_path(plain).items():
        variable.assign(values[path])
    results = []
    for encoder in encoders:
        with tf.GradientTape() as tape:
            outputs = encoder(tiny.inputs(), training=True)["sequence_output"]
            loss = tf.reduce_sum(tf.sin(outputs))
        variables = variables_by_path(encoder)
        gradients = tape.gradient(loss, variables, unconnected_gradients="zero")
        results.append({"output": outputs, **gradients})
    for name, expected in results[1].items():
        found = tf.convert_to_tensor(results[0][name])
        # Gradients go up to hundreds here. That of a key's bias is 0, but for rounding.
        expected = tf.convert_to_tensor(expected)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-3, err_msg=name)


def test_without_the_fast_layers_all_but_adapters_is_kerass_and_model_gardens():
    with fast.switched(on=False):
        encoder = AdapterBertEncoder(adapter=AdapterConfig(size=4, parallel=True), **SIZES)
        encoder.ensure_built()
    modules = {type(layer).__module__ for layer in internals.sublayers(encoder, recursive=True)}
    assert not [name for name in modules if name.startswith("adapter_bert_tf.encoder.fast")]
    graph = tf.function(lambda x: encoder(x, training=True)).get_concrete_function(tiny.inputs())
    # Nothing is compiled by XLA, which a GPU may lack the tools for.
    functions = graph.graph.as_graph_def().library.function
    assert not [each for each in functions if each.attr["_XlaMustCompile"].b]


@pytest.mark.parametrize("devices", [["GPU"], []])
def test_fast_layers_are_for_the_cpu(devices, monkeypatch):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: devices)
    assert fast.is_on() == (not devices)


def test_encoders_can_share_the_variables_of_the_base(bert):
    first = load_encoder(bert, AdapterConfig(size=4))
    shared = {
        path: variable
        for path, variable in variables_by_path(first).items()
        if not is_adapter(path) and not is_layer_norm(path)
    }
    second = AdapterBertEncoder(
        adapter=AdapterConfig(size=8, layers=[1]), **first.base.config.encoder_arguments()
    )
    second.ensure_built(shared)
    own = {
        path
        for path, variable in variables_by_path(second).items()
        if shared.get(path) is not variable
    }
    assert own
    assert all(is_adapter(path) or is_layer_norm(path) for path in own)
    with pytest.raises(ValueError, match="can't be shared"):
        AdapterBertEncoder(**{**SIZES, "num_layers": 1}).ensure_built(shared)
