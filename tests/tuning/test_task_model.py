import os
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from adapter_bert_tf import (
    AdapterConfig,
    ClassificationHead,
    RegressionHead,
    SpanHead,
    TaskModel,
    Tuning,
    create_optimizer,
    load_encoder,
)
from adapter_bert_tf.data import records
from adapter_bert_tf.data.batches import Batches
from adapter_bert_tf.text.inputs import IDS, SEGMENTS
from adapter_bert_tf.tuning.methods import METHODS, Method
from tests import tiny

LABELS = np.array([0, 1, 2, 1])


def _model(bert, adapter=AdapterConfig(size=4, init_scale=0.1), tuning=Tuning(), head=None):
    model = TaskModel(load_encoder(bert, adapter), head or ClassificationHead(3, 0.0), tuning)
    model.compile(optimizer=create_optimizer(1e-2, 20, 0), loss=model.head.loss)
    return model


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """Without dropout, so that two trainings can be compared."""
    return tiny.write_google_bert(
        tmp_path_factory.mktemp("still"), hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )


def _values(model):
    return {path: variable.numpy() for path, variable in model.variables_by_path().items()}


@pytest.mark.parametrize(
    "tuning",
    [
        Tuning("adapters"),
        Tuning("adapters", layer_norms=False),
        Tuning("adapters", from_layer=2),
        Tuning("full"),
        Tuning("top_k", k=1),
        Tuning("layer_norm"),
        Tuning("head"),
    ],
    ids=str,
)
def test_exactly_what_is_trained_changes_and_has_optimizer_state(bert, tuning):
    _check_what_is_trained(bert, tuning)


def test_a_method_can_name_single_variables(bert, monkeypatch):
    """The layers that have these variables also have others, which stay frozen."""
    monkeypatch.setitem(METHODS, "biases", Method(lambda path, *_: path.endswith("/bias"), 1e-3))
    trained = _check_what_is_trained(bert, Tuning("biases"))
    assert "transformer/layer_1/self_attention/value/bias" in trained
    assert {path for path in trained if not path.endswith("/bias")} == {"head/output/kernel"}


def _check_what_is_trained(bert, tuning: Tuning) -> set[str]:
    model = _model(bert, AdapterConfig(size=4, init_scale=0.1), tuning)
    model.run_eagerly = True  # Quicker than tracing, for two steps.
    before = _values(model)
    for _ in range(2):
        model.train_on_batch(tiny.inputs(), LABELS)
    changed = {path for path, value in _values(model).items() if (value != before[path]).any()}
    trained = tuning.trained(before)
    variables = model.variables_by_path()
    assert {id(variable) for variable in model.trainable_variables} == {
        id(variables[path]) for path in trained
    }
    assert len(model.trainable_variables) + len(model.non_trainable_variables) == len(variables)
    # A key's bias shifts all scores of a query alike: its gradient is 0, and biases don't decay.
    assert trained - changed <= {path for path in trained if path.endswith("key/bias")}
    assert changed <= trained
    slots = sum(variable.shape.num_elements() for variable in model.optimizer.variables)
    parameters = sum(before[path].size for path in trained)
    # Two moments for each; the counter and the learning rate are one number each.
    assert 2 * parameters <= slots <= 2 * parameters + 2
    return trained


def test_another_tuning_is_followed_by_a_compiled_model(bert):
    model = _model(bert)
    model.train_on_batch(tiny.inputs(), LABELS)
    model.set_tuning(Tuning("head"))
    model.compile(optimizer=create_optimizer(1e-2, 20, 0), loss=model.head.loss)
    before = _values(model)
    model.train_on_batch(tiny.inputs(), LABELS)
    changed = {path for path, value in _values(model).items() if (value != before[path]).any()}
    assert changed == {"head/output/kernel", "head/output/bias"}


