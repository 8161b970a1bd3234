"""What a head is given."""

import numpy as np
import tensorflow as tf

from adapter_bert_tf.text.inputs import MASK

ROWS, LENGTH, WIDTH = 4, 9, 6


def encoded(length: int = LENGTH) -> dict[str, tf.Tensor]:
    """Random outputs of an encoder; the last row has two tokens of padding."""
    random = np.random.default_rng(0)
    mask = np.ones([ROWS, length], np.int32)
    mask[-1, LENGTH - 2 :] = 0
    mask[:, LENGTH:] = 0
    sequence = random.normal(size=[ROWS, LENGTH, WIDTH])
    padding = np.ones([ROWS, length - LENGTH, WIDTH])
    return {
        "pooled_output": tf.constant(random.normal(size=[ROWS, WIDTH]), tf.float32),
        "sequence_output": tf.constant(np.concatenate([sequence, padding], 1), tf.float32),
        MASK: tf.constant(mask),
    }
