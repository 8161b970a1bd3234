"""TF Serving's REST protocol, as a server of it answers."""

import json
import socket
import types

import pytest
import tensorflow as tf

from adapter_bert_tf.serve import rest
from adapter_bert_tf.serve.rest import LocalModel, RemoteModel, predict, signature_defs

PREDICT = "/v1/models/m:predict"
_TEXT = tf.TensorSpec([None], tf.string, "text")
_IDS = tf.TensorSpec([None, None], tf.int32, "ids")
_NUMBER = tf.TensorSpec([None], tf.float32, "number")


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> LocalModel:
    """A model with one and two inputs and outputs."""

    @tf.function
    def two(text, number):
        checked = tf.debugging.Assert(tf.size(text) == tf.size(number), ["not of one size"])
        # The join would fail too, with words of TensorFlow, at times before the check does.
        with tf.control_dependencies([checked]):
            both = tf.strings.join([text, tf.strings.as_string(number)])
        return {"both": both, "half": number / 2}

    @tf.function
    def one(text):
        return {"length": tf.strings.length(text)}

    @tf.function
    def ids(ids):
        return {"sum": tf.reduce_sum(ids, axis=1)}

    module = tf.Module()
    folder = str(tmp_path_factory.mktemp("model") / "7")
    signatures = {
        "serving_default": two.get_concrete_function(text=_TEXT, number=_NUMBER),
        "one": one.get_concrete_function(text=_TEXT),
        "ids": ids.get_concrete_function(ids=_IDS),
    }
    tf.saved_model.save(module, folder, signatures)
    loaded = tf.saved_model.load(folder)
    export = types.SimpleNamespace(signatures=loaded.signatures, folder=folder, kept=loaded)
    return LocalModel(export, "m")


def _ask(model, **body):
    status, answer = model.respond("POST", PREDICT, json.dumps(body).encode())
    return status, json.loads(answer)


def test_rows_and_columns_are_answered_as_they_were_asked(model):
    columns = {"text": ["é", "b"], "number": [1, 3]}
    both = ["é1.000000", "b3.000000"]
    assert _ask(model, inputs=columns) == (200, {"outputs": {"both": both, "half": [0.5, 1.5]}})
    rows = [{"text": "é", "number": 1}, {"text": "b", "number": 3}]
    wanted = [{"both": both[0], "half": 0.5}, {"both": both[1], "half": 1.5}]
    assert _ask(model, instances=rows) == (200, {"predictions": wanted})


def test_a_single_input_or_output_needs_no_name(model):
    assert _ask(model, signature_name="one", inputs=["a", "bc"]) == (200, {"outputs": [1, 2]})
    asked = _ask(model, signature_name="one", instances=["a", "bc"])
    assert asked == (200, {"predictions": [1, 2]})
    assert _ask(model, signature_name="one", inputs=[]) == (200, {"outputs": []})


def test_strings_may_be_in_base64(model):
    one = {"b64": "dzE="}
    for body in ({"inputs": [one]}, {"inputs": {"text": [one]}}):
        assert _ask(model, signature_name="one", **body) == (200, {"outputs": [2]})
    for row in (one, {"text": one}):
        asked = _ask(model, signature_name="one", instances=[row, "abc"])
        assert asked == (200, {"predictions": [2, 3]})


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({}, "inputs"),
        ([], "list"),
        ({"inputs": {"text": ["a"]}}, "expected the inputs"),
        ({"inputs": {"text": ["a"], "number": ["b"]}}, "the type float"),
        ({"inputs": {"text": ["a", "b"], "number": [1]}}, "not of one size"),
        ({"instances": [{"text": "a"}]}, "expected the inputs"),
        ({"inputs": {"text": ["\ud800"], "number": [1]}}, "unicode"),
        (
            {"signature_name": "three", "inputs": []},
            "no signature three; known are ids, one, serving_default",
        ),
        ({"signature_name": "\ud800", "inputs": {}}, "no signature ?; known are ids, one"),
        ({"signature_name": "one", "instances": {"text": "w1"}}, "expected a list of rows"),
        ({"signature_name": "one", "instances": "w1"}, "expected a list of rows"),
        ({"signature_name": "one", "inputs": "w1"}, "text: expected lists as for the shape"),
        ({"signature_name": "one", "inputs": ["a"], "instances": ["a"]}, "either instances"),
        ({"signature_name": "one", "inputs": [{"b64": "!"}]}, "text: not base64"),
        ({"signature_name": "one", "inputs": [{"b64": 1}]}, "text: not base64"),
        ({"signature_name": "one", "inputs": [{"a": "b"}]}, "expected the type string"),
        ({"inputs": ["film"]}, "the inputs number, text by name"),
        (
            {"instances": [{"text": "a", "number": 1}, {"text": "b", "number": 2, "x": 3}]},
            "not text, number, x",
        ),
        ({"signature_name": "ids", "inputs": [[2**40]]}, "the type int32, not 1099511627776"),
        ({"signature_name": "ids", "inputs": [[1.0]]}, "the type int32, not 1.0"),
        ({"signature_name": "ids", "inputs": [[True]]}, "the type int32, not True"),
        ({"inputs": {"text": ["a"], "number": [10**400]}}, "the type float32, not 1000"),
    ],
)
def test_wrong_requests_are_told(model, body, told):
    status, answer = model.respond("POST", PREDICT, json.dumps(body).encode())
    assert status == 400
    assert told in json.loads(answer)["error"]


