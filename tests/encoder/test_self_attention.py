import numpy as np
import pytest
import tensorflow as tf

from adapter_bert_tf.encoder.self_attention import SelfAttention

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
    sizes = [output.shape.num_elements() for op in graph.get_operations() for output in op.outputs]
    assert max(sizes) < BATCH * HEADS * LENGTH * WIDTH
    assert [BATCH, LENGTH, HEADS, SIZE] not in [
        output.shape for op in graph.get_operations() for output in op.outputs
    ]


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


def test_the_gradient_drops_what_the_output_dropped(tokens):
    layer = _attention(tokens, dropout=0.5)
    drop = layer._dropout_layer.draw()
    layer._dropout_layer.draw = lambda: drop
    scores = tf.nn.softmax(tf.random.stateless_normal([BATCH, HEADS, LENGTH, LENGTH], [3, 4]))
    value = tf.random.stateless_normal([BATCH, HEADS, LENGTH, SIZE], [5, 6])
    # A mask as a factor, which TensorFlow differentiates itself.
    mask = drop(tf.ones_like(scores))
    results = []
    for product in (layer._dropped_product, lambda scores, value: (scores * mask) @ value):
        with tf.GradientTape() as tape:
            tape.watch([scores, value])
            output = product(scores, value)
            loss = tf.reduce_sum(tf.sin(output))
        results.append([output, *tape.gradient(loss, [scores, value])])
    for ours, expected in zip(*results, strict=True):
        np.testing.assert_allclose(ours, expected, atol=1e-6)


def test_dropped_scores_are_not_kept_for_the_gradient(tokens):
    """TensorFlow joins equal operations, unless something tells them apart."""
    layer = _attention(tokens, dropout=0.5)

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(layer(x, x, training=True))
        return tape.gradient(loss, x)

    graph = step.get_concrete_function(tokens).graph
    drops = [op for op in graph.get_operations() if "drop" in str(op.node_def.attr.get("f", ""))]
    assert len(drops) == 3
    assert len({tuple(op.node_def.input) for op in drops}) == 3
