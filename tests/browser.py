"""A real browser: Debian's chromium, through its driver's WebDriver protocol."""

import contextlib
import json
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator

import pytest

_OPTIONS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Browser:
    """A browser with one page.

    Args:
      driver: Address of the driver.
    """

    def __init__(self, driver: str):
        options = {"goog:chromeOptions": {"args": [*_OPTIONS, "--window-size=1000,1100"]}}
        made = _send(f"{driver}/session", {"capabilities": {"alwaysMatch": options}})
        self._session = f"{driver}/session/{made['sessionId']}"

    def open(self, url: str) -> None:
        _send(f"{self._session}/url", {"url": url})

    def run(self, script: str, *arguments):
        """Runs a script in the page, and returns what it returns."""
        return _send(f"{self._session}/execute/sync", {"script": script, "args": list(arguments)})

    def type(self, selector: str, text: str) -> None:
        """Types into an element, key by key, in place of what is there."""
        where = {"using": "css selector", "value": selector}
        found = _send(f"{self._session}/element", where)[_ELEMENT]
        _send(f"{self._session}/element/{found}/clear", {})
        _send(f"{self._session}/element/{found}/value", {"text": text})

    def wait_for(self, script: str, *arguments, seconds: float = 120):
        """Returns what a script returns, as soon as that is true."""
        end = time.monotonic() + seconds
        while True:
            found = self.run(script, *arguments)
            if found:
                return found
            if time.monotonic() > end:
                page = self.run("return document.body.innerText")
                raise AssertionError(f"{script}: not within {seconds} s on the page:\n{page}")
            time.sleep(0.1)

    def close(self) -> None:
        urllib.request.urlopen(urllib.request.Request(self._session, method="DELETE"))


def _send(url: str, body: dict):
    request = urllib.request.Request(url, json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=180) as response:
        return json.load(response)["value"]


@contextlib.contextmanager
def open_browser() -> Iterator[Browser]:
    """Starts a browser; skips the test where there is none."""
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        pytest.skip("no browser: apt-get install chromium chromium-driver")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    driver = subprocess.Popen(["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL)
    try:
        browser = _started(f"http://127.0.0.1:{port}")
        yield browser
        browser.close()
    finally:
        driver.terminate()
        driver.wait()


def _started(driver: str) -> Browser:
    for _ in range(300):
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{driver}/status").close()
            break
        time.sleep(0.1)
    return Browser(driver)
