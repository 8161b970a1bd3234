import numpy as np
import pytest
import tf_keras

from adapter_bert_tf.heads.classification import ClassificationHead
from adapter_bert_tf.heads.head import Head
from adapter_bert_tf.heads.kinds import HEADS, NO_HEAD, TEXT_LABELS, make_head
from tests.heads.encoded import WIDTH, encoded


def _settings(kind: str) -> dict:
    return {"classes": 3, "dropout": 0.2} if issubclass(HEADS[kind], ClassificationHead) else {}


@pytest.mark.parametrize("kind", HEADS)
def test_settings_make_the_same_head(kind):
    head = make_head(kind, _settings(kind))
    again = make_head(kind, head.settings())
    assert again.settings() == head.settings()
    assert type(again) is HEADS[kind]
    assert HEADS[kind].kind == kind
    assert again(encoded()).shape == head(encoded()).shape


TUNED = [kind for kind in HEADS if kind != NO_HEAD]


@pytest.mark.parametrize("kind", TUNED)
def test_a_head_starts_small(kind):
    head = make_head(kind, _settings(kind))
    head(encoded())
    assert not head.output_layer.bias.numpy().any()
    assert np.abs(head.output_layer.kernel).max() <= 0.04


def test_no_head_has_no_variables_and_changes_nothing():
    head = make_head(NO_HEAD, {})
    np.testing.assert_array_equal(head(encoded()), encoded()["pooled_output"])
    assert head.weights == []
    assert head.tokens_read == 1
    assert NO_HEAD not in TEXT_LABELS


@pytest.mark.parametrize("kind", TUNED)
def test_a_head_is_built_before_it_is_called(kind):
    head = make_head(kind, _settings(kind))
    head.ensure_built(WIDTH)
    kernel = head.output_layer.kernel
    head(encoded())
    assert head.output_layer.kernel is kernel


@pytest.mark.parametrize("kind", HEADS)
def test_keras_knows_the_head(kind):
    head = make_head(kind, _settings(kind))
    config = tf_keras.utils.serialize_keras_object(head)
    again = tf_keras.utils.deserialize_keras_object(config)
    assert type(again) is type(head)
    assert (again.name, again.settings()) == (head.name, head.settings())
    assert type(head).from_config(head.get_config()).settings() == head.settings()


@pytest.mark.parametrize("kind", TEXT_LABELS)
def test_heads_on_texts_share_a_signature_and_have_their_metrics(kind):
    head = HEADS[kind]
    assert (head.signature, head.request) == (Head.signature, Head.request)
    assert set(head.default_metrics) <= set(head.metrics)


@pytest.mark.parametrize(
    ("kind", "settings"), [("poet", {}), (None, {}), (["span"], {}), ("span", None), ("span", [])]
)
def test_unknown_kinds_are_told_with_the_known_ones(kind, settings):
    with pytest.raises(ValueError, match="is unknown; known are .*classification, span"):
        make_head(kind, settings)
