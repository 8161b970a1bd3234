"""The optimizer of the original program, with its learning rate."""

from typing import Any

import tensorflow as tf
import tf_keras

from adapter_bert_tf import internals


@tf_keras.utils.register_keras_serializable(package="adapter_bert_tf")
class WarmUpAndDecay(tf_keras.optimizers.schedules.LearningRateSchedule):
    """The rate rises linearly from 0, then falls on the line to 0 that started at step 0.

    So it falls from 0.9 of the nominal value after the usual warm-up of 10 %. Updates count from
    1. The original's source reads as if they counted from 0, but its graph reads the counter after
    raising it: its numbers show that to the last digit.

    Args:
      learning_rate: The nominal rate.
      steps: Updates in all.
      warmup_steps: Updates of the warm-up.
    """

    def __init__(self, learning_rate: float, steps: int, warmup_steps: int):
        super().__init__()
        # Variables, so that another training can use the step that was traced.
        self._rate, self._steps, self._warmup_steps = (
            tf.Variable(0.0, trainable=False) for _ in range(3)
        )
        self.restart(learning_rate, steps, warmup_steps)

    def restart(self, learning_rate: float, steps: int, warmup_steps: int) -> None:
        """Takes other values, in graphs that were traced as well."""
        self.learning_rate = learning_rate
        self.steps = steps
        self.warmup_steps = warmup_steps
        self._rate.assign(learning_rate)
        self._steps.assign(steps)
        self._warmup_steps.assign(warmup_steps)

    def __call__(self, step: tf.Tensor | int) -> tf.Tensor:
        """Returns the rate of the update that follows `step` earlier ones."""
        update = tf.cast(step, tf.float32) + 1.0
        decay = tf.maximum(1.0 - update / self._steps, 0.0)
        warmup = update / tf.maximum(self._warmup_steps, 1.0)
        return self._rate * tf.where(update < self._warmup_steps, warmup, decay)

    def get_config(self) -> dict[str, Any]:
        return {
            "learning_rate": self.learning_rate,
            "steps": self.steps,
            "warmup_steps": self.warmup_steps,
        }


@tf_keras.utils.register_keras_serializable(package="adapter_bert_tf")
class BertAdam(tf_keras.optimizers.AdamW):
    """Adam with decoupled weight decay and without bias correction, as BERT was trained.

    LayerNorms and biases don't decay. The optimizers of Keras and Model Garden correct the bias,
    which makes the first steps larger.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.exclude_from_weight_decay(var_names=["layer_norm", "bias"])

    def restart(self, learning_rate: float, steps: int, warmup_steps: int) -> None:
        """Starts another training in the step that was traced: see `create_optimizer`."""
        for variable in self.variables:
            variable.assign(tf.zeros_like(variable))
        internals.schedule_of(self).restart(learning_rate, steps, warmup_steps)

    def update_step(self, gradient, variable):
        # A dense gradient: in the original, moments also decay for words that a batch lacks.
        gradient = tf.convert_to_tensor(gradient)
        mean, variance = internals.adam_moments(self, variable)
        mean.assign_add((gradient - mean) * (1 - self.beta_1))
        variance.assign_add((tf.square(gradient) - variance) * (1 - self.beta_2))
        rate = tf.cast(self.learning_rate, variable.dtype)
        variable.assign_sub(rate * mean / (tf.sqrt(variance) + self.epsilon))


def create_optimizer(learning_rate: float, steps: int, warmup_steps: int) -> BertAdam:
    """Returns the original's optimizer for a training of `steps` steps.

    The gradient's global norm is clipped at 1.
    """
    return BertAdam(
        WarmUpAndDecay(learning_rate, steps, warmup_steps),
        weight_decay=0.01,
        beta_1=0.9,
        beta_2=0.999,
        epsilon=1e-6,
        global_clipnorm=1.0,
    )
