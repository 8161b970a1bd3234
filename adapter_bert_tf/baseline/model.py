"""The Keras model: a deep part on embeddings, and beside it a wide linear part on words.

The paper names the parts. Open in it, and chosen here: the filters of the convolution read as many
words as the longest n-gram has, so that they learn shorter ones too, and their outputs are pooled
by their maximum over the words, to which activation and dropout are applied; a hidden layer is a
product, its normalization, its activation, dropout; the regularization is the sum of squares, in
the wide part of the weights that a row uses.
"""

from collections.abc import Callable

import numpy as np
import tensorflow as tf
import tf_keras

from adapter_bert_tf.baseline.space import Design
from adapter_bert_tf.baseline.text_module import pool

# What a call takes: vectors, `[rows, width]`, or for a convolution those of all words, `[words,
# width]`, and the row of each; and the wide part's features, `[rows, (features)]`.
EMBEDDED, WORD_ROWS, WIDE = "embedded", "word_rows", "wide"

ACTIVATIONS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "relu": tf.nn.relu,
    "relu6": tf.nn.relu6,
    "leaky_relu": tf.nn.leaky_relu,
    "swish": tf.nn.silu,
    "sigmoid": tf.sigmoid,
    "tanh": tf.tanh,
}
# Trainings have hundreds of steps; Keras's 0.99 is for thousands.
_MOMENTUM = 0.9


