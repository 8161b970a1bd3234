"""A page on which an export can be tried, and its server."""

import http.server
import ipaddress
import json
import pathlib
import socket
import sys
from typing import Any

from adapter_bert_tf.errors import UserError
from adapter_bert_tf.serve.description import Description
from adapter_bert_tf.serve.rest import Model, predict, signature_defs

_FILES = pathlib.Path(__file__).parent / "web"
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
_LARGEST_REQUEST = 16 << 20
_TEXTS, _QUESTIONS, _TASKS = "serving_default", "answer", "tasks"
# What the page shows of a task: bars, a number, or a place in a text.
_LABELS, _VALUE, _ANSWER = "labels", "value", "answer"
_SHOWN = {"regression": _VALUE, "span": _ANSWER}
# The page runs its own script only, and talks to its own server only.
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
}


def about(model: Model, described: Description | None) -> dict[str, Any]:
    """Returns what the page has to know about a model.

    Args:
      model: The model.
      described: The export's description. Without it, the model itself is asked.
    """
    signatures = signature_defs(model)
    if described is None:
        tasks = _ask_for_tasks(model, signatures)
    else:
        tasks = [
            {
                "name": task.name,
                "shown": _SHOWN.get(task.pack.kind, _LABELS),
                "labels": list(task.pack.class_names),
                "pair": task.pair,
            }
            for task in described.tasks
        ]
    return {
        "model": model.name,
        "base": described.base if described else None,
        "tasks": tasks,
        "signatures": signatures,
    }


def _ask_for_tasks(model: Model, signatures: dict[str, dict[str, list[str]]]) -> list[dict]:
    listed = predict(model, _TASKS, {"request": [""]})
    tasks = []
    for name, row in zip(listed["task"][0], listed["labels"][0], strict=True):
        # Labels are filled up to those of the task that has most. One of them may be empty.
        count = max((i for i, label in enumerate(row, 1) if label), default=0)
        labels = row[:count]
        shown = _LABELS if labels else _without_labels(model, name, signatures)
        tasks.append({"name": name, "shown": shown, "labels": labels, "pair": None})
    return tasks


def _without_labels(model: Model, name: str, signatures: dict[str, dict[str, list[str]]]) -> str:
    """Finds out whether a task gives a value or answers questions, which servers don't say."""
    if _QUESTIONS not in signatures:
        return _VALUE
    if _VALUE not in signatures[_TEXTS]["outputs"]:
        return _ANSWER
    try:
        request = {"question": ["?"], "context": ["?"], "task": [name]}
        errors = predict(model, _QUESTIONS, request).get("error", [""])
    except ValueError:
        return _VALUE
    return _VALUE if any(errors) else _ANSWER


class PageServer(http.server.ThreadingHTTPServer):
    """Serves the page, and answers its requests, which are those of TF Serving's REST protocol.

    Args:
      host: Name or address of the network interface.
      port: The port; 0 for any that is free.
    """

    model: Model
    described: Description | None

    def __init__(self, host: str = "127.0.0.1", port: int = 0):
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UserError(f"--host={host} --port={port}: {reason}; --port=0 takes any") from None
        self._address = str(self.server_address[0])
        self._is_local = ipaddress.ip_address(self._address).is_loopback

    def serve(self, model: Model, described: Description | None = None) -> None:
        """Answers requests until `shutdown` is called.

        Args:
          model: The model that answers.
          described: The description of its export, if it is at hand.
        """
        self.model, self.described = model, described
        self.serve_forever()

    @property
    def url(self) -> str:
        """The address of the page."""
        is_any = ipaddress.ip_address(self._address).is_unspecified
        return f"http://{socket.gethostname() if is_any else self._address}:{self.server_port}"

    def is_for_us(self, host: str) -> bool:
        """Returns whether a request was meant for this server.

        Any site may have a name that leads to this machine, and could read answers by it.
        """
        name = (host.rpartition(":")[0] or host).lower()
        return not self._is_local or name in ("localhost", self._address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing of browsers that did not wait for an answer."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(http.server.BaseHTTPRequestHandler):
    server: PageServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        name = "index.html" if path == "/" else path.removeprefix("/")
        if not self._checked():
            return
        if name == "about.json":
            self._send_about()
        elif self.path.startswith("/v1/"):
            self._send(*self.server.model.respond("GET", self.path))
        elif name in {file.name for file in _FILES.iterdir()}:
            file = _FILES / name
            self._send(http.HTTPStatus.OK, file.read_bytes(), _TYPES[file.suffix])
        else:
            self._send_error_text(http.HTTPStatus.NOT_FOUND, f"no such page: {self.path}")

    def do_POST(self) -> None:
        if not self._checked():
            return
        size = self.headers.get("Content-Length", "")
        # Python refuses to read numbers of thousands of digits.
        if not size.isdecimal() or len(size) > 18 or int(size) > _LARGEST_REQUEST:
            self.close_connection = True
            told = f"expected a request of at most {_LARGEST_REQUEST:,} bytes"
            self._send_error_text(http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE, told)
            return
        body = self.rfile.read(int(size))
        if self.path.startswith("/v1/"):
            self._send(*self.server.model.respond("POST", self.path, body))
        else:
            self._send_error_text(http.HTTPStatus.NOT_FOUND, f"no such page: {self.path}")

    def _checked(self) -> bool:
        if self.server.is_for_us(self.headers.get("Host", "")):
            return True
        self.close_connection = True
        self._send_error_text(http.HTTPStatus.FORBIDDEN, "meant for another server")
        return False

    def _send_about(self) -> None:
        try:
            value = about(self.server.model, self.server.described)
        except (ValueError, LookupError, TypeError) as error:
            self._send_error_text(http.HTTPStatus.BAD_GATEWAY, str(error))
            return
        # Where the page's requests can be sent to from elsewhere, if not to where it came from.
        value["address"] = getattr(self.server.model, "address", None)
        self._send(http.HTTPStatus.OK, json.dumps(value).encode())

    def _send_error_text(self, status: int, told: str) -> None:
        self._send(status, json.dumps({"error": told}).encode())

    def _send(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Keeps the terminal quiet."""
