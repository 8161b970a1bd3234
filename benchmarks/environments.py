"""The interpreters of both sides, and workers in them."""

import functools
import os
import subprocess
import sys
import venv

from pipe import Worker
from sizes import Case

_HERE = os.path.dirname(__file__)
_PEER = os.path.join(os.path.dirname(_HERE), ".venv-peer")
_PACKAGES = (
    "torch==2.13.0",
    "adapters==1.3.0",
    "transformers==4.57.6",
    "onnx==1.23.2",
    "onnxruntime==1.31.1",
)


@functools.cache
def peer_python() -> str:
    """Python with the peers: that of PEER_PYTHON, or of a new `.venv-peer`."""
    given = os.environ.get("PEER_PYTHON")
    if given:
        return given
    python = os.path.join(_PEER, "bin", "python")
    if not os.path.exists(os.path.join(_PEER, ".installed")):
        print(f"building {_PEER}: {', '.join(_PACKAGES)}", flush=True)
        venv.create(_PEER, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *_PACKAGES], check=True)
        open(os.path.join(_PEER, ".installed"), "w").close()
    return python


def our_worker(case: Case, program: str = "ours.py", *arguments: str) -> Worker:
    """Starts a worker of ours."""
    return Worker([sys.executable, os.path.join(_HERE, program), case.argument(), *arguments])


def peer_worker(case: Case, program: str = "peer.py", *arguments: str) -> Worker:
    """Starts a worker of the peer."""
    return Worker([peer_python(), os.path.join(_HERE, program), case.argument(), *arguments])
