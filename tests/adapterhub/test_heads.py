import numpy as np
import pytest

from adapter_bert_tf import UserError
from adapter_bert_tf.adapterhub.files import HubFiles
from adapter_bert_tf.adapterhub.heads import HubHead, to_config, to_tensors
from adapter_bert_tf.encoder.activations import ACTIVATIONS
from adapter_bert_tf.heads.text import TextForm
from tests import tiny
from tests.adapterhub import hub

BASE_DROPOUT = 0.1
STATIC = {
    "config": None,
    "label2id": {"b": 1, "a": 0},
    "model_class": "BertForSequenceClassification",
    "name": None,
    "num_labels": 2,
}


def _head(whole, tensors=None) -> HubHead:
    if tensors is None:
        tensors = hub.head_tensors(whole)
    return HubHead(HubFiles("here", {}, {}, whole, tensors), BASE_DROPOUT)


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("activation", ["tanh", "relu", None])
@pytest.mark.parametrize("pooler", [False, True])
def test_layers_become_those_of_our_head(layers, activation, pooler):
    whole = hub.head_config(layers=layers, activation_function=activation, use_pooler=pooler)
    tensors = hub.head_tensors(whole)
    head = _head(whole, tensors)
    assert (head.kind, head.labels) == ("classification", ("LABEL_0", "LABEL_1", "LABEL_2"))
    ours = "tanh" if activation is None and layers == 1 else activation or "linear"
    form = TextForm(pooler, layers - 1, ours)
    assert head.settings == {"classes": 3, "dropout": BASE_DROPOUT, **form.settings()}
    variables = head.variables(tiny.WIDTH, 3)
    step = 2 if activation is None else 3
    for number, name in enumerate(form.layers):
        stem = f"heads.task.{1 + step * number}"
        np.testing.assert_array_equal(
            variables.pop(f"head/{name}/kernel"), tensors[f"{stem}.weight"].T
        )
        np.testing.assert_array_equal(variables.pop(f"head/{name}/bias"), tensors[f"{stem}.bias"])
    assert not variables


def test_only_the_last_layer_can_be_without_a_bias():
    whole = hub.head_config(bias=False)
    tensors = hub.head_tensors(whole)
    assert "heads.task.4.bias" not in tensors
    variables = _head(whole, tensors).variables(tiny.WIDTH, 3)
    np.testing.assert_array_equal(variables["head/output/bias"], np.zeros(3, np.float32))
    del tensors["heads.task.1.bias"]
    with pytest.raises(UserError, match=r"^heads.task.1.bias is missing, expected \[16\]$"):
        _head(whole, tensors).variables(tiny.WIDTH, 3)


@pytest.mark.parametrize(
    ("fields", "kind", "settings"),
    [
        ({"num_labels": 1}, "regression", {}),
        ({"num_labels": 1, "label2id": None}, "regression", {}),
        ({"head_type": "multilabel_classification"}, "multi_label", {"classes": 3}),
        (
            {"head_type": "multilabel_classification", "num_labels": 1},
            "multi_label",
            {"classes": 1},
        ),
        ({"head_type": "question_answering", "num_labels": 2, "layers": 1}, "span", None),
    ],
    ids=str,
)
def test_kinds(fields, kind, settings):
    head = _head(hub.head_config(**fields))
    assert head.kind == kind
    form = {"pooler": False, "hidden_layers": 1}
    expected = {} if settings is None else {"dropout": BASE_DROPOUT, **form, **settings}
    assert head.settings == expected


def test_no_head_is_a_kind_too():
    head = HubHead(HubFiles("here", {}, {}, None, {}), BASE_DROPOUT)
    assert (head.kind, head.settings, head.labels) == ("none", {}, ())
    assert head.variables(tiny.WIDTH, 1) == {}


def test_what_is_not_said_is_the_librarys_default():
    whole = hub.head_config()
    tensors = hub.head_tensors(hub.head_config(num_labels=2))
    whole["config"] = {"head_type": "classification"}
    head = _head(whole, tensors)
    assert head.labels == ("LABEL_0", "LABEL_1")
    assert head.settings == {
        "classes": 2,
        "dropout": BASE_DROPOUT,
        "pooler": False,
        "hidden_layers": 1,
    }
    whole["config"] = {"head_type": "question_answering"}
    one = hub.head_tensors(hub.head_config(num_labels=2, layers=1))
    assert _head(whole, one).kind == "span"