def test_the_status_and_the_signatures_are_told(model):
    for path in ("/v1/models/m", "/v1/models/m/versions/7"):
        status, answer = model.respond("GET", path)
        assert status == 200
        assert json.loads(answer)["model_version_status"][0]["version"] == "7"
    metadata = json.loads(model.respond("GET", "/v1/models/m/metadata")[1])["metadata"]
    defined = metadata["signature_def"]["signature_def"]["serving_default"]
    assert defined["inputs"]["text"]["dtype"] == "DT_STRING"
    for method, path in (("GET", "/v1/models/other"), ("GET", "/v1/models/m/versions/8")):
        assert model.respond(method, path)[0] == 404
    assert model.respond("POST", PREDICT, b"{")[0] == 400
    assert model.respond("POST", "/v1/models/m:classify", b"{}")[0] == 400


def test_a_name_may_have_any_characters(model):
    odd = LocalModel(model.export, "a b/é:c")
    assert signature_defs(odd)["one"] == {"inputs": ["text"], "outputs": ["length"]}
    assert predict(odd, "one", {"text": ["a"]}) == [1]


def test_a_folder_may_be_remote(model):
    folder = "ram://rest/m/7"
    tf.io.gfile.makedirs(folder)
    tf.io.gfile.copy(f"{model.export.folder}/saved_model.pb", f"{folder}/saved_model.pb")
    remote = LocalModel(types.SimpleNamespace(signatures={}, folder=folder), "m")
    assert signature_defs(remote) == signature_defs(model)
    assert remote.respond("GET", "/v1/models/m/versions/7")[0] == 200


@pytest.mark.parametrize(
    "metadata",
    [
        [],
        {"metadata": []},
        {"metadata": {"signature_def": {"signature_def": []}}},
        {"metadata": {"signature_def": {"signature_def": {"a": []}}}},
    ],
)
def test_metadata_of_another_kind_are_told(metadata):
    odd = types.SimpleNamespace(name="m", respond=lambda *_: (200, json.dumps(metadata).encode()))
    with pytest.raises(ValueError, match="no object|not those of TF Serving"):
        signature_defs(odd)


def test_a_server_that_takes_requests_but_does_not_answer_is_told(monkeypatch):
    assert rest._SECONDS["GET"] <= 10
    monkeypatch.setitem(rest._SECONDS, "GET", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        model = RemoteModel(f"http://127.0.0.1:{silent.getsockname()[1]}", "m")
        status, answer = model.respond("GET", "/v1/models/m/metadata")
    assert status == 502
    assert json.loads(answer)["error"].endswith("does not answer: timed out")


def test_a_server_that_is_down_is_told():
    model = RemoteModel("http://127.0.0.1:9/", "m")
    status, answer = model.respond("GET", "/v1/models/m")
    assert status == 502
    told = "http://127.0.0.1:9 does not answer: Connection refused"
    assert json.loads(answer) == {"error": told}
    with pytest.raises(ValueError, match=told):
        predict(model, "tasks", {"request": [""]})
