"""The learning rate of the original."""

from typing import Any

import tensorflow as tf
import tf_keras


@tf_keras.utils.register_keras_serializable(package="adapter_bert_tf")
class WarmUpAndDecay(tf_keras.optimizers.schedules.LearningRateSchedule):
    """A line up from 0, then the line down to 0 that started at step 0.

    So after the warm-up the rate goes on below its nominal value, at 0.9 of it with the usual
    10 %. Updates count from 1: the original's source reads as if from 0, but its graph reads
    the counter after raising it, as its numbers show to the last digit.

    Args:
      learning_rate: The nominal rate.
      steps: Updates in all.
      warmup_steps: Updates of the warm-up.
    """

    def __init__(self, learning_rate: float, steps: int, warmup_steps: int):
        super().__init__()
        self.learning_rate = learning_rate
        self.steps = steps
        self.warmup_steps = warmup_steps

    def __call__(self, step: tf.Tensor | int) -> tf.Tensor:
        """Returns the rate for the update after `step` earlier ones."""
        update = tf.cast(step, tf.float32) + 1.0
        decay = tf.maximum(1.0 - update / self.steps, 0.0)
        warmup = update / max(self.warmup_steps, 1)
        return self.learning_rate * tf.where(update < self.warmup_steps, warmup, decay)

    def get_config(self) -> dict[str, Any]:
        return {
            "learning_rate": self.learning_rate,
            "steps": self.steps,
            "warmup_steps": self.warmup_steps,
        }


@tf_keras.utils.register_keras_serializable(package="adapter_bert_tf")
class BertAdam(tf_keras.optimizers.AdamW):
    """Adam with decoupled weight decay and without bias correction, as BERT was trained.

    LayerNorms and biases don't decay. Keras's and Model Garden's optimizers correct the bias,
    which makes the first steps larger.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.exclude_from_weight_decay(var_names=["layer_norm", "bias"])

    def update_step(self, gradient, variable):
        # As in the original, a word that is absent from the batch still has its moments decay.
        gradient = tf.convert_to_tensor(gradient)
        index = self._index_dict[self._var_key(variable)]
        mean, variance = self._momentums[index], self._velocities[index]
        mean.assign_add((gradient - mean) * (1 - self.beta_1))
        variance.assign_add((tf.square(gradient) - variance) * (1 - self.beta_2))
        rate = tf.cast(self.learning_rate, variable.dtype)
        variable.assign_sub(rate * mean / (tf.sqrt(variance) + self.epsilon))


def create_optimizer(learning_rate: float, steps: int, warmup_steps: int) -> BertAdam:
    """Returns the original's optimizer for a training of `steps` steps.

    The gradient's global norm is cut at 1.
    """
    return BertAdam(
        WarmUpAndDecay(learning_rate, steps, warmup_steps),
        weight_decay=0.01,
        beta_1=0.9,
        beta_2=0.999,
        epsilon=1e-6,
        global_clipnorm=1.0,
    )
