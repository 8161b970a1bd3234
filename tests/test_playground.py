"""python -m adapter_bert_tf.playground as a user starts it, in a real browser."""

import contextlib
import json
import os
import pathlib
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from adapter_bert_tf.serve.page import PageServer
from tests.browser import Browser, open_browser
from tests.programs import run_without_tensorflow
from tests.serve.kinds import LABELS, export_every_kind

BEFORE = pathlib.Path(__file__).parent / "serve" / "before" / "export"
EVIL = "<script>document.title='run'</script> w1 it's é"

ANSWERED = """
    const found = {};
    for (const card of document.querySelectorAll("#answers article"))
        found[card.dataset.task] =
            [...card.querySelectorAll(".row")].map((row) => row.innerText.split("\\n"));
    return Object.values(found).every((rows) => rows.length) && found;
"""


@pytest.fixture(scope="module")
def model(bert, tmp_path_factory) -> str:
    return export_every_kind(bert, tmp_path_factory.mktemp("kinds"))[0]


@contextlib.contextmanager
def _playground(*flags: str) -> Iterator[str]:
    """Starts the program, and yields the address that it prints."""
    command = [sys.executable, "-m", "adapter_bert_tf.playground", "--port=0", "--open=false"]
    with subprocess.Popen([*command, *flags], stdout=subprocess.PIPE, text=True) as process:
        found = next((m for line in process.stdout if (m := re.search(r"open (\S+)", line))), None)
        assert found, process.wait()
        try:
            yield found[1]
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=60) == 130


@pytest.mark.slow
def test_texts_are_typed_and_questions_asked_and_all_tasks_answer(model):
    with open_browser() as browser, _playground(f"--export_dir={model}") as url:
        browser.open(url)
        browser.wait_for("return document.querySelectorAll('#answers article').length === 4")
        _check_texts(browser, url)
        _check_text_that_is_no_html(browser)
        _check_question(browser)


def _check_texts(browser: Browser, url: str) -> None:
    browser.type("#text", "w1 w2")
    browser.type("#text_pair", "w3")
    found = browser.wait_for(ANSWERED)
    assert found.keys() == {"film", "same", "stars", "tone"}
    assert [row[0] for row in found["film"]] == ["film-0", "film-1"]
    # Of nine labels, the most probable ones.
    assert len(found["same"]) == 6
    assert {row[0] for row in found["tone"]} == set(LABELS)
    browser.run("document.querySelector('[data-task=same] .more').click()")
    assert len(browser.run(ANSWERED)["same"]) == 9
    # The curl line is what the page has asked, and brings the same answer.
    program, *arguments = shlex.split(_curl(browser, "#text-request"))
    assert program == "curl"
    assert arguments[0] == "-d"
    assert arguments[2].startswith(url)
    request = urllib.request.Request(arguments[2], arguments[1].encode())
    with urllib.request.urlopen(request) as response:
        answers = json.load(response)["outputs"]
    row = answers["task"][0].index("film") if "task" in answers else 0
    shares = answers["probabilities"][0][row] if "task" in answers else answers["probabilities"][0]
    assert [row[-1] for row in found["film"]] == [f"{100 * share:.1f} %" for share in shares[:2]]


def _curl(browser: Browser, footer: str) -> str:
    time, line = browser.wait_for(
        "const [time, line] = document.querySelector(arguments[0]).children;"
        "return line && [time.innerText, line.innerText]",
        footer,
    )
    assert re.fullmatch(r"\d+ ms", time)
    return line


def _check_text_that_is_no_html(browser: Browser) -> None:
    browser.type("#text", EVIL)
    browser.wait_for(
        "return document.querySelector('#text-request code')?.innerText.includes(\"it'\")"
    )
    assert json.loads(shlex.split(_curl(browser, "#text-request"))[2])["inputs"]["text"][0] == EVIL
    assert browser.run("return document.querySelectorAll('main script, main i').length") == 0
    assert browser.run("return document.title") == "model · playground"


def _check_question(browser: Browser) -> None:
    context = f"é中 {EVIL}. w2 w3 w4, w5 w6"
    browser.type("#context", context)
    browser.type("#question", "w2 w3\n")
    shown = browser.wait_for("return document.querySelector('#found .context')?.textContent")
    assert shown == context
    marked = browser.run("return document.querySelector('#found mark').textContent")
    answer = browser.run("return document.querySelector('#found h2 span').textContent")
    assert marked
    assert marked.split() == answer.split()
    assert "answer" in _curl(browser, "#question-request")
    assert browser.run("return document.title") == "model · playground"


