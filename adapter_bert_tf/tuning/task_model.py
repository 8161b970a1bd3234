"""The model of a task."""

import itertools

import tensorflow as tf
import tf_keras

from adapter_bert_tf.encoder.encoder import AdapterBertEncoder
from adapter_bert_tf.encoder.variables import leaves
from adapter_bert_tf.heads.head import Head
from adapter_bert_tf.tuning.methods import Tuning

# Nothing in a step needs AutoGraph, and to convert all of Model Garden's layers takes it seconds.
_as_it_is = tf.autograph.experimental.do_not_convert


class TaskModel(tf_keras.Model):
    """An encoder with a head on it, and what of them is trained.

    Its steps are not converted by AutoGraph: a head, loss or metric of one's own has to use
    `tf.cond` where it depends on a tensor.

    Args:
      encoder: The encoder, from `load_encoder`.
      head: The task's head.
      tuning: The tuning method.

    Attributes:
      forward: From inputs to outputs, without training, in one graph for all evaluations.

    Example:
      ```
      model = TaskModel(load_encoder("minilm"), ClassificationHead(classes=2))
      model.compile(optimizer=create_optimizer(3e-4, steps=100, warmup_steps=10),
                    loss=model.head.loss)
      ```
    """

    def __init__(self, encoder: AdapterBertEncoder, head: Head, tuning: Tuning = Tuning()):
        super().__init__(name="task")
        self.encoder = encoder
        self.encoder.ensure_built()
        self.set_head(head)
        self.set_tuning(tuning)

    def set_head(self, head: Head) -> None:
        """Puts another head on the encoder; the model has to be compiled anew to be trained."""
        head.ensure_built(self.encoder.hidden_size)
        self.head = head
        self._forget_traces()

    def set_tuning(self, tuning: Tuning) -> None:
        """Makes exactly what `tuning` trains trainable; the model has to be compiled anew.

        The optimizer keeps state for what it trained before.
        """
        tuning.check(self.encoder.num_layers, has_adapters=self.encoder.adapter is not None)
        self.tuning = tuning
        trained = tuning.trained(self.variables_by_path())
        self.trainable = True
        for layer, variables in self._leaves():
            layer.trainable = not trained.isdisjoint(variables)
        self._forget_traces()

    def _forget_traces(self) -> None:
        """Makes Keras trace anew, where it would go on with the graphs of before."""
        self.train_function = self.test_function = self.predict_function = None
        self.forward = tf.function(
            lambda inputs: self(inputs, training=False), reduce_retracing=True, autograph=False
        )

    def call(self, inputs: dict[str, tf.Tensor]) -> tf.Tensor:
        return self.head(self.encoder(inputs, output_range=self.head.tokens_read))

    def variables_by_path(self) -> dict[str, tf.Variable]:
        """All variables: the encoder's under their own paths, the head's below `head/`."""
        return {path: variable for _, own in self._leaves() for path, variable in own.items()}

    def _leaves(self):
        return itertools.chain(leaves(self.encoder), leaves(self.head, "head/"))

    def make_train_function(self, force=False):
        # Before the step is traced: one that makes variables is traced twice.
        self.build_optimizer()
        return super().make_train_function(force)

    def build_optimizer(self) -> None:
        """Makes the optimizer's variables, if nothing has done so yet."""
        # Outside of the scope, all devices would share the moments, and each would update them.
        with self.distribute_strategy.scope():
            self.optimizer.build(self.trainable_variables)

    @_as_it_is
    def test_step(self, data):
        return super().test_step(data)

    @_as_it_is
    def predict_step(self, data):
        return super().predict_step(data)

    @_as_it_is
    def train_step(self, data):
        """Keras's step, with a tape that watches only what is trained.

        The default tape watches frozen variables as well, and so records all that they feed.
        """
        inputs, labels, weights = tf_keras.utils.unpack_x_y_sample_weight(data)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self.trainable_variables)
            outputs = self(inputs, training=True)
            loss = self.compute_loss(inputs, labels, outputs, weights)
        gradients = self.optimizer.compute_gradients(loss, self.trainable_variables, tape)
        # A span head leaves the pooler without one, a head on the first token the last layer's bias
        # of keys. Keras would warn at each start.
        self.optimizer.apply_gradients([pair for pair in gradients if pair[0] is not None])
        return self.compute_metrics(inputs, labels, outputs, weights)
