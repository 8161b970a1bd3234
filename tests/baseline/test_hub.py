import numpy as np
import pytest
import tensorflow as tf

from adapter_bert_tf import UserError
from adapter_bert_tf.baseline.hub import HubModule, fingerprint_of
from tests.baseline import made

TEXTS = ["one two", "three", "two two one"]


@pytest.fixture(params=["first_format", "second_format"])
def module(request) -> HubModule:
    return HubModule(request.getfixturevalue(request.param))


def test_both_formats_embed_texts(module):
    assert module.width == made.WIDTH
    np.testing.assert_allclose(module.embed(tf.constant(TEXTS)), made.expected(TEXTS), atol=1e-5)
    words = module.embed_words(tf.constant(TEXTS), most=2)
    assert words.row_lengths().numpy().tolist() == [2, 1, 2]
    np.testing.assert_allclose(words.flat_values[1], made.expected(["two"])[0], atol=1e-5)


def test_both_formats_can_be_fine_tuned_and_given_back(module):
    (variable,) = module.tuned()
    before = variable.numpy()
    with module.kept():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(module.embed(tf.constant(TEXTS))))
        gradient = tf.convert_to_tensor(tape.gradient(loss, variable))
        assert np.abs(gradient).max() > 0
        variable.assign_sub(0.1 * gradient)
        assert (variable.numpy() != before).any()
    assert (variable.numpy() == before).all()


def test_old_variables_are_told_only_when_they_are_to_be_trained(tmp_path):
    module = HubModule(made.write_first_format(tmp_path / "old", use_resource=False))
    np.testing.assert_allclose(module.embed(tf.constant(TEXTS)), made.expected(TEXTS), atol=1e-5)
    with pytest.raises(UserError, match="can't be fine-tuned"):
        module.tuned()


def test_a_fingerprint_tells_modules_apart(first_format, second_format):
    prints = [HubModule(each).fingerprint for each in (first_format, second_format, first_format)]
    assert prints[0] == prints[2] != prints[1]


def test_a_fingerprint_is_that_of_the_files(second_format):
    assert fingerprint_of(second_format) == HubModule(second_format).fingerprint
    with pytest.raises(UserError, match="expected https://"):
        fingerprint_of("http://example.com/module")


def test_what_is_no_text_module_is_refused(tmp_path):
    numbers = tf.Module()
    spec = tf.TensorSpec([None], tf.float32)
    numbers.__call__ = tf.function(lambda x: x, [spec])
    tf.saved_model.save(numbers, str(tmp_path / "numbers"))
    with pytest.raises(UserError, match="no text module"):
        HubModule(str(tmp_path / "numbers"))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "saved_model.pb").write_bytes(b"broken")
    with pytest.raises(UserError, match="can't be loaded from TF-Hub"):
        HubModule(str(tmp_path / "broken"))
