"""The optimizer of the original."""

import tensorflow as tf
import tf_keras

from adapter_bert_tf.tuning.schedule import WarmUpAndDecay


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
