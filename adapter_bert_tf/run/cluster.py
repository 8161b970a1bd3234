"""The machines of a run, as `TF_CONFIG` names them: waits until all are there."""

import json
import os
import socket
import time

from adapter_bert_tf.errors import UserError

# The jobs whose processes train.
_JOBS = ("chief", "worker")
_EXPECTED = (
    'TF_CONFIG: expected {"cluster": {"worker": ["HOST:PORT", ...]}, '
    '"task": {"type": "worker", "index": 0}}'
)
# Seconds: TensorFlow waits as long.
_PATIENCE = 3600


def wait_for_workers() -> None:
    """Waits until all other workers answer, and says for which.

    TensorFlow waits for them too, but deaf to all signals: one that is taken away while it starts
    would leave others that only SIGKILL ends.
    """
    mine, others = _read_addresses()
    end = time.monotonic() + _PATIENCE
    with _listen(mine[1]):  # For the others, until TensorFlow does.
        for host, port in others:
            is_said = False
            while not _answers(host, port):
                if not is_said:
                    print(f"workers  waiting for {host}:{port}", flush=True)
                    is_said = True
                if time.monotonic() > end:
                    raise UserError(f"TF_CONFIG: {host}:{port} has not answered for an hour")
                time.sleep(0.5)


def _read_addresses() -> tuple[tuple[str, int], list[tuple[str, int]]]:
    """Returns host and port of this worker, and those of the others."""
    try:
        config = json.loads(os.environ["TF_CONFIG"])
        job, index = config["task"]["type"], int(config["task"]["index"])
        found = {
            (name, number): _split(address)
            for name in _JOBS
            for number, address in enumerate(config["cluster"].get(name, ()))
        }
        mine = found.pop((job, index))
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
        raise UserError(_EXPECTED) from None
    return mine, list(found.values())


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host.isprintable() or not host.encode("idna") or not 0 < int(port) < 2**16:
        raise ValueError(address)
    return host.strip("[]"), int(port)


def _listen(port: int) -> socket.socket:
    dual = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if dual else socket.AF_INET
    try:
        return socket.create_server(("", port), family=family, dualstack_ipv6=dual)
    except OSError as error:
        raise UserError(f"TF_CONFIG: port {port} of this worker: {error.strerror}") from None


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=5).close()
    except OSError:
        return False
    return True
