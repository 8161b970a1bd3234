"""What TF Serving lacks is found, wherever it hides."""

import pytest
import tensorflow as tf
import tensorflow_text as tf_text

from adapter_bert_tf.errors import UserError
from adapter_bert_tf.serve.ops import check_ops, ops_of


def _save(folder, function) -> set[str]:
    module = tf.Module()
    spec = tf.TensorSpec([None], tf.string)
    module.called = tf.function(function, [spec])
    tf.saved_model.save(module, str(folder), module.called.get_concrete_function())
    return ops_of(str(folder))


def test_an_operation_in_a_branch_of_a_loop_is_found(tmp_path):
    def hidden(texts):
        def body(i, texts):
            return i + 1, tf.cond(i > 0, lambda: tf_text.case_fold_utf8(texts), lambda: texts)

        return tf.while_loop(lambda i, _: i < 2, body, (0, texts))[1]

    ops = _save(tmp_path, hidden)
    with pytest.raises(UserError, match="CaseFoldUTF8"):
        check_ops(ops)


def test_a_core_operation_newer_than_2_12_is_found(tmp_path):
    def newer(texts):
        lengths, parts = tf.strings.length(texts), tf.range(tf.size(texts))
        return tf.raw_ops.SegmentMaxV2(data=lengths, segment_ids=parts, num_segments=tf.size(texts))

    ops = _save(tmp_path, newer)
    with pytest.raises(UserError, match="SegmentMaxV2"):
        check_ops(ops)


def test_core_operations_and_our_tokenizers_pass(tmp_path):
    ops = _save(tmp_path, lambda texts: tf_text.normalize_utf8(tf.strings.lower(texts), "NFD"))
    assert "NormalizeUTF8" in ops
    check_ops(ops)