@pytest.mark.slow
def test_a_server_elsewhere_is_asked_and_told_if_it_is_down(model):
    with open_browser() as browser, contextlib.ExitStack() as stack:
        server = stack.enter_context(_playground(f"--export_dir={model}"))
        url = stack.enter_context(_playground(f"--server={server}", "--model=model"))
        browser.open(url)
        # The server does not say what its tasks are, and is asked.
        browser.wait_for("return document.querySelectorAll('#answers article').length === 4")
        assert browser.run("return !document.querySelector('#questions').hidden")
        browser.type("#text", "w1 w2")
        assert browser.wait_for(ANSWERED).keys() == {"film", "same", "stars", "tone"}
        assert server in _curl(browser, "#text-request")
        with _playground("--server=http://127.0.0.1:9", "--model=model") as down:
            browser.open(down)
            told = browser.wait_for("return document.querySelector('#problem').innerText")
            assert told.startswith("http://127.0.0.1:9 does not answer: Connection refused")
            browser.open(url)
            browser.wait_for("return document.querySelectorAll('#answers article').length === 4")
        stack.close()
        browser.type("#text", "w1")
        told = browser.wait_for("return document.querySelector('#problem').innerText")
        assert told == "The playground does not answer. Is it still running?"


@pytest.mark.slow
def test_a_server_that_does_not_answer_is_waited_for_and_told():
    with open_browser() as browser, socket.create_server(("127.0.0.1", 0)) as silent:
        server = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with _playground(f"--server={server}") as url:
            browser.open(url)
            waiting = "return document.querySelector('#summary').innerText"
            assert browser.run(waiting) == "waiting for the model …"
            told = browser.wait_for(
                "return document.querySelector('#problem').innerText", seconds=30
            )
            assert told == f"{server} does not answer: timed out"


class _Many:
    """A model with 40 tasks of two labels, which refuses to answer for the last one."""

    name, address = "many", "http://elsewhere:8501"
    tasks = tuple(f"task {i}" for i in range(40))

    def __init__(self):
        self.asked: list[list[str]] = []

    def respond(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        if method == "GET":
            signature = {"inputs": {"text": {}, "task": {}}, "outputs": {"label": {}}}
            defs = {"serving_default": signature, "tasks": signature}
            return 200, json.dumps(
                {"metadata": {"signature_def": {"signature_def": defs}}}
            ).encode()
        request = json.loads(body)
        if request.get("signature_name") == "tasks":
            outputs = {"task": [self.tasks], "labels": [[["no", "yes"]] * len(self.tasks)]}
            return 200, json.dumps({"outputs": outputs}).encode()
        self.asked.append(request["inputs"]["task"])
        fine = [name != self.tasks[-1] for name in self.asked[-1]]
        outputs = {
            "label": ["yes" if each else "" for each in fine],
            "probabilities": [[0.25, 0.75] if each else [0.0, 0.0] for each in fine],
            "error": ["" if each else "<b>refused</b>" for each in fine],
        }
        return 200, json.dumps({"outputs": outputs}).encode()


@pytest.mark.slow
def test_of_many_tasks_some_are_asked_and_a_row_may_be_refused():
    server, model = PageServer(), _Many()
    threading.Thread(target=server.serve, args=(model,), daemon=True).start()
    with open_browser() as browser:
        browser.open(server.url)
        browser.wait_for("return document.querySelectorAll('#answers article').length === 32")
        browser.type("#text", "a text")
        assert browser.wait_for(ANSWERED)["task 0"] == [["no", "25.0 %"], ["yes", "75.0 %"]]
        assert model.asked[-1] == list(model.tasks[:32])
        browser.type("#wanted", "39")
        told = browser.wait_for("return document.querySelector('#answers .wrong')?.textContent")
        assert told == "<b>refused</b>"
        assert model.asked[-1] == ["task 39"]
    server.shutdown()


def test_only_this_machine_gets_answers():
    with _playground("--server=http://127.0.0.1:9") as url:
        assert url.startswith("http://127.0.0.1:")
        for host, status in (("localhost:1", 200), ("evil.example", 403)):
            request = urllib.request.Request(url, headers={"Host": host})
            try:
                with urllib.request.urlopen(request) as response:
                    found = response.status
                    assert "script-src 'self'" in response.headers["Content-Security-Policy"]
            except urllib.error.HTTPError as error:
                found = error.code
            assert found == status


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ([], "--export_dir, or --server: expected one"),
        (["--export_dir=nowhere"], "No such file or directory"),
        (["--server=localhost:8501"], "--server=localhost:8501: expected http://HOST:PORT"),
        ([f"--export_dir={BEFORE}", "--port=70000"], "--port=70000"),
        (["--server=http://localhost:8501", "--host=nowhere.invalid"], "--host=nowhere.invalid"),
    ],
)
def test_mistakes_are_told_before_tensorflow_is_loaded(flags, told, tmp_path):
    done = run_without_tensorflow("adapter_bert_tf.playground", *flags, cwd=os.fspath(tmp_path))
    assert done.returncode == 1
    assert told in done.stderr
    assert done.stderr.count("\n") == 1
