import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from scipy.special import erf

from adapter_bert_tf import (
    AdapterConfig,
    ClassificationHead,
    MultiLabelHead,
    RegressionHead,
    TaskModel,
    Tuning,
    UserError,
    load_encoder,
    load_pack,
    read_pack,
    save_pack,
)
from adapter_bert_tf.encoder.variables import variables_by_path
from adapter_bert_tf.heads.kinds import make_head
from adapter_bert_tf.heads.text import TextForm
from tests import tiny
from tests.heads.encoded import ROWS, WIDTH, encoded

FORMS = [
    TextForm(),
    TextForm(pooler=False),
    TextForm(hidden_layers=1),
    TextForm(pooler=False, hidden_layers=1, activation="relu"),
    TextForm(pooler=True, hidden_layers=2, activation="gelu_erf"),
    TextForm(pooler=False, hidden_layers=3, activation="linear"),
]
ACTIVATIONS = {
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "gelu_erf": lambda x: 0.5 * x * (1 + erf(x / np.sqrt(2))),
    "linear": lambda x: x,
}
KINDS = [
    lambda **form: ClassificationHead(3, **form),
    lambda **form: MultiLabelHead(4, **form),
    lambda **form: RegressionHead(**form),
]


def _randomize(head) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    for variable in head.weights:
        variable.assign(random.normal(size=variable.shape))
    return {path: variable.numpy() for path, variable in variables_by_path(head).items()}


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("make", KINDS, ids=["classes", "labels", "value"])
def test_logits_are_products_with_activations_between_them(make, form):
    head = make(**vars(form))
    head.ensure_built(WIDTH)
    values = _randomize(head)
    names = [*(f"hidden_{number + 1}" for number in range(form.hidden_layers)), "output"]
    assert form.layers == names
    assert values.keys() == {f"{name}/{part}" for name in names for part in ("kernel", "bias")}
    given = {name: tensor.numpy().astype(np.float64) for name, tensor in encoded().items()}
    x = given["pooled_output"] if form.pooler else given["sequence_output"][:, 0]
    for name in names:
        x = x @ values[f"{name}/kernel"] + values[f"{name}/bias"]
        if name != "output":
            assert x.shape == (ROWS, WIDTH)
            x = ACTIVATIONS[form.activation](x)
    outputs = head(encoded())
    np.testing.assert_allclose(tf.reshape(outputs, x.shape), x, atol=1e-4, rtol=1e-5)


def test_dropout_stands_in_front_of_each_product_and_only_in_training():
    form = TextForm(pooler=False, hidden_layers=2, activation="linear")
    calls = []

    def drop(x):
        calls.append(x)
        return x + 1

    layers = {"hidden_1": lambda x: 10 * x, "hidden_2": lambda x: 100 * x, "output": lambda x: -x}
    logits = form.logits(tf.constant([[9.0]]), tf.constant([[2.0]]), layers, drop)
    # ((2 + 1) * 10 + 1) * 100 + 1
    assert logits.numpy() == -3101
    assert len(calls) == 3
    head = ClassificationHead(2, dropout=0.5, hidden_layers=1, activation="linear")
    head.ensure_built(WIDTH)
    for layer in (*head.hidden_layers, head.output_layer):
        layer.kernel.assign(tf.eye(*layer.kernel.shape))
    ones = {**encoded(), "pooled_output": tf.ones([ROWS * 100, WIDTH])}
    ones["sequence_output"] = tf.zeros([ROWS * 100, 1, WIDTH])
    assert set(np.unique(head(ones, training=True))) == {0.0, 4.0}
    np.testing.assert_array_equal(head(ones), tf.ones([ROWS * 100, 2]))


def test_settings_are_those_of_older_packs_unless_the_form_is_another():
    assert TextForm().settings() == {}
    assert ClassificationHead(3, 0.2).settings() == {"classes": 3, "dropout": 0.2}
    assert RegressionHead(0.2).settings() == {"dropout": 0.2}
    for form in FORMS:
        head = MultiLabelHead(3, **vars(form))
        assert TextForm(**form.settings()) == form
        again = make_head("multi_label", head.settings())
        assert again.form == form
        assert again.settings() == head.settings()
        assert MultiLabelHead.from_config(head.get_config()).settings() == head.settings()


@pytest.mark.parametrize("form", [FORMS[1], FORMS[4]], ids=str)
def test_is_kept_in_a_pack_and_as_a_keras_model(form, bert, tmp_path):
    adapter = AdapterConfig(4, init_scale=0.1)
    model = TaskModel(load_encoder(bert, adapter), ClassificationHead(3, **vars(form)))
    _randomize(model.head)
    expected = model(tiny.inputs()).numpy()
    save_pack(model, tmp_path / "pack")
    pack = read_pack(tmp_path / "pack")
    assert pack.head["settings"] == {"classes": 3, "dropout": 0.1, **form.settings()}
    held = {path for path in pack.variables if path.startswith("head/")}
    assert held == {f"head/{name}/{part}" for name in form.layers for part in ("kernel", "bias")}
    # On an encoder, and on a model whose head is of another form.
    other = TaskModel(load_encoder(bert, adapter), ClassificationHead(3, hidden_layers=5))
    for again in (load_encoder(bert, adapter), other):
        loaded = load_pack(again, tmp_path / "pack")
        assert loaded.head.form == form
        np.testing.assert_array_equal(loaded(tiny.inputs()), expected)
    model.save(str(tmp_path / "model.keras"))
    loaded = tf_keras.models.load_model(str(tmp_path / "model.keras"))
    assert loaded.head.form == form
    np.testing.assert_array_equal(loaded(tiny.inputs()), expected)


def test_every_layer_is_trained():
    head = ClassificationHead(3, dropout=0.0, pooler=False, hidden_layers=2)
    head.ensure_built(WIDTH)
    _randomize(head)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(head.loss(np.array([0, 1, 2, 1]), head(encoded(), training=True)))
    gradients = tape.gradient(loss, head.trainable_variables)
    assert len(gradients) == 6
    assert all(np.abs(gradient).max() > 0 for gradient in gradients)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"hidden_layers": -1}, "hidden_layers: expected a whole number from 0 to 8"),
        ({"hidden_layers": 10**9}, "hidden_layers: expected a whole number from 0 to 8"),
        ({"hidden_layers": "1"}, "hidden_layers: expected a whole number from 0 to 8"),
        ({"hidden_layers": 1.0}, "hidden_layers: expected a whole number from 0 to 8"),
        ({"pooler": "no"}, "pooler: expected true or false"),
        ({"pooler": [1]}, "pooler: expected true or false"),
        ({"activation": "step"}, "activation 'step' is unknown"),
    ],
    ids=str,
)
def test_wrong_forms_are_told(settings, told):
    with pytest.raises(ValueError, match=told):
        make_head("classification", {"classes": 2, **settings})


def test_a_pack_with_a_wrong_form_is_told(bert, tmp_path):
    head = RegressionHead(pooler=False)
    save_pack(TaskModel(load_encoder(bert, None), head, Tuning("head")), tmp_path)
    path = tmp_path / "pack.json"
    right = path.read_text()
    for wrong in (
        '"pooler": "x"',
        '"pooler": false, "hidden_layers": 99',
        '"activation": ["tanh"]',
    ):
        path.write_text(right.replace('"pooler": false', wrong))
        with pytest.raises(UserError, match="pack.json: "):
            read_pack(tmp_path)
