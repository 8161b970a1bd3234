import json
import socket
import threading

import pytest

from adapter_bert_tf.errors import UserError
from adapter_bert_tf.run import cluster
from tests.kills import free_addresses


def _set(monkeypatch, addresses: list[str], index: int) -> None:
    task = {"type": "worker", "index": index}
    config = {"cluster": {"worker": addresses}, "task": task}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))


def test_waits_until_the_others_answer_and_says_for_whom(monkeypatch, capsys):
    mine, there, missing = free_addresses(3)
    _set(monkeypatch, [there, mine, missing], 1)
    with socket.create_server(("127.0.0.1", int(there.split(":")[1]))):
        waits = threading.Thread(target=cluster.wait_for_workers)
        waits.start()
        waits.join(1)
        assert waits.is_alive()
        # The others find this one meanwhile.
        socket.create_connection(("127.0.0.1", int(mine.split(":")[1]))).close()
        with socket.create_server(("127.0.0.1", int(missing.split(":")[1]))):
            waits.join(10)
    assert not waits.is_alive()
    assert capsys.readouterr().out == f"workers  waiting for {missing}\n"


def test_patience_ends(monkeypatch):
    mine, missing = free_addresses(2)
    _set(monkeypatch, [mine, missing], 0)
    monkeypatch.setattr(cluster, "_PATIENCE", 0)
    with pytest.raises(UserError, match=f"^TF_CONFIG: {missing} has not answered for an hour$"):
        cluster.wait_for_workers()


def test_a_port_that_is_taken_is_told(monkeypatch):
    (mine,) = free_addresses(1)
    _set(monkeypatch, [mine], 0)
    with (
        socket.create_server(("127.0.0.1", int(mine.split(":")[1]))),
        pytest.raises(UserError, match="^TF_CONFIG: port .* of this worker: Address already"),
    ):
        cluster.wait_for_workers()


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "[]",
        "{}",
        '{"cluster": {"worker": ["a:1"]}}',
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}}',
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "ps", "index": 0}}',
        '{"cluster": {"worker": ["a"]}, "task": {"type": "worker", "index": 0}}',
        '{"cluster": {"worker": ["a:x"]}, "task": {"type": "worker", "index": 0}}',
        '{"cluster": {"worker": ["a:70000"]}, "task": {"type": "worker", "index": 0}}',
        '{"cluster": {"worker": 7}, "task": {"type": "worker", "index": 0}}',
        '{"cluster": 7, "task": {"type": "worker", "index": 0}}',
        "[" * 100_000,
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1e400}}',
        '{"cluster": {"worker": ["a..b:1"]}, "task": {"type": "worker", "index": 0}}',
        '{"cluster": {"worker": ["%s:1"]}, "task": {"type": "worker", "index": 0}}' % ("x" * 100),
        '{"cluster": {"worker": ["a\\u0000b:1"]}, "task": {"type": "worker", "index": 0}}',
    ],
)
def test_what_is_no_configuration_is_told(text, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(UserError, match="^TF_CONFIG: expected "):
        cluster.wait_for_workers()
