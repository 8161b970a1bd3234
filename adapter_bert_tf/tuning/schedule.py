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
