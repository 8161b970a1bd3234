"""The page's server. The page itself is tested in a browser: test_playground.py."""

import http.client
import json
import socket
import threading
import types

import pytest

from adapter_bert_tf.errors import UserError
from adapter_bert_tf.serve.page import PageServer, about

TASKS = {"film": ["bad", "good"], "stars": [], "squad": []}


class Fake:
    """A server's model, whose task `squad` answers questions."""

    name, address = "m", "http://elsewhere:8501"

    def __init__(self, with_error: bool = False, **outputs: list[str]):
        self.outputs = {"serving_default": ["label", "value"], "tasks": ["task"], **outputs}
        self.with_error = with_error

    def respond(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        if method == "GET":
            defs = {name: {"outputs": {key: {} for key in o}} for name, o in self.outputs.items()}
            return 200, json.dumps(
                {"metadata": {"signature_def": {"signature_def": defs}}}
            ).encode()
        request = json.loads(body)
        if request["signature_name"] == "tasks":
            outputs = {"task": [list(TASKS)], "labels": [[[*row, ""] for row in TASKS.values()]]}
            return 200, json.dumps({"outputs": outputs}).encode()
        known = request["inputs"]["task"] == ["squad"]
        if not known and not self.with_error:
            return 400, b'{"error": "unknown task"}'
        error = [""] if known else ["stars: ask the signature serving_default"]
        return 200, json.dumps({"outputs": {"answer": [""], "error": error}}).encode()


@pytest.mark.parametrize("with_error", [False, True])
def test_a_server_is_asked_what_its_tasks_are(with_error):
    tasks = about(Fake(with_error, answer=["answer"]), None)["tasks"]
    assert [(task["name"], task["shown"]) for task in tasks] == [
        ("film", "labels"),
        ("stars", "value"),
        ("squad", "answer"),
    ]
    assert tasks[0]["labels"] == ["bad", "good"]
    assert {task["shown"] for task in about(Fake(), None)["tasks"]} == {"labels", "value"}


def test_a_label_may_be_empty(monkeypatch):
    monkeypatch.setitem(TASKS, "film", ["bad", "", "good"])
    assert about(Fake(), None)["tasks"][0]["labels"] == ["bad", "", "good"]


@pytest.fixture(scope="module")
def server():
    server = PageServer()
    threading.Thread(target=server.serve, args=(Fake(),), daemon=True).start()
    yield server
    server.shutdown()


def _get(server, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    connection.request(method, path, headers=headers)
    response = connection.getresponse()
    return response.status, response.read()


def test_files_of_the_page_and_nothing_else_are_sent(server):
    assert b'src="page.js"' in _get(server, "/")[1]
    for path in ("/page.js", "/page.css", "/page.js?1", "/?x", "/about.json?"):
        assert _get(server, path)[0] == 200
    for path in ("/../page.py", "/%2e%2e/page.py", "//etc/passwd", "/web", "/nothing"):
        assert _get(server, path)[0] == 404


def test_the_address_for_curl_is_that_of_the_server_that_answers(server):
    assert json.loads(_get(server, "/about.json")[1])["address"] == "http://elsewhere:8501"


def test_without_one_it_is_the_address_that_the_browser_knows(server, monkeypatch):
    here = types.SimpleNamespace(name="m", respond=Fake().respond)
    monkeypatch.setattr(server, "model", here)
    assert json.loads(_get(server, "/about.json")[1])["address"] is None


def test_a_page_for_other_machines_is_found_by_the_name_of_this_one():
    server = PageServer("0.0.0.0")
    assert server.url == f"http://{socket.gethostname()}:{server.server_port}"
    server.server_close()


def test_requests_that_are_too_large_or_for_others_are_refused(server):
    for size in (str(1 << 30), "1" * 5000, "-1", ""):
        large = {"Content-Length": size}
        assert _get(server, "/v1/models/m:predict", "POST", **large)[0] == 413
    assert _get(server, "/", Host="rebound.example")[0] == 403
    for host in ("localhost", "LOCALHOST"):
        assert _get(server, "/", Host=f"{host}:{server.server_port}")[0] == 200


def test_a_port_that_is_taken_is_told(server):
    with pytest.raises(UserError, match=f"--port={server.server_port}: Address already in use"):
        PageServer(port=server.server_port)