class BaselineModel(tf_keras.Model):
    """A baseline.

    Args:
      design: Its design.
      outputs: Number of outputs.
      features: Number of features of the wide part.
    """

    def __init__(self, design: Design, outputs: int, features: int):
        super().__init__(name="baseline")
        self.design = design
        self.embedding_dropout = Dropout(design.embedding_dropout)
        self.convolutions, self.convolution_norms = [], []
        if design.convolution:
            # Keras's Conv1D would need padding to the longest text of a batch.
            self.convolutions = [tf_keras.layers.Dense(design.filters, name="convolution")]
            if design.convolution_batch_norm:
                self.convolution_norms = [_norm("batch", "convolution_norm")]
        self.convolution_dropout = Dropout(design.convolution_dropout)
        numbers = range(1, design.hidden_layers + 1)
        self.hidden = [
            tf_keras.layers.Dense(design.hidden_size, name=f"hidden_{i}") for i in numbers
        ]
        self.hidden_norms = [
            _norm(design.hidden_norm, f"hidden_norm_{i}")
            for i in numbers
            if design.hidden_norm != "none"
        ]
        self.hidden_dropout = Dropout(design.hidden_dropout)
        self.last = tf_keras.layers.Dense(outputs, name="output")
        self.wide = self.add_weight(
            name="wide/kernel", shape=[features, outputs], initializer="zeros"
        )

    def call(
        self,
        inputs: dict[str, tf.Tensor],
        training: bool = False,
        wide: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Returns the outputs, `[rows, outputs]`.

        Args:
          inputs: The embeddings, and the features of the wide part.
          training: Whether dropout drops.
          wide: Weights of some features, if it is these that the inputs number.
        """
        x = self.embedding_dropout(inputs[EMBEDDED], training=training)
        if self.design.convolution:
            x = self._convolve(x, inputs[WORD_ROWS], inputs[WIDE].nrows(), training)
        activate = ACTIVATIONS[self.design.hidden_activation]
        for number, dense in enumerate(self.hidden):
            x = dense(x)
            if self.hidden_norms:
                x = self.hidden_norms[number](x, training=training)
            x = self.hidden_dropout(activate(x), training=training)
        weights = self.wide if wide is None else wide
        return self.last(x) + pool(weights, inputs[WIDE], is_sparse=wide is None)

    def _convolve(
        self, x: tf.Tensor, rows: tf.Tensor, count: tf.Tensor, training: bool
    ) -> tf.Tensor:
        x = _windows(x, rows, self.design.longest_ngram)
        (convolution,) = self.convolutions
        if not convolution.built:
            convolution.build(x.shape)
        x = tf.matmul(x, convolution.kernel)
        for norm in self.convolution_norms:
            x = norm(x + convolution.bias, training=training)
        x = _segment_max(x, rows, count)
        # A text without words has the lowest number there, and gets zeros.
        has_words = x > x.dtype.min
        if not self.convolution_norms:
            # The maxima are fewer than the words, to which a bias adds the same.
            x += convolution.bias
        x = tf.where(has_words, x, 0.0)
        x = ACTIVATIONS[self.design.convolution_activation](x)
        return self.convolution_dropout(x, training=training)

    def penalty(self, weights: tf.Tensor, uses: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        """Returns the regularization's part of the loss of a batch.

        Args:
          weights: The weights of the wide part that it uses, `[features, outputs]`. A sum over all
            features would take longer than the rest of a step.
          uses: How often it uses each of them.
          rows: Its number of rows.
        """
        deep, wide = self.design.deep_regularization, self.design.wide_regularization
        found = tf.zeros([])
        if deep:
            layers = (*self.convolutions, *self.hidden, self.last)
            squares = [tf.reduce_sum(tf.square(layer.kernel)) for layer in layers]
            found += deep * tf.add_n(squares)
        if wide:
            squares = tf.reduce_sum(tf.square(weights), axis=1)
            found += (
                wide
                * tf.reduce_sum(squares * tf.cast(uses, tf.float32))
                / tf.cast(rows, tf.float32)
            )
        return found

    def deep_variables(self) -> list[tf.Variable]:
        """Returns what is trained of the deep part."""
        return [each for each in self.trainable_variables if each is not self.wide]

    def variables_by_path(self) -> dict[str, tf.Variable]:
        """Returns all variables, by their layers' names and their own."""
        layers = [*self.convolutions, *self.convolution_norms, *self.hidden, *self.hidden_norms]
        return {
            "wide/kernel": self.wide,
            **{
                f"{layer.name}/{variable.name.split('/')[-1].split(':')[0]}": variable
                for layer in (*layers, self.last)
                for variable in layer.variables
            },
        }

    def ensure_built(self, width: int) -> None:
        """Creates the variables for vectors of some width."""
        no_features = tf.RaggedTensor.from_row_lengths(tf.zeros([0], tf.int32), [0])
        self(
            {EMBEDDED: tf.zeros([1, width]), WORD_ROWS: tf.zeros([1], tf.int64), WIDE: no_features}
        )


class Dropout(tf_keras.layers.Dropout):
    """Keras's dropout with a byte for each number: its 32 bits took a fifth of some steps.

    So rates are multiples of 1/256.
    """

    def __init__(self, rate: float):
        super().__init__(rate)
        self._dropped = round(256 * rate)
        # NumPy is seeded, and so one seed decides all of a training.
        self._random = tf.random.Generator.from_seed(np.random.randint(2**31))

    def call(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        if not training or not self._dropped:
            return inputs
        count = tf.size(inputs)
        bits = self._random.uniform_full_int([count // 4 + 1], tf.uint32)
        numbers = tf.reshape(tf.bitcast(bits, tf.uint8), [-1])[:count]
        kept = tf.cast(tf.reshape(numbers >= self._dropped, tf.shape(inputs)), inputs.dtype)
        return inputs * kept * (256 / (256 - self._dropped))


def _windows(x: tf.Tensor, rows: tf.Tensor, words: int) -> tf.Tensor:
    """Returns each word with those behind it in its row, `[words, words of a window * width]`."""
    count, width = tf.size(rows), x.shape[-1]
    places = tf.range(count)[:, None] + tf.range(words)
    row_of = tf.gather(tf.pad(rows, [[0, words]], constant_values=-1), places)
    # Behind the last word there are zeros.
    places = tf.where(row_of == rows[:, None], places, count)
    return tf.reshape(tf.gather(tf.pad(x, [[0, 1], [0, 0]]), places), [-1, words * width])


def _segment_max(x: tf.Tensor, rows: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    """Returns the maxima of each row's words.

    TensorFlow's own gradient is the same, but takes twice the operations, because it allows for
    words of no row.
    """

    @tf.custom_gradient
    def maxima_of(x: tf.Tensor):
        maxima = tf.math.unsorted_segment_max(x, rows, count)

        def backward(gradient: tf.Tensor) -> tf.Tensor:
            selected = x == tf.gather(maxima, rows)
            equal = tf.math.unsorted_segment_sum(tf.cast(selected, x.dtype), rows, count)
            return tf.where(selected, tf.gather(gradient / tf.maximum(equal, 1.0), rows), 0.0)

        return maxima, backward

    return maxima_of(x)


def _norm(kind: str, name: str) -> tf_keras.layers.Layer:
    if kind == "layer":
        return tf_keras.layers.LayerNormalization(name=name)
    return tf_keras.layers.BatchNormalization(momentum=_MOMENTUM, name=name)
