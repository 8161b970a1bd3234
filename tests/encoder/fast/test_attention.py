import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from adapter_bert_tf.encoder.arithmetic import attention_scores
from adapter_bert_tf.encoder.fast.attention import SelfAttention

BATCH, LENGTH, HEADS, SIZE = 3, 5, 2, 4
WIDTH = HEADS * SIZE
# The last row has two tokens.
MASK = tf.constant([[[1] * 5], [[1, 1, 1, 0, 1]], [[1, 1, 0, 0, 0]]], tf.float32)


@pytest.fixture
def tokens():
    return tf.random.stateless_normal([BATCH, LENGTH, WIDTH], [1, 2])


def _attention(tokens, **options) -> SelfAttention:
    layer = SelfAttention(HEADS, SIZE, bias_initializer="random_normal", **options)
    layer(tokens, tokens)
    return layer


def _outputs_and_gradients(layer, query, tokens):
    with tf.GradientTape() as tape:
        tape.watch(tokens)
        output, scores = layer(
            query(tokens), tokens, attention_mask=MASK, return_attention_scores=True
        )
        first = output[:, 0]
        loss = tf.reduce_sum(tf.sin(first))
    sources = [tokens, *layer.trainable_variables]
    gradients = tape.gradient(loss, sources, unconnected_gradients="zero")
    return first, scores[:, :, 0], gradients


@pytest.mark.parametrize("use_bias", [True, False])
def test_one_query_gets_what_it_gets_among_others(tokens, use_bias):
    layer = _attention(tokens, use_bias=use_bias)
    alone = _outputs_and_gradients(layer, lambda x: x[:, :1], tokens)
    among_others = _outputs_and_gradients(layer, lambda x: x, tokens)
    for ours, expected in zip(tf.nest.flatten(alone), tf.nest.flatten(among_others), strict=True):
        np.testing.assert_allclose(ours, expected, atol=1e-5)


def test_one_query_needs_no_keys_and_values(tokens):
    layer = _attention(tokens)
    graph = tf.function(lambda x: layer(x[:, :1], x)).get_concrete_function(tokens).graph
    assert [BATCH, LENGTH, HEADS, SIZE] not in [
        output.shape for op in graph.get_operations() for output in op.outputs
    ]


@pytest.mark.parametrize("queries", [1, LENGTH])
def test_tokens_are_cast_where_precision_is_mixed(tokens, queries):
    layer = SelfAttention(HEADS, SIZE, dropout=0.5, dtype="mixed_bfloat16")
    output = layer(tokens[:, :queries], tokens, attention_mask=MASK, training=True)
    assert output.dtype == tf.bfloat16
    assert np.isfinite(output.numpy().astype(float)).all()


def test_the_configuration_of_a_built_layer_makes_a_built_layer(tokens):
    layer = _attention(tokens, dropout=0.5)
    again = SelfAttention.from_config(layer.get_config())
    again(tokens, tokens)
    again.set_weights(layer.get_weights())
    np.testing.assert_allclose(again(tokens, tokens), layer(tokens, tokens), atol=1e-6)


@pytest.mark.parametrize("queries", [1, LENGTH])
def test_one_query_is_dropped_out_as_others_are(tokens, queries):
    """The mean over many masks is the output without dropout, up to the output layer."""
    layer = _attention(tokens, dropout=0.5)
    query = tokens[:, :queries]
    outputs = [layer(query, tokens, attention_mask=MASK, training=True) for _ in range(400)]
    expected = layer(query, tokens, attention_mask=MASK)
    spread = np.std(outputs, axis=0)
    assert spread.min() > 0
    error = np.abs(np.mean(outputs, axis=0) - expected)
    assert (error < 6 * spread / np.sqrt(len(outputs))).all()


@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_the_gradient_is_that_of_the_formula(tokens, rate):
    layer = _attention(tokens, dropout=rate)
    drop = layer._dropout_layer.draw() if rate else tf.identity
    layer._dropout_layer.draw = lambda: drop
    query, key, value = (
        tf.random.stateless_normal([BATCH, HEADS, LENGTH, SIZE], [3, i]) for i in range(3)
    )
    # A mask as a factor, which TensorFlow differentiates itself.
    factors = drop(tf.ones([BATCH, HEADS, LENGTH, LENGTH]))

    def score(query, key):
        return attention_scores(query, key, None)

    results = []
    for attend in (
        lambda *heads: layer._weigh(score, *heads),
        lambda query, key, value: (score(query, key) * factors) @ value,
    ):
        with tf.GradientTape() as tape:
            tape.watch([query, key, value])
            output = attend(query, key, value)
            loss = tf.reduce_sum(tf.sin(output))
        results.append([output, *tape.gradient(loss, [query, key, value])])
    for ours, expected in zip(*results, strict=True):
        np.testing.assert_allclose(ours, expected, atol=1e-6)


def test_scores_are_computed_again_for_the_gradient(tokens):
    """TensorFlow joins equal operations, unless something tells them apart."""
    layer = _attention(tokens, dropout=0.5)

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(layer(x, x, training=True))
        return tape.gradient(loss, x)

    operations = step.get_concrete_function(tokens).graph.get_operations()
    of_scores = [LENGTH, LENGTH]
    products = [
        tuple(op.node_def.input)
        for op in operations
        if op.type == "BatchMatMulV2" and op.outputs[0].shape[2:] == of_scores
    ]
    # Forward; again; and the gradient of the scores.
    assert len(set(products)) == 3


@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("value_dim", [None, 3])
def test_is_kerass_attention(tokens, use_bias, value_dim):
    options = {"use_bias": use_bias, "value_dim": value_dim, "bias_initializer": "random_normal"}
    theirs = tf_keras.layers.MultiHeadAttention(HEADS, SIZE, **options)
    ours = SelfAttention.from_config(theirs.get_config())
    theirs(tokens, tokens)
    ours(tokens, tokens)
    names = [[each.name.split("/")[-2:] for each in layer.weights] for layer in (ours, theirs)]
    assert names[0] == names[1]
    ours.set_weights(theirs.get_weights())
    mask = tf.repeat(MASK, LENGTH, axis=1)
    arguments = {"attention_mask": mask, "return_attention_scores": True}
    for one, other in zip(
        ours(tokens, tokens, **arguments), theirs(tokens, tokens, **arguments), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_other_axes_are_refused():
    with pytest.raises(ValueError, match="attention_axes"):
        SelfAttention(HEADS, SIZE, attention_axes=[1])
