import socket
import threading

import pytest
import tensorflow as tf
import tf_keras

from adapter_bert_tf import UserError
from adapter_bert_tf.run.devices import Devices, describe_devices, is_tpu, worker_number


def test_one_device_is_the_default():
    strategy = Devices().prepare()
    assert strategy.num_replicas_in_sync == 1
    assert not is_tpu(strategy)
    assert worker_number(strategy) == 0
    assert describe_devices(strategy).startswith("1 x ")


def test_a_strategy_that_is_given_is_taken(two_devices):
    assert Devices().prepare(two_devices) is two_devices


def test_precision_is_set_and_belongs_to_the_run():
    try:
        Devices(mixed_precision="bfloat16").prepare()
        assert tf_keras.mixed_precision.global_policy().name == "mixed_bfloat16"
    finally:
        tf_keras.mixed_precision.set_global_policy("float32")
    assert Devices(mixed_precision="bfloat16").identity() != Devices().identity()
    assert Devices(tpu_name="other").identity() == Devices().identity()


def test_a_tpu_that_is_not_there_is_told(monkeypatch):
    def resolve(*_args, **_kwargs):
        raise ValueError("Could not find a TPU.\nMore lines.")

    monkeypatch.setattr(tf.distribute.cluster_resolver, "TPUClusterResolver", resolve)
    with pytest.raises(UserError, match="--use_tpu: no TPU mine: Could not find a TPU.$"):
        Devices(use_tpu=True, tpu_name="mine").prepare()


def test_a_tpu_that_does_not_answer_is_told_at_once_and_leaves_no_thread(capsys):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    threads = threading.enumerate()
    with pytest.raises(UserError, match=f"no TPU grpc://127.0.0.1:{port}: .*refused"):
        Devices(use_tpu=True, tpu_name=f"grpc://127.0.0.1:{port}").prepare()
    assert threading.enumerate() == threads
    assert "TPU      looking for grpc://" in capsys.readouterr().out


def test_a_slow_tpu_says_what_it_waits_for(monkeypatch, capsys):
    said = []

    def wait(_resolver):
        said.append(capsys.readouterr().out.splitlines()[-1])

    monkeypatch.setattr(tf.config, "experimental_connect_to_cluster", wait)
    monkeypatch.setattr(tf.tpu.experimental, "initialize_tpu_system", wait)
    monkeypatch.setattr(tf.distribute, "TPUStrategy", lambda _: tf.distribute.get_strategy())
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"grpc://127.0.0.1:{server.getsockname()[1]}"
        Devices(use_tpu=True, tpu_name=address).prepare()
    assert said == [
        f"TPU      connecting to {address}; it may take minutes",
        "TPU      initialising; it may take minutes",
    ]