def test_an_encoder_that_was_frozen_is_tuned_all_the_same(bert):
    encoder = load_encoder(bert, AdapterConfig(size=4))
    encoder.trainable = False
    model = TaskModel(encoder, ClassificationHead(3))
    assert len(model.trainable_variables) == len(model.tuning.trained(model.variables_by_path()))


@pytest.mark.parametrize(
    ("tuning", "told"),
    [
        (Tuning("adapters"), "needs an encoder with adapters"),
        (Tuning("top_k", k=4), "k is beyond the 3 layers"),
        (Tuning("layer_norm", from_layer=3), "from_layer is beyond"),
    ],
)
def test_tuning_that_does_not_fit_is_told(bert, tuning, told):
    with pytest.raises(ValueError, match=told):
        TaskModel(load_encoder(bert, None), ClassificationHead(3), tuning)


def test_a_step_is_traced_once(bert, monkeypatch):
    traced = []
    step = TaskModel.train_step
    monkeypatch.setattr(TaskModel, "train_step", lambda *args: traced.append(1) or step(*args))
    model = _model(bert)
    for _ in range(2):
        model.train_on_batch(tiny.inputs(), LABELS)
    assert len(traced) == 1


def test_the_forward_graph_is_kept_and_follows_weights_and_head(bert):
    model = _model(bert)
    for rows in (4, 3, 2):
        np.testing.assert_allclose(
            model.forward(tiny.inputs(rows)), model(tiny.inputs(rows)), atol=1e-6
        )
    graph = model.forward
    model.head.output_layer.bias.assign([0.0, 5.0, 0.0])
    np.testing.assert_allclose(model.forward(tiny.inputs()), model(tiny.inputs()), atol=1e-6)
    assert model.forward is graph
    model.set_head(RegressionHead(0.0))
    np.testing.assert_allclose(model.forward(tiny.inputs()), model(tiny.inputs()), atol=1e-6)


@pytest.mark.parametrize(
    ("head", "labels"),
    [
        (RegressionHead(0.0), np.array([0.0, 1.0, -1.0, 2.0])),
        (SpanHead(), np.array([[0, 1], [2, 2], [1, 2], [0, 0]])),
        (ClassificationHead(3, 0.0), LABELS),
    ],
)
def test_every_head_learns(bert, head, labels):
    model = _model(bert, head=head)
    losses = [model.train_on_batch(tiny.inputs(), labels) for _ in range(20)]
    assert losses[-1] < 0.7 * losses[0]


def test_only_tokens_that_the_head_reads_go_through_the_last_layer(bert):
    model = _model(bert)
    outputs = model.encoder(tiny.inputs())
    np.testing.assert_allclose(model(tiny.inputs()), model.head(outputs), atol=1e-6)
    graph = tf.function(model.__call__).get_concrete_function(tiny.inputs()).graph
    widths = [op.outputs[0].shape for op in graph.get_operations() if "/intermediate/" in op.name]
    rows, length = tiny.inputs()["input_word_ids"].shape
    assert [rows, tiny.INNER] in widths
    assert [rows * length, tiny.INNER] in widths
    # The encoder itself still has them all.
    assert model.encoder(tiny.inputs())["sequence_output"].shape == [rows, length, tiny.WIDTH]


def _step_graph(model):
    model.make_train_function()
    batch = (tiny.inputs(), LABELS)
    step = tf.function(lambda data: model.train_step(data)).get_concrete_function(batch)
    return step.graph.get_operations()


def _differentiated_layers(operations) -> set[int]:
    names = [op.name for op in operations if "gradient_tape" in op.name]
    assert names
    return {int(match[1]) for name in names if (match := re.search(r"layer_(\d+)/", name))}


