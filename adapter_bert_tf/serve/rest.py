"""TF Serving's REST protocol: an export in this process, or a server elsewhere.

https://www.tensorflow.org/tfx/serving/api_rest
"""

import base64
import http.client
import json
import os
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from adapter_bert_tf.files import absolute, open_bytes
from adapter_bert_tf.serve import GRAPH_FILE

if TYPE_CHECKING:
    import tensorflow as tf

    from adapter_bert_tf.serve.loaded import LoadedExport

_PATH = re.compile(r"/v1/models/(?P<model>[^/:]+)(/versions/(?P<version>\d+))?(?P<verb>.*)")
_DEFAULT = "serving_default"
# A long text with thousands of windows takes a while. What a server says of itself does not.
_SECONDS = {"GET": 5, "POST": 300}
# Says that a string is in base64.
_BASE64 = "b64"
# What Python and TensorFlow raise for values that make no sense.
_WRONG = (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError)


class Model(Protocol):
    """A model that answers requests of TF Serving's REST protocol.

    Attributes:
      name: Its name in requests.
    """

    name: str

    def respond(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """Returns the status of the answer, and the answer in JSON."""


def predict(model: Model, signature: str, inputs: dict[str, list]) -> dict[str, Any]:
    """Asks a model, and returns its outputs by name; an error of the model is a ValueError."""
    body = json.dumps({"signature_name": signature, "inputs": inputs}).encode()
    answer = _read(model.respond("POST", f"{_place(model)}:predict", body))
    return answer["outputs"]


def signature_defs(model: Model) -> dict[str, dict[str, list[str]]]:
    """Returns the names of the inputs and outputs of a model's signatures."""
    answer = _read(model.respond("GET", f"{_place(model)}/metadata"))
    try:
        found = answer["metadata"]["signature_def"]["signature_def"]
        return {
            name: {part: sorted(each.get(part, {})) for part in ("inputs", "outputs")}
            for name, each in found.items()
            if name != "__saved_model_init_op"
        }
    except (AttributeError, LookupError, TypeError):
        raise ValueError(f"{model.name}: its metadata are not those of TF Serving") from None


def _place(model: Model) -> str:
    return f"/v1/models/{urllib.parse.quote(model.name, safe='')}"


def _read(answer: tuple[int, bytes]) -> dict[str, Any]:
    status, body = answer
    try:
        value = json.loads(body)
        error = value.get("error") if isinstance(value, dict) else "no object"
    except ValueError:
        error = "not JSON"
    if error or status != http.HTTPStatus.OK:
        raise ValueError(error or f"status {status}")
    return value


class RemoteModel:
    """A model of a server.

    Args:
      address: The server, such as `http://localhost:8501`.
      name: The model's name there.
    """

    def __init__(self, address: str, name: str):
        self.address, self.name = address.rstrip("/"), name

    def respond(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        request = urllib.request.Request(
            self.address + path, body if method == "POST" else None, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS[method]) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()
        except (OSError, http.client.HTTPException) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            told = getattr(reason, "strerror", None) or str(reason)
            return _error(http.HTTPStatus.BAD_GATEWAY, f"{self.address} does not answer: {told}")


class LocalModel:
    """An export that answers in this process, as TF Serving would.

    Args:
      export: The export.
      name: The model's name in requests.
    """

    def __init__(self, export: "LoadedExport", name: str):
        self.export, self.name = export, name

    def respond(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        match = _PATH.fullmatch(path)
        version = os.path.basename(absolute(self.export.folder))
        known = match and urllib.parse.unquote(match["model"]) == self.name
        if not match or not known or match["version"] not in (None, version):
            return _error(http.HTTPStatus.NOT_FOUND, f"Servable not found for request: {path}")
        if (method, match["verb"]) == ("POST", ":predict"):
            return self._predict(body)
        if (method, match["verb"]) == ("GET", "/metadata"):
            return _json(self._metadata(version))
        if (method, match["verb"]) == ("GET", ""):
            status = {"error_code": "OK", "error_message": ""}
            state = {"version": version, "state": "AVAILABLE", "status": status}
            return _json({"model_version_status": [state]})
        return _error(http.HTTPStatus.BAD_REQUEST, f"Malformed request: {method} {path}")

    def _predict(self, body: bytes) -> tuple[int, bytes]:
        # Imported here, because a page for a server elsewhere does without TensorFlow.
        import tensorflow as tf

        try:
            request = json.loads(body)
            name, known = request.get("signature_name", _DEFAULT), self.export.signatures
            if name not in known:
                raise ValueError(f"no signature {name}; known are {', '.join(sorted(known))}")
            return _json(_call(known[name], request))
        except _WRONG as error:
            return _error(http.HTTPStatus.BAD_REQUEST, f"{type(error).__name__}: {error}")
        except tf.errors.OpError as error:
            return _error(http.HTTPStatus.BAD_REQUEST, error.message)

    def _metadata(self, version: str) -> dict[str, Any]:
        from google.protobuf import json_format
        from tensorflow.core.protobuf import saved_model_pb2

        model = saved_model_pb2.SavedModel()
        with open_bytes(os.path.join(self.export.folder, GRAPH_FILE)) as file:
            model.ParseFromString(file.read())
        defs = {
            name: json_format.MessageToDict(each, preserving_proto_field_name=True)
            for name, each in model.meta_graphs[0].signature_def.items()
        }
        return {
            "model_spec": {"name": self.name, "signature_name": "", "version": version},
            "metadata": {"signature_def": {"signature_def": defs}},
        }


def _call(signature, request: dict[str, Any]) -> dict[str, Any]:
    """Calls a signature with a request in rows (`instances`) or in columns (`inputs`)."""
    specs = signature.structured_input_signature[1]
    by_row = "instances" in request
    if by_row == ("inputs" in request):
        raise ValueError("expected either instances, which are rows, or inputs, which are columns")
    read = _columns_of(request["instances"], specs) if by_row else _named(request["inputs"], specs)
    outputs = signature(**{name: _tensor(read[name], spec) for name, spec in specs.items()})
    columns = {name: _plain(values.numpy()) for name, values in outputs.items()}
    if not by_row:
        return {"outputs": _or_only(columns)}
    by_name = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    return {"predictions": [_or_only(row) for row in by_name]}


def _columns_of(rows: Any, specs: Mapping[str, "tf.TensorSpec"]) -> dict[str, list]:
    if not isinstance(rows, list):
        raise ValueError("instances: expected a list of rows")
    named = [_named(row, specs) for row in rows]
    return {name: [row[name] for row in named] for name in specs}


def _named(inputs: Any, specs: Mapping[str, "tf.TensorSpec"]) -> dict[str, Any]:
    """Returns inputs by name. The protocol leaves the name out if there is a single one."""
    # A SavedModel has them in no order.
    known = ", ".join(sorted(specs))
    if not isinstance(inputs, dict) or inputs.keys() == {_BASE64}:
        if len(specs) > 1:
            raise ValueError(f"expected the inputs {known} by name")
        return dict.fromkeys(specs, inputs)
    if inputs.keys() != specs.keys():
        raise ValueError(f"expected the inputs {known}, not {', '.join(inputs)}")
    return inputs


def _tensor(values: Any, spec: "tf.TensorSpec") -> "tf.Tensor":
    """Returns an input as a signature takes it, and refuses what TensorFlow would change."""
    import tensorflow as tf

    tensor = tf.constant(_values(values, spec), spec.dtype)
    if not spec.shape.is_compatible_with(tensor.shape):
        raise ValueError(f"{spec.name}: expected lists as for the shape {spec.shape}")
    return tensor


def _values(values: Any, spec: "tf.TensorSpec") -> Any:
    if isinstance(values, list):
        return [_values(each, spec) for each in values]
    if spec.dtype.name == "string":
        if isinstance(values, dict) and values.keys() == {_BASE64}:
            return _decoded(values[_BASE64], spec)
        is_right = isinstance(values, str)
    elif spec.dtype.is_integer:
        is_right = type(values) is int and spec.dtype.min <= values <= spec.dtype.max
    else:
        is_right = type(values) in (int, float) and not abs(values) > float(spec.dtype.max)
    if not is_right:
        raise ValueError(f"{spec.name}: expected the type {spec.dtype.name}, not {values!r:.40}")
    return values


def _decoded(text: Any, spec: "tf.TensorSpec") -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{spec.name}: not base64: {error}") from None


def _or_only(outputs: dict[str, Any]) -> Any:
    """Returns outputs by name. The protocol leaves the name out if there is a single one."""
    return outputs if len(outputs) > 1 else next(iter(outputs.values()))


def _plain(values: Any) -> Any:
    """Returns an array as nested lists, with its bytes as strings."""
    return json.loads(
        json.dumps(values.tolist(), default=lambda each: each.decode("utf-8", "replace"))
    )


def _json(value: Any) -> tuple[int, bytes]:
    return http.HTTPStatus.OK, json.dumps(value, ensure_ascii=False).encode()


def _error(status: int, told: str) -> tuple[int, bytes]:
    # It may quote halves of characters, which JSON can write but UTF-8 can't.
    return status, json.dumps({"error": told}, ensure_ascii=False).encode(errors="replace")
