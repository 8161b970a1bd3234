"""The Keras model of a task: an encoder, a head on it, and what of them is trained."""

import contextlib
from collections.abc import Callable

import tensorflow as tf
import tf_keras

from adapter_bert_tf import internals
from adapter_bert_tf.encoder.encoder import AdapterBertEncoder
from adapter_bert_tf.encoder.variables import variables_by_path
from adapter_bert_tf.heads.head import Head
from adapter_bert_tf.text.inputs import IDS, MASK, SEGMENTS
from adapter_bert_tf.tuning.adapter_drop import AdapterDrop
from adapter_bert_tf.tuning.methods import Tuning

# Nothing in a step needs AutoGraph, and converting all of Model Garden's layers takes seconds.
_unconverted = tf.autograph.experimental.do_not_convert


@tf_keras.utils.register_keras_serializable(package="adapter_bert_tf")
class TaskModel(tf_keras.Model):
    """An encoder with a head on it, and what of them is trained.

    What is trained is decided by variable, not by layer: `trainable_variables` are exactly those
    that the tuning method names.

    Its steps are not converted by AutoGraph: a head, loss or metric of your own has to use
    `tf.cond` where it depends on the value of a tensor.

    Args:
      encoder: The encoder, from `load_encoder`.
      head: The task's head.
      tuning: The tuning method.

    Attributes:
      drop: What lets layers fall back in a step, if the tuning has `adapter_drop`; it is made
        before the first step.

    Example:
      ```
      model = TaskModel(load_encoder("minilm"), ClassificationHead(classes=2))
      model.compile(optimizer=create_optimizer(3e-4, steps=100, warmup_steps=10),
                    loss=model.head.loss)
      ```
    """

    _finite: Callable[[], tf.Tensor] | None

    def __init__(
        self,
        encoder: AdapterBertEncoder,
        head: Head,
        tuning: Tuning = Tuning(),
        name: str = "task",
        **kwargs,
    ):
        super().__init__(name=name, **kwargs)
        self.drop: AdapterDrop | None = None
        self.encoder = encoder
        self.encoder.ensure_built()
        self.tuning = tuning
        self.set_head(head)
        self.set_tuning(tuning)
        self.built = True

    def set_head(self, head: Head) -> None:
        """Puts another head on the encoder; compile the model again to train it."""
        head.ensure_built(self.encoder.hidden_size)
        self.head = head
        self._forget_traces()

    def set_tuning(self, tuning: Tuning) -> None:
        """Makes exactly what `tuning` trains trainable; compile the model again to train it."""
        tuning.check(self.encoder.num_layers, has_adapters=self.encoder.adapter is not None)
        shared = tuning.trained(self.variables_by_path()) & getattr(self.encoder, "shared", set())
        if shared:
            raise ValueError(
                f"tuning {tuning.method!r} would train {min(shared)}, which other tasks share"
            )
        if tuning != self.tuning:
            self.tuning = tuning
            self._forget_traces()

    def restart(self, fresh: "TaskModel") -> None:
        """Takes the values and random states of a new model, and keeps what was traced.

        Args:
          fresh: A model of the same design.
        """
        values = fresh.variables_by_path()
        for path, variable in self.variables_by_path().items():
            variable.assign(values[path])
        for mine, theirs in zip(self.generators(), fresh.generators(), strict=True):
            mine.state.assign(theirs.state)

    def generators(self) -> list[tf.random.Generator]:
        """Returns the generators of the dropouts that have their own."""
        layers = internals.sublayers(self, recursive=True)
        dropouts = [each for each in layers if isinstance(each, tf_keras.layers.Dropout)]
        return [each for each in map(internals.dropout_generator, dropouts) if each]

    def has_finite_weights(self) -> bool:
        """Whether all values that are trained are finite numbers."""
        if self._finite is None:
            # As a graph: one after the other, so many small operations would take longer.
            self._finite = tf.function(self._are_finite, autograph=False)
        return bool(self._finite().numpy())

    def _are_finite(self) -> tf.Tensor:
        finite = [tf.reduce_all(tf.math.is_finite(each)) for each in self.trainable_weights]
        return tf.reduce_all(finite)

    def _forget_traces(self) -> None:
        """Makes Keras trace again, because it would go on with graphs that are out of date."""
        self.train_function = self.test_function = self.predict_function = None
        self._finite = None
        self._forward: Callable[[dict[str, tf.Tensor]], tf.Tensor] | None = None

    @property
    def forward(self) -> Callable[[dict[str, tf.Tensor]], tf.Tensor]:
        """From inputs to outputs, without training, in one graph for all evaluations."""
        if self._forward is None:
            row = tf.TensorSpec([None, None], tf.int32)
            # A concrete one: of several tasks' functions TensorFlow would say that they are
            # retraced.
            self._forward = tf.function(
                lambda inputs: self(inputs, training=False), autograph=False
            ).get_concrete_function(dict.fromkeys((IDS, MASK, SEGMENTS), row))
        return self._forward

    def call(self, inputs: dict[str, tf.Tensor]) -> tf.Tensor:
        encoded = self.encoder(inputs, output_range=self.head.tokens_read)
        return self.head({**encoded, MASK: inputs[MASK]})

    def variables_by_path(self) -> dict[str, tf.Variable]:
        """Returns all variables: the encoder's by their paths, the head's below `head/`."""
        return variables_by_path(self.encoder) | variables_by_path(self.head, "head/")

    @property
    def trainable_weights(self) -> list[tf.Variable]:
        if not self.trainable or not hasattr(self, "head"):
            return []
        variables = self.variables_by_path()
        trained = self.tuning.trained(variables)
        return [variable for path, variable in variables.items() if path in trained]

    @property
    def non_trainable_weights(self) -> list[tf.Variable]:
        if not hasattr(self, "head"):
            return []
        trained = {id(variable) for variable in self.trainable_weights}
        return [each for each in self.variables_by_path().values() if id(each) not in trained]

    def make_train_function(self, force=False):
        # Before the step is traced: a step that creates variables is traced twice.
        self.build_optimizer()
        self.build_drop()
        return super().make_train_function(force)

    def build_optimizer(self) -> None:
        """Creates the optimizer's variables, if nothing has done so yet."""
        # Outside of the scope, all devices would share the moments, and each would update them.
        with self.distribute_strategy.scope():
            self.optimizer.build(self.trainable_variables)

    def build_drop(self) -> None:
        """Lets layers fall back in steps, if the tuning says so and nothing has done it yet."""
        most = self.tuning.adapter_drop
        if most and (self.drop is None or self.drop.most != most):
            with self.distribute_strategy.scope():
                self.drop = AdapterDrop(self.encoder, most)

    def _dropping(self) -> contextlib.AbstractContextManager:
        if self.drop is None or not self.tuning.adapter_drop:
            return contextlib.nullcontext()
        return self.drop.dropping(self.optimizer.iterations)

    @_unconverted
    def test_step(self, data):
        return super().test_step(data)

    @_unconverted
    def predict_step(self, data):
        return super().predict_step(data)

    @_unconverted
    def train_step(self, data):
        """Does Keras's step with a tape that watches only what is trained.

        The default tape also watches frozen variables, and so records everything they feed.
        """
        inputs, labels, weights = tf_keras.utils.unpack_x_y_sample_weight(data)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self.trainable_variables)
            with self._dropping():
                outputs = self(inputs, training=True)
            loss = self.compute_loss(inputs, labels, outputs, weights)
        gradients = self.optimizer.compute_gradients(loss, self.trainable_variables, tape)
        # Some variables have no gradient: the pooler under a span head, the bias of the last
        # layer's keys under a head on the first token. Keras would warn at each start.
        self.optimizer.apply_gradients([pair for pair in gradients if pair[0] is not None])
        return self.compute_metrics(inputs, labels, outputs, weights)

    def get_build_config(self):
        """Returns nothing: the constructor builds the model."""

    def get_compile_config(self):
        """Returns nothing: the loss is a method of the head, which Keras can't save."""

    def get_config(self):
        return {
            "name": self.name,
            "encoder": tf_keras.utils.serialize_keras_object(self.encoder),
            "head": tf_keras.utils.serialize_keras_object(self.head),
            "tuning": self.tuning.to_dict(),
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        encoder, head = (
            tf_keras.utils.deserialize_keras_object(config[name], custom_objects)
            for name in ("encoder", "head")
        )
        return cls(encoder, head, Tuning(**config["tuning"]), name=config["name"])