def test_the_backward_pass_ends_at_the_lowest_trained_layer(bert):
    products = []
    for lowest in range(tiny.LAYERS):
        adapter = AdapterConfig(size=4, layers=range(lowest, tiny.LAYERS))
        operations = _step_graph(_model(bert, adapter, Tuning(from_layer=lowest)))
        assert _differentiated_layers(operations) == set(range(lowest, tiny.LAYERS))
        products.append(sum(op.type == "MatMul" for op in operations))
    # Forward: 4 for a layer's adapters. Backward: 8 for them, 2 between them, and 2 through the
    # attention above, which is that of the last layer and has no keys and values.
    saved = -np.diff(products)
    assert saved[1] == 4 + (8 + 2 + 2)
    # With LayerNorms trained everywhere the pass goes down to the embeddings.
    adapter = AdapterConfig(size=4, layers=[2])
    assert _differentiated_layers(_step_graph(_model(bert, adapter))) == {0, 1, 2}


def test_frozen_variables_are_not_differentiated(bert):
    """Only the adapters' products have a gradient for their kernel: a transposed left side."""
    operations = _step_graph(_model(bert, tuning=Tuning(layer_norms=False)))
    kernels = [
        op
        for op in operations
        if op.type == "MatMul" and "gradient_tape" in op.name and op.get_attr("transpose_a")
    ]
    adapters_and_head = 4 * tiny.LAYERS + 1
    assert len(kernels) == adapters_and_head


def _trained_losses(bert, steps=3, **compile_options):
    model = _model(bert)
    initial = np.random.default_rng(5)
    for path, variable in sorted(model.variables_by_path().items()):
        if path.startswith("head/") or "adapter" in path:
            variable.assign(initial.normal(size=variable.shape, scale=0.1))
    model.compile(optimizer=create_optimizer(1e-2, 20, 0), loss=model.head.loss, **compile_options)
    losses = [float(model.train_on_batch(tiny.inputs(), LABELS)) for _ in range(steps)]
    return losses, _values(model)


@pytest.mark.slow
def test_compiles_under_xla_with_the_same_loss(bert):
    plain, _ = _trained_losses(bert)
    compiled, _ = _trained_losses(bert, jit_compile=True)
    np.testing.assert_allclose(compiled, plain, atol=1e-4)


@pytest.mark.slow
def test_two_devices_give_the_result_of_one(bert, two_devices):
    losses, values = _trained_losses(bert)
    with two_devices.scope():
        two_losses, two_values = _trained_losses(bert)
    np.testing.assert_allclose(two_losses, losses, atol=1e-5)
    for path, value in two_values.items():
        # Adam makes whole steps, here of 0.01, of gradients that are little but rounding.
        np.testing.assert_allclose(value, values[path], atol=3e-5, err_msg=path)


def _dropout_losses(folder, strategy, **options) -> set[float]:
    """Losses of steps that change nothing: they differ by the dropout alone."""
    with strategy.scope():
        model = _model(folder, tuning=Tuning("head"))
        model.compile(optimizer=create_optimizer(0.0, 20, 0), loss=model.head.loss, **options)
    return {float(model.train_on_batch(tiny.inputs(), LABELS)) for _ in range(4)}


@pytest.mark.parametrize("options", [{"jit_compile": True}, {"jit_compile": False}])
def test_dropout_is_random_under_xla_and_on_two_devices(tmp_path, two_devices, options):
    folder = tiny.write_google_bert(tmp_path, hidden_dropout_prob=0.5)
    strategy = tf.distribute.get_strategy() if options["jit_compile"] else two_devices
    assert len(_dropout_losses(folder, strategy, **options)) == 4


def _heads() -> dict:
    return {
        "classes": ClassificationHead(3, 0.3),
        "value": RegressionHead(),
        "span": SpanHead(),
    }


@pytest.mark.parametrize("adapter", [AdapterConfig(size=4, init_scale=0.1, layers=[0, 2]), None])
@pytest.mark.parametrize("head", ["classes", "value", "span"])
def test_saves_and_loads_as_keras_models_do(bert, tmp_path, adapter, head):
    tuning = Tuning("adapters", from_layer=1) if adapter else Tuning("top_k", k=2)
    model = _model(bert, adapter, tuning, _heads()[head])
    path = str(tmp_path / "model.keras")
    model.save(path)
    again = tf_keras.models.load_model(path)
    np.testing.assert_array_equal(again(tiny.inputs()), model(tiny.inputs()))
    assert again.tuning == model.tuning
    assert again.encoder.adapter == adapter
    assert (type(again.head), again.head.settings()) == (type(model.head), model.head.settings())
    values = _values(model)
    for name, value in _values(again).items():
        np.testing.assert_array_equal(value, values.pop(name), err_msg=name)
    assert not values


