"""Sends requests to a model in TF Serving, over gRPC or REST.

    python serving/client.py --model=sst2 --text="A fine film."
    python serving/client.py --model=bert --task=MRPC --text="He left" --text_pair="He went" --rest
    python serving/client.py --model=squad --question="Who left?" --context="He left."
    python serving/client.py --model=bert --all --text="A fine film."
    python serving/client.py --model=bert --list

To send several rows, give each of these flags several times.
"""

import argparse
import json
import sys
import urllib.error
import urllib.request

_GRPC, _REST = "localhost:8500", "localhost:8501"


def ask_rest(address: str, model: str, signature: str, inputs: dict[str, list[str]]) -> dict:
    """Sends a request over REST, which needs no package, and returns the outputs."""
    request = urllib.request.Request(
        f"http://{address}/v1/models/{model}:predict",
        json.dumps({"signature_name": signature, "inputs": inputs}).encode(),
    )
    try:
        with urllib.request.urlopen(request) as response:
            outputs = json.load(response)["outputs"]
    except urllib.error.HTTPError as error:
        raise SystemExit(f"error: {error.read().decode()}") from None
    except urllib.error.URLError as error:
        raise SystemExit(f"error: {address}: {error.reason}") from None
    # TF Serving leaves the name out if a signature has a single output.
    return outputs if isinstance(outputs, dict) else {"value": outputs}


def ask_grpc(address: str, model: str, signature: str, inputs: dict[str, list[str]]) -> dict:
    """Sends a request over gRPC, which needs tensorflow-serving-api, and returns the outputs."""
    import grpc
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

    request = predict_pb2.PredictRequest()
    request.model_spec.name = model
    request.model_spec.signature_name = signature
    for name, values in inputs.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(values))
    with grpc.insecure_channel(address) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        try:
            response = stub.Predict(request, timeout=60)
        except grpc.RpcError as error:
            raise SystemExit(f"error: {error.details()}") from None
    outputs = {name: tf.make_ndarray(value) for name, value in response.outputs.items()}
    return {name: _plain(value.tolist()) for name, value in outputs.items()}


def _plain(value):
    """Decodes the strings in nested lists, which arrive as bytes."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.decode() if isinstance(value, bytes) else value


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--address", help="localhost:8500, or localhost:8501 for REST")
    parser.add_argument("--model", default="bert")
    parser.add_argument("--rest", action="store_true", help="REST instead of gRPC")
    parser.add_argument("--list", action="store_true", help="list the tasks and their labels")
    parser.add_argument("--all", action="store_true", help="ask all tasks about each text")
    parser.add_argument(
        "--tasks", action="append", help="ask several tasks about a text, separated by commas"
    )
    parser.add_argument("--task", action="append", help="if the model has several")
    parser.add_argument("--text", action="append")
    parser.add_argument("--text_pair", action="append", help="if a task of the model has pairs")
    parser.add_argument("--question", action="append", help="for a task that answers questions")
    parser.add_argument("--context", action="append", help="the text that the question is about")
    values = parser.parse_args()
    if not (values.list or values.text or values.question):
        parser.error("--text, --question or --list is needed")
    return values


def main() -> None:
    """Sends the request, and prints a line of JSON for each row of the answer."""
    values = _parse()
    if values.list:
        signature, inputs = "tasks", {"request": [""]}
    else:
        signature = _signature(values)
        names = ("task", "tasks", "text", "text_pair", "question", "context")
        inputs = {name: getattr(values, name) for name in names if getattr(values, name)}
    if values.rest:
        outputs = ask_rest(values.address or _REST, values.model, signature, inputs)
    else:
        outputs = ask_grpc(values.address or _GRPC, values.model, signature, inputs)
    rows = [dict(zip(outputs, row, strict=True)) for row in zip(*outputs.values(), strict=True)]
    for row in rows:
        print(json.dumps(row, ensure_ascii=False))
    wrong = sum(map(_is_wrong, rows))
    if wrong:
        sys.exit(f"error: {wrong} of {len(rows)} rows")


def _signature(values: argparse.Namespace) -> str:
    if values.question:
        return "answer"
    return "all" if values.all else "some" if values.tasks else "serving_default"


def _is_wrong(row: dict) -> bool:
    """Whether a row has an error. If several tasks were asked, all of them have to have one.

    Names that no task has are told where there is no task.
    """
    error = row.get("error", "")
    if isinstance(error, str):
        return bool(error)
    told = list(zip(row["task"], error, strict=True))
    return any(each for task, each in told if not task) or all(each for task, each in told if task)


if __name__ == "__main__":
    main()
