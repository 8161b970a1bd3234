"""serving/client.py against a server that speaks TF Serving's protocols."""

import concurrent.futures
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
from adapter_bert_tf.serve.loaded import LoadedExport, load_export
from adapter_bert_tf.serve.page import PageServer
from adapter_bert_tf.serve.rest import LocalModel
from tests.serve.tasks import make_pack

CLIENT = pathlib.Path(__file__).parents[1] / "serving" / "client.py"


@pytest.fixture(scope="module")
def export(bert, tmp_path_factory) -> LoadedExport:
    folder = tmp_path_factory.mktemp("export")
    packs = [
        make_pack(bert, folder / name, name, seed=i, max_seq_length=24, pair=name == "é")
        for i, name in enumerate("aé")
    ]
    return load_export(export_packs(find_base(bert), packs, folder / "model"))


@pytest.fixture(scope="module")
def grpc_address(export):
    class Service(prediction_service_pb2_grpc.PredictionServiceServicer):
        def Predict(self, request, context):  # noqa: N802
            inputs = {n: tf.constant(tf.make_ndarray(v)) for n, v in request.inputs.items()}
            try:
                outputs = export.signatures[request.model_spec.signature_name](**inputs)
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
def rest_address(export):
    server, model = PageServer(), LocalModel(export, "model")
    threading.Thread(target=server.serve, args=(model,), daemon=True).start()
    yield server.url.removeprefix("http://")
    server.shutdown()


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
    assert line["task"] == ["", "é", ""]
    assert line["label"] == ["", lines[0]["label"][1], ""]
    assert not done.stderr
    done = _ask(*rest, "--tasks=é,x", "--text=w1 w2", "--text_pair=w4")
    answer = json.loads(done.stdout)
    assert answer["label"] == line["label"]
    assert answer["error"] == ["", "", "unknown task 'x'; known are a, é"]
    assert done.stderr == "error: 1 of 1 rows\n"


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