def test_a_configuration_makes_a_model_that_takes_the_weights(bert):
    model = _model(bert, head=_heads()["span"])
    again = TaskModel.from_config(model.get_config())
    assert again.get_config() == model.get_config()
    assert [v.shape for v in again.weights] == [v.shape for v in model.weights]
    again.set_weights(model.get_weights())
    np.testing.assert_array_equal(again(tiny.inputs()), model(tiny.inputs()))


def test_a_loaded_model_goes_on_with_the_same_training(bert, tmp_path):
    model = _model(bert)
    model.save(str(tmp_path / "model.keras"))
    again = tf_keras.models.load_model(str(tmp_path / "model.keras"))
    losses = []
    for each in (model, again):
        optimizer = create_optimizer(1e-2, 20, 0)
        each.compile(optimizer=optimizer, loss=each.head.loss, run_eagerly=True)
        losses.append([each.train_on_batch(tiny.inputs(), LABELS) for _ in range(3)])
    np.testing.assert_allclose(*losses, rtol=1e-5)


_BFLOAT16 = """
import sys, tf_keras
tf_keras.mixed_precision.set_global_policy("mixed_bfloat16")
from tests.tuning.test_task_model import _trained_losses
losses, values = _trained_losses(sys.argv[1])
assert all(value.dtype == "float32" for value in values.values())
print(losses)
"""


@pytest.mark.slow
def test_runs_under_mixed_bfloat16(bert):
    # In a process of its own: on machines that show AMX but don't have it, bfloat16 products
    # end it, unless this is set before TensorFlow is loaded.
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
    done = subprocess.run(
        [sys.executable, "-c", _BFLOAT16, bert], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    expected, _ = _trained_losses(bert)
    np.testing.assert_allclose(eval(done.stdout.splitlines()[-1]), expected, atol=0.05)


def test_the_whole_step_compiles_under_xla_and_trains_the_same(tmp_path):
    """The stand-in for a TPU: batches of one shape, and no operation that XLA lacks."""
    bert = tiny.write_google_bert(tmp_path)
    ids = tf.ragged.constant([[2, 5, 6, 3], [2, 7, 3], [2, 8, 9, 10, 3], [2, 4, 3], [2, 11, 3]])
    columns = {
        IDS: tf.cast(ids, tf.int32),
        SEGMENTS: tf.zeros_like(ids),
        records.LABELS: tf.range(5) % 2,
    }
    batches = Batches(columns, 2, [8], fixed_rows=True)
    dataset = batches.dataset(batches.by_length())
    assert all(spec.shape.is_fully_defined() for spec in tf.nest.flatten(dataset.element_spec))
    trained = []
    for jit_compile in (False, True):
        tf_keras.utils.set_random_seed(0)
        model = TaskModel(load_encoder(bert, AdapterConfig(size=4)), ClassificationHead(2))
        model.compile(
            optimizer=create_optimizer(1e-2, steps=6, warmup_steps=1),
            loss=model.head.loss,
            weighted_metrics=model.head.training_metrics(),
            jit_compile=jit_compile,
        )
        history = model.fit(dataset, epochs=2, verbose=0).history
        trained.append((history["loss"], [value.numpy() for value in model.trainable_weights]))
    np.testing.assert_allclose(trained[0][0], trained[1][0], rtol=1e-4)
    for plain, compiled in zip(trained[0][1], trained[1][1], strict=True):
        np.testing.assert_allclose(plain, compiled, atol=1e-4)
