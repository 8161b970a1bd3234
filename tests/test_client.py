"""serving/client.py against a server that speaks TF Serving's protocols."""

import concurrent.futures
import http.server
import json
import pathlib
import subprocess
import sys
import threading

import grpc
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from adapter_bert_tf.base.load import find_base
from adapter_bert_tf.serve.export import export_packs
from tests.serve.tasks import load, make_pack

CLIENT = pathlib.Path(__file__).parents[1] / "serving" / "client.py"


@pytest.fixture(scope="module")
def signatures(bert, tmp_path_factory) -> dict:
    folder = tmp_path_factory.mktemp("export")
    packs = [
        make_pack(bert, folder / name, name, seed=i, max_seq_length=24, pair=name == "é")
        for i, name in enumerate("aé")
    ]
    return load(export_packs(find_base(bert), packs, folder / "model"))


@pytest.fixture(scope="module")
def grpc_address(signatures):
    class Service(prediction_service_pb2_grpc.PredictionServiceServicer):
        def Predict(self, request, context):  # noqa: N802
            inputs = {n: tf.constant(tf.make_ndarray(v)) for n, v in request.inputs.items()}
            try:
                outputs = signatures[request.model_spec.signature_name](**inputs)
            except tf.errors.InvalidArgumentError as error:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, error.message)
            protos = {n: tf.make_tensor_proto(v.numpy()) for n, v in outputs.items()}
            return predict_pb2.PredictResponse(outputs=protos)

    server = grpc.server(concurrent.futures.ThreadPoolExecutor(1))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Service(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None)


@pytest.fixture(scope="module")
def rest_address(signatures):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            assert self.path == "/v1/models/model:predict"
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                outputs = signatures[body["signature_name"]](
                    **{name: tf.constant(values) for name, values in body["inputs"].items()}
                )
                code, answer = 200, {"outputs": {n: _plain(v) for n, v in outputs.items()}}
            except tf.errors.InvalidArgumentError as error:
                code, answer = 400, {"error": error.message}
            self.send_response(code)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()


def _plain(value: tf.Tensor) -> list:
    return json.loads(json.dumps(value.numpy().tolist(), default=bytes.decode))


def _ask(*flags: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(CLIENT), "--model=model", *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_both_protocols_bring_the_same_answers(grpc_address, rest_address):
    rows = ["--task=a", "--text=w1 w2", "--text_pair=", "--task=é", "--text=w3", "--text_pair=w4"]
    over_grpc = _ask(f"--address={grpc_address}", *rows)
    over_rest = _ask(f"--address={rest_address}", "--rest", *rows)
    answers = [
        [json.loads(line) for line in done.stdout.splitlines()] for done in (over_grpc, over_rest)
    ]
    assert answers[0] == answers[1], over_grpc.stderr + over_rest.stderr
    assert [row["label"].split("-")[0] for row in answers[0]] == ["a", "é"]
    listed = json.loads(_ask(f"--address={grpc_address}", "--list").stdout)
    assert listed == {"task": ["a", "é"], "labels": [["a-0", "a-1"], ["é-0", "é-1"]]}


def test_the_error_of_a_row_is_shown_beside_the_answers_of_others(grpc_address):
    rows = ["--task=c", "--text=w1", "--text_pair=", "--task=a", "--text=w1", "--text_pair="]
    done = _ask(f"--address={grpc_address}", *rows)
    refused, answered = map(json.loads, done.stdout.splitlines())
    assert (refused["label"], refused["error"]) == ("", "unknown task 'c'; known are a, é")
    assert (answered["label"][0], answered["error"]) == ("a", "")
    assert done.returncode == 1
    assert done.stderr == "error: 1 of 2 rows\n"


def test_all_tasks_and_some_of_them_are_asked_about_a_text(rest_address):
    rows = ["--text=w1 w2", "--text_pair=w4", "--text=w3", "--text_pair=w4"]
    rest = [f"--address={rest_address}", "--rest"]
    everything = _ask(*rest, "--all", *rows)
    lines = [json.loads(line) for line in everything.stdout.splitlines()]
    assert [line["task"] for line in lines] == [["a", "é"]] * 2, everything.stderr
    done = _ask(*rest, "--tasks=é", "--text=w1 w2", "--text_pair=w4")
    (line,) = map(json.loads, done.stdout.splitlines())
    assert line["task"] == ["", "é"]
    assert line["label"] == ["", lines[0]["label"][1]]
    assert not done.stderr


def test_an_error_of_the_server_is_one_line(grpc_address, rest_address):
    rows = ["--task=a", "--task=a", "--text=w1", "--text_pair="]
    for flags in ([f"--address={grpc_address}"], [f"--address={rest_address}", "--rest"]):
        done = _ask(*flags, *rows)
        assert done.returncode == 1
        assert "different numbers of rows" in done.stderr


@pytest.mark.parametrize("protocol", [[], ["--rest"]])
def test_without_a_server_it_is_one_line(protocol):
    done = _ask("--address=127.0.0.1:9", "--text=w1", *protocol)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
