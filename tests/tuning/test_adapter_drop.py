"""In a step, the lowest layers compute what the base computes, and learn nothing."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from adapter_bert_tf import (
    AdapterConfig,
    ClassificationHead,
    TaskModel,
    Tuning,
    UserError,
    create_optimizer,
    load_encoder,
)
from adapter_bert_tf.encoder.variables import is_adapter, is_layer_norm, layer_of
from adapter_bert_tf.tuning.adapter_drop import AdapterDrop
from tests import tiny

LABELS = np.array([0, 1, 2, 1])


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """Without dropout, so that steps can be compared."""
    return tiny.write_google_bert(
        tmp_path_factory.mktemp("still"), hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )


def _model(bert, design: str, most: int) -> TaskModel:
    """A model of which all that is tuned is random."""
    tf_keras.utils.set_random_seed(0)
    encoder = load_encoder(bert, AdapterConfig(4, init_scale=0.1, design=design))
    model = TaskModel(encoder, ClassificationHead(3, 0.0), Tuning(adapter_drop=most))
    random = np.random.default_rng(0)
    for variable in model.trainable_variables:
        variable.assign_add(random.normal(size=variable.shape, scale=0.3))
    return model


def _draw(monkeypatch, dropped: int) -> None:
    """Lets every step drop so many layers."""
    monkeypatch.setattr(
        tf.random, "stateless_uniform", lambda *args, **kwargs: tf.constant(dropped, tf.int32)
    )


def _is_dropped(path: str, dropped: int) -> bool:
    own = is_adapter(path) or is_layer_norm(path)
    return own and (layer_of(path) or 0) < dropped


@pytest.mark.parametrize("design", ["houlsby", "pfeiffer"])
def test_dropped_layers_are_the_bases_and_have_no_gradient(bert, design, monkeypatch):
    model, plain = _model(bert, design, 2), _model(bert, design, 0)
    base = dict(model.encoder.base.read())
    drop = AdapterDrop(model.encoder, 2)
    inputs = tiny.inputs()
    np.testing.assert_array_equal(model(inputs), plain(inputs))
    for dropped in range(3):
        for path, variable in plain.variables_by_path().items():
            if is_layer_norm(path) and _is_dropped(path, dropped):
                variable.assign(base[path])
            elif "/up/" in path and _is_dropped(path, dropped):
                variable.assign(tf.zeros_like(variable))
        _draw(monkeypatch, dropped)
        with tf.GradientTape() as tape, drop.dropping(tf.constant(0)):
            outputs = model(inputs, training=True)
            loss = tf.reduce_sum(model.head.loss(LABELS, outputs))
        np.testing.assert_allclose(outputs, plain(inputs), atol=1e-5)
        variables = {
            path: variable
            for path, variable in model.variables_by_path().items()
            if is_adapter(path) or is_layer_norm(path)
        }
        gradients = tape.gradient(loss, variables)
        for path, gradient in gradients.items():
            assert np.any(gradient.numpy()) != _is_dropped(path, dropped), path
    # Outside of a step, nothing is dropped.
    np.testing.assert_array_equal(model(inputs), _model(bert, design, 0)(inputs))


def test_what_is_drawn_follows_from_seed_and_step(bert):
    drop = AdapterDrop(load_encoder(bert, AdapterConfig(4)), 2)

    def draws(seed: int) -> list[int]:
        drop.seed.assign(seed)
        found = []
        for step in range(40):
            with drop.dropping(tf.constant(step, tf.int64)):
                found.append(int(drop._local.dropped))
        return found

    first = draws(1)
    assert set(first) == {0, 1, 2}
    assert draws(2) != first
    assert draws(1) == first


def test_a_step_drops_and_an_evaluation_does_not(bert, monkeypatch):
    losses = {}
    for dropped in (0, 2):
        model = _model(bert, "houlsby", 2)
        _draw(monkeypatch, dropped)
        model.compile(create_optimizer(1e-2, 20, 0), model.head.loss)
        evaluated = model.test_on_batch(tiny.inputs(), LABELS)
        losses[dropped] = evaluated, model.train_on_batch(tiny.inputs(), LABELS)
    assert losses[0][0] == pytest.approx(losses[2][0])
    assert losses[0][0] == pytest.approx(losses[0][1], rel=1e-4)
    assert losses[2][0] != pytest.approx(losses[2][1], rel=1e-2)


def test_wrong_numbers_are_told(bert):
    with pytest.raises(UserError, match="adapter_drop is beyond the 3 layers"):
        TaskModel(load_encoder(bert), ClassificationHead(2), Tuning(adapter_drop=3))
    with pytest.raises(UserError, match="--adapter_drop: --tuning=full has no adapters"):
        Tuning("full", adapter_drop=1)
    with pytest.raises(UserError, match="adapter_drop: expected a whole number from 0"):
        Tuning(adapter_drop=-1)
