"""Where a run computes. TensorFlow is imported when devices are needed, not for the flags."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import socket
import sys
import urllib.parse
from typing import TYPE_CHECKING, Any

from adapter_bert_tf.checks import whole
from adapter_bert_tf.errors import UserError, first_line
from adapter_bert_tf.options import option
from adapter_bert_tf.run.cluster import wait_for_workers

if TYPE_CHECKING:
    import tensorflow as tf

# Of a TPU's server: where it listens, and how long a connection may take.
_TPU_PORT, _SECONDS = 8470, 15


@dataclasses.dataclass(frozen=True)
class Devices:
    """Where a run computes, and how precisely."""

    use_tpu: bool = option(False, "Compute on a TPU.", group="Devices")
    tpu_name: str | None = option(None, "Name or address of the TPU.", group="Devices")
    tpu_zone: str | None = option(None, "Its zone.", group="Devices")
    gcp_project: str | None = option(None, "Its project.", group="Devices")
    num_tpu_cores: int | None = option(
        None, "Cores that the TPU has to have.", group="Devices", limits=whole(1, 2**20)
    )
    mixed_precision: str | None = option(
        None, "Compute in half precision.", group="Devices", choices=("bfloat16", "float16")
    )
    deterministic: bool = option(
        False, "Compute the same bits every time, at some cost in speed.", group="Devices"
    )

    def identity(self) -> dict[str, Any]:
        """Returns what changes the numbers that a run computes."""
        return {"mixed_precision": self.mixed_precision, "deterministic": self.deterministic}

    def before_tensorflow(self) -> None:
        """Sets what TensorFlow reads when it is loaded.

        Some virtual machines show AMX but don't have it: bfloat16 products end the process there.
        """
        if self.mixed_precision == "bfloat16":
            with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
                if "amx_bf16" in file.read():
                    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

    def prepare(self, strategy: tf.distribute.Strategy | None = None) -> tf.distribute.Strategy:
        """Finds the devices and sets the precision; returns the strategy.

        Args:
          strategy: The strategy, if devices are not to be found.
        """
        import tensorflow as tf
        import tf_keras

        strategy = strategy or self._find()
        _silence_xla()
        if self.deterministic:
            tf.config.experimental.enable_op_determinism()
        precision = f"mixed_{self.mixed_precision}" if self.mixed_precision else "float32"
        tf_keras.mixed_precision.set_global_policy(precision)
        return strategy

    def _find(self) -> tf.distribute.Strategy:
        """Returns the strategy for a TPU, the workers of `TF_CONFIG`, all GPUs, or one device."""
        import tensorflow as tf

        if self.use_tpu:
            strategy = self._connect_tpu()
            cores = strategy.num_replicas_in_sync
            if self.num_tpu_cores not in (None, cores):
                raise UserError(f"--num_tpu_cores={self.num_tpu_cores}: the TPU has {cores}")
            return strategy
        if os.environ.get("TF_CONFIG"):
            wait_for_workers()
            return tf.distribute.MultiWorkerMirroredStrategy()
        if len(tf.config.list_physical_devices("GPU")) > 1:
            return tf.distribute.MirroredStrategy()
        return tf.distribute.get_strategy()

    def _connect_tpu(self) -> tf.distribute.Strategy:
        """Connects to the TPU, and says what it waits for: a TPU that is there may take minutes."""
        import tensorflow as tf

        name = self.tpu_name or "local"
        try:
            _say(f"looking for {name}")
            resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
                name, zone=self.tpu_zone, project=self.gcp_project
            )
            address = resolver.master()
            _check_answers(address)
            _say(f"connecting to {address or 'this machine'}; it may take minutes")
            tf.config.experimental_connect_to_cluster(resolver)
            _say("initialising; it may take minutes")
            tf.tpu.experimental.initialize_tpu_system(resolver)
            return tf.distribute.TPUStrategy(resolver)
        except Exception as error:  # Its client raises whatever its transport does.
            if self.tpu_name is None:
                raise UserError(
                    "--use_tpu: no TPU on this machine; name another one with --tpu_name"
                ) from None
            raise UserError(f"--use_tpu: no TPU {self.tpu_name}: {first_line(error)}") from None


def _say(what: str) -> None:
    print(f"TPU      {what}", flush=True)


def _check_answers(address: str) -> None:
    """Raises an error if nobody answers there; TensorFlow would ask again and again."""
    found = urllib.parse.urlsplit(address)
    if found.hostname:
        port = found.port or _TPU_PORT
        socket.create_connection((found.hostname, port), timeout=_SECONDS).close()


def is_tpu(strategy: tf.distribute.Strategy) -> bool:
    """Whether `strategy` computes on a TPU."""
    import tensorflow as tf

    return isinstance(strategy, tf.distribute.TPUStrategy)


def worker_number(strategy: tf.distribute.Strategy) -> int:
    """Returns the number of this process among the workers; the one with 0 writes the results."""
    import tensorflow as tf

    resolver = strategy.cluster_resolver
    is_worker = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy) and resolver
    if not is_worker or resolver.task_type == "chief":
        return 0
    has_chief = "chief" in resolver.cluster_spec().jobs
    return resolver.task_id + (1 if has_chief else 0)


def describe_devices(strategy: tf.distribute.Strategy) -> str:
    """Names the devices in a few words."""
    import tensorflow as tf

    kind = "TPU" if is_tpu(strategy) else "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
    return f"{strategy.num_replicas_in_sync} x {kind}"


def _silence_xla() -> None:
    """Compiles something tiny while standard error is closed.

    At its first compilation XLA prints two lines that no log level silences.
    """
    import tensorflow as tf

    sys.stderr.flush()
    before, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        tf.function(tf.identity, jit_compile=True)(tf.zeros([]))
    except tf.errors.OpError:
        pass  # There is no XLA for this device, and nothing will be compiled.
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(nowhere)
