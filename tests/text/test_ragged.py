import numpy as np
import pytest
import tensorflow as tf

from adapter_bert_tf.text.ragged import row_of


@pytest.mark.parametrize("rows", [[[1, 2], [], [3]], [[], [], [1]], [[1], []], [[], []], []])
def test_rows_of_values(rows):
    ragged = tf.ragged.constant(rows, tf.int32, ragged_rank=1)
    np.testing.assert_array_equal(row_of(ragged.row_splits), ragged.value_rowids())
