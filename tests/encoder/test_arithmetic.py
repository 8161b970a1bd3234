"""Two ways to compute the same."""

import numpy as np
import pytest
import tensorflow as tf

from adapter_bert_tf.encoder.arithmetic import layer_norm, served_layer_norm


@pytest.mark.parametrize("epsilon", [1e-12, 0.5])
@pytest.mark.parametrize("rows", [1, 5])
def test_the_layer_norm_of_exports_is_that_of_keras(epsilon, rows):
    random = np.random.default_rng(0)
    gamma, beta = (tf.Variable(random.normal(size=8), dtype=tf.float32) for _ in range(2))
    x = tf.constant(random.normal(3, 2, [rows, 8]), tf.float32)

    # A function: TensorFlow replaces the operations only in a graph.
    @tf.function(input_signature=[tf.TensorSpec([None, 8])])
    def served(x):
        return served_layer_norm(x, gamma, beta, epsilon)

    wanted = layer_norm(x, gamma, beta, epsilon)
    np.testing.assert_allclose(served(x), wanted, atol=2e-6)
