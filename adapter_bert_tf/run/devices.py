"""Where a run computes."""

import concurrent.futures
import os

import tensorflow as tf
import tf_keras

from adapter_bert_tf.errors import UserError, first_line

_TPU_SECONDS = 15


def find_strategy(
    use_tpu: bool,
    tpu_name: str | None = None,
    tpu_zone: str | None = None,
    gcp_project: str | None = None,
    num_tpu_cores: int | None = None,
) -> tf.distribute.Strategy:
    """Returns the strategy for a TPU, for the workers of `TF_CONFIG`, all GPUs, or one device."""
    if use_tpu:
        strategy = _tpu_strategy(tpu_name, tpu_zone, gcp_project)
        cores = strategy.num_replicas_in_sync
        if num_tpu_cores not in (None, cores):
            raise UserError(f"--num_tpu_cores={num_tpu_cores}: the TPU has {cores}")
        return strategy
    if os.environ.get("TF_CONFIG"):
        return tf.distribute.MultiWorkerMirroredStrategy()
    if len(tf.config.list_physical_devices("GPU")) > 1:
        return tf.distribute.MirroredStrategy()
    return tf.distribute.get_strategy()


def is_tpu(strategy: tf.distribute.Strategy) -> bool:
    """Whether `strategy` computes on a TPU."""
    return isinstance(strategy, tf.distribute.TPUStrategy)


def worker_number(strategy: tf.distribute.Strategy) -> int:
    """This process among the workers of `TF_CONFIG`; 0 is the one that writes results."""
    resolver = strategy.cluster_resolver
    is_worker = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy) and resolver
    if not is_worker or resolver.task_type == "chief":
        return 0
    has_chief = "chief" in resolver.cluster_spec().jobs
    return resolver.task_id + (1 if has_chief else 0)


def describe_devices(strategy: tf.distribute.Strategy) -> str:
    """Names the devices in a few words."""
    kind = "TPU" if is_tpu(strategy) else "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
    return f"{strategy.num_replicas_in_sync} x {kind}"


def _tpu_strategy(
    name: str | None, zone: str | None, project: str | None
) -> tf.distribute.Strategy:
    def connect() -> tf.distribute.Strategy:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
            name or "local", zone=zone, project=project
        )
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return tf.distribute.TPUStrategy(resolver)

    # The resolver asks the network again and again where there is no TPU.
    pool = concurrent.futures.ThreadPoolExecutor(1)
    try:
        return pool.submit(connect).result(timeout=_TPU_SECONDS)
    except concurrent.futures.TimeoutError:
        reason = f"no answer in {_TPU_SECONDS} seconds"
    except Exception as error:  # Its client raises whatever its transport does.
        reason = first_line(error)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    raise UserError(f"--use_tpu: no TPU {name or 'on this machine'}: {reason}")


def seed_everything(seed: int, deterministic: bool) -> None:
    """Seeds what is random, and makes operations give the same bits each time if asked."""
    tf_keras.utils.set_random_seed(seed)
    if deterministic:
        tf.config.experimental.enable_op_determinism()


def set_precision(mixed_precision: str | None) -> None:
    """Makes layers compute in "bfloat16" or "float16" and keep their variables in float32."""
    if mixed_precision:
        tf_keras.mixed_precision.set_global_policy(f"mixed_{mixed_precision}")