@pytest.mark.parametrize("rate", [0.0, 0.3, 0])
def test_a_head_may_have_its_own_dropout(rate):
    assert _head(hub.head_config(dropout_prob=rate)).settings["dropout"] == rate


@pytest.mark.parametrize(
    ("numbers", "labels"),
    [
        ({"Positive": 2, "a third, with more: 50 %": 1, "negative": 0}, None),
        ({"c": "2", "a": "0", "b": "1"}, ("a", "b", "c")),
        (None, ("LABEL_0", "LABEL_1", "LABEL_2")),
        ({"": 0, "a\tb": 1, "ü": 2}, ("", "a\tb", "ü")),
    ],
    ids=str,
)
def test_labels_are_ordered_by_their_numbers(numbers, labels):
    expected = labels or ("negative", "a third, with more: 50 %", "Positive")
    assert _head(hub.head_config(label2id=numbers)).labels == expected


def test_models_with_one_head_are_known():
    random = np.random.default_rng(0)
    tensors = {
        "classifier.weight": random.normal(size=[2, 16]),
        "classifier.bias": random.normal(size=[2]),
    }
    head = _head(STATIC, tensors)
    assert (head.kind, head.labels) == ("classification", ("a", "b"))
    assert head.settings == {"classes": 2, "dropout": BASE_DROPOUT}
    np.testing.assert_array_equal(
        head.variables(16, 2)["head/output/kernel"], tensors["classifier.weight"].T
    )
    value = {name: tensor[:1] for name, tensor in tensors.items()}
    assert _head({**STATIC, "num_labels": 1}, value).kind == "regression"
    spans = {name.replace("classifier", "qa_outputs"): each for name, each in tensors.items()}
    assert _head({**STATIC, "model_class": "BertForQuestionAnswering"}, spans).kind == "span"


QUESTIONS = {"head_type": "question_answering", "num_labels": 2}
REFUSED = {
    "head_type": [{"head_type": each} for each in ("tagging", "masked_lm", None, ["x"], 3)],
    "layers": [
        *({"layers": each} for each in (0, 9, 10**6, -1, 1.0, True, "2", None, [2])),
        {**QUESTIONS, "layers": 2},
    ],
    "num_labels": [
        *({"num_labels": each} for each in (0, 10**9, -1, 2.0, True, "3", None, [3])),
        {**QUESTIONS, "num_labels": 3, "layers": 1},
    ],
    "use_pooler": [{"use_pooler": each} for each in ("no", 1, None)],
    "activation_function": [{"activation_function": each} for each in ("step", 3, ["tanh"])],
    "dropout_prob": [
        {"dropout_prob": each} for each in (1.0, -0.1, float("nan"), "0.1", [0.1], True)
    ],
    "label2id": [
        {"label2id": each}
        for each in (
            {},
            {"a": 0, "b": 1},
            {"a": 0, "b": 1, "c": 1},
            {"a": 1, "b": 2, "c": 3},
            {"a": 0, "b": 1, "c": 2, "d": 2},
            {"a": 0, "b": 1, "c": -2},
            {"a": 0, "b": 1, "c": float("inf")},
            {"a": 0, "b": True, "c": 2},
            {"a": 0, "b": 1.0, "c": 2},
            {"a": 0, "b": [1], "c": 2},
            {"a": "0", "b": " 1", "c": "2"},
            {"a": 0, "b": 1, "\ud800": 2},
            ["a", "b", "c"],
            3,
            "abc",
        )
    ],
}


