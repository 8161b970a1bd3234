"""Where a run computes. TensorFlow is imported when devices are needed, not for the flags."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import os
import sys
from typing import TYPE_CHECKING, Any

from adapter_bert_tf.checks import whole
from adapter_bert_tf.errors import UserError, first_line
from adapter_bert_tf.options import option

if TYPE_CHECKING:
    import tensorflow as tf

_TPU_SECONDS = 15


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

    def prepare(
        self, seed: int, strategy: tf.distribute.Strategy | None = None
    ) -> tf.distribute.Strategy:
        """Finds the devices, seeds what is random and sets the precision; returns the strategy.

        Args:
          seed: The seed.
          strategy: The strategy, if devices are not to be found.
        """
        import tensorflow as tf
        import tf_keras

        strategy = strategy or self._find()
        _silence_xla()
        tf_keras.utils.set_random_seed(seed)
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
            return tf.distribute.MultiWorkerMirroredStrategy()
        if len(tf.config.list_physical_devices("GPU")) > 1:
            return tf.distribute.MirroredStrategy()
        return tf.distribute.get_strategy()

    def _connect_tpu(self) -> tf.distribute.Strategy:
        import tensorflow as tf

        def connect() -> tf.distribute.Strategy:
            resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
                self.tpu_name or "local", zone=self.tpu_zone, project=self.gcp_project
            )
            tf.config.experimental_connect_to_cluster(resolver)
            tf.tpu.experimental.initialize_tpu_system(resolver)
            return tf.distribute.TPUStrategy(resolver)

        # Where there is no TPU, the resolver asks the network again and again.
        pool = concurrent.futures.ThreadPoolExecutor(1)
        try:
            return pool.submit(connect).result(timeout=_TPU_SECONDS)
        except concurrent.futures.TimeoutError:
            reason = f"no answer in {_TPU_SECONDS} seconds"
        except Exception as error:  # Its client raises whatever its transport does.
            reason = first_line(error)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
        if self.tpu_name is None:
            raise UserError("--use_tpu: no TPU on this machine; name another one with --tpu_name")
        raise UserError(f"--use_tpu: no TPU {self.tpu_name}: {reason}")


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