@pytest.mark.parametrize(
    ("field", "fields"),
    [(field, fields) for field, each in REFUSED.items() for fields in each],
    ids=lambda each: ascii(each)[:60],
)
def test_what_our_form_does_not_hold_is_refused_by_its_field(field, fields):
    whole = hub.head_config()
    tensors = hub.head_tensors(whole)
    if fields.get("head_type") == "question_answering":
        tensors = hub.head_tensors(hub.head_config(**fields))
    whole["config"] |= fields
    with pytest.raises(UserError) as error:
        _head(whole, tensors)
    message = str(error.value)
    assert message.startswith(f"{field}=")
    assert message.isprintable()
    assert len(message) < 400


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"config": []}, "config=[]: expected an object"),
        ({"config": "classification"}, "config='classification': expected an object"),
        ({"name": "a\nb"}, r"name='a\nb': expected"),
        ({"name": None}, "name=None: expected"),
        ({"config": None}, "model_class='BertAdapterModel': its head is not read; known are Bert"),
        ({"config": None, "model_class": ["a"]}, "model_class=['a']: its head is not read"),
        ({"config": None, "model_class": "BertForMaskedLM"}, "model_class='BertForMaskedLM': "),
        ({"name": "other"}, "tensors of the head that nothing is known of: heads.task.1.bias"),
    ],
    ids=str,
)
def test_odd_files_are_told(changes, told):
    whole = hub.head_config()
    with pytest.raises(UserError) as error:
        _head({**whole, **changes}, hub.head_tensors(whole))
    assert str(error.value).startswith(told)


@pytest.mark.parametrize(
    ("name", "shape", "told"),
    [
        ("4.weight", (3, 15), r"heads.task.4.weight is \[3, 15\], expected \[3, 16\]"),
        ("4.weight", (16,), r"heads.task.4.weight is \[16\], expected \[3, 16\]"),
        ("4.weight", None, r"heads.task.4.weight is missing, expected \[3, 16\]"),
        ("1.weight", (32, 16), r"heads.task.1.weight is \[32, 16\], expected \[16, 16\]"),
        ("4.bias", (4,), r"heads.task.4.bias is \[4\], expected \[3\]"),
        ("7.weight", (3, 16), "nothing is known of: heads.task.7.weight"),
        ("4.scale", (3,), "nothing is known of: heads.task.4.scale"),
        ("4", (3,), "nothing is known of: heads.task.4"),
    ],
)
def test_tensors_that_do_not_fit_are_told(name, shape, told):
    whole = hub.head_config()
    tensors = hub.head_tensors(whole)
    if shape is None:
        del tensors[f"heads.task.{name}"]
    else:
        tensors[f"heads.task.{name}"] = np.zeros(shape, np.float32)
    with pytest.raises(UserError, match=told):
        _head(whole, tensors).variables(tiny.WIDTH, 3)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("kind", ["classification", "multi_label", "regression"])
def test_a_head_comes_back(kind, activation):
    for pooler in (False, True):
        for hidden in range(4):
            form = TextForm(pooler, hidden, activation if hidden else "tanh")
            labels = [] if kind == "regression" else ["z", "y", "a b"]
            random = np.random.default_rng(0)
            variables = {
                f"head/{layer}/{part}": random.normal(
                    size=[16, outputs] if part == "kernel" else [outputs]
                )
                for layer in form.layers
                for part in ("kernel", "bias")
                for outputs in [len(labels) or 1 if layer == "output" else 16]
            }
            whole = {**hub.head_config("a b"), "config": to_config(kind, form, labels)}
            tensors = to_tensors(variables, form, "a b")
            assert all(tensor.flags.c_contiguous for tensor in tensors.values())
            head = _head(whole, tensors)
            assert (head.kind, head.labels) == (kind, tuple(labels))
            classes = {"classes": 3} if labels else {}
            assert head.settings == {**classes, "dropout": BASE_DROPOUT, **form.settings()}
            again = head.variables(16, len(labels) or 1)
            assert again.keys() == variables.keys()
            for path, value in variables.items():
                np.testing.assert_array_equal(again[path], value)


def test_the_library_takes_these_fields_and_no_others():
    """It turns them into arguments of a class, so another one would be an error there."""
    texts = {"activation_function", "bias", "dropout_prob", "head_type", "label2id", "layers"}
    texts |= {"num_labels", "use_pooler"}
    for kind in ("classification", "multi_label", "regression"):
        assert to_config(kind, TextForm(), ["a", "b"]).keys() == texts
    assert to_config("span", TextForm(), []).keys() == texts - {"bias", "use_pooler"}


def test_labels_that_are_the_same_are_not_exported():
    with pytest.raises(UserError, match="^labels=.*AdapterHub wants each of them once"):
        to_config("classification", TextForm(), ["a", "b", "a"])
