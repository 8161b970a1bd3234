"""The processes of a run on several machines: what they tell each other, and how they stop."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from adapter_bert_tf.run.devices import worker_number

# What the others see when a worker is killed, or its machine.
LOST = (
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.UnavailableError,
)


def are_several() -> bool:
    """Whether this process is one of several workers, as `TF_CONFIG` says."""
    return bool(os.environ.get("TF_CONFIG"))


class Workers:
    """The workers of a strategy; all other strategies have one."""

    def __init__(self, strategy: tf.distribute.Strategy):
        self._strategy = strategy
        self._number, self._count = worker_number(strategy), 1
        if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
            jobs = strategy.cluster_resolver.cluster_spec().as_dict()
            self._count = sum(len(jobs.get(name, ())) for name in ("chief", "worker"))
        self._sum = tf.function(self._sum_of_all, autograph=False)

    @property
    def is_first(self) -> bool:
        """Whether this is the worker that evaluates and writes."""
        return self._number == 0

    def gather(self, *values: float) -> list[list[float]]:
        """Returns the numbers that each worker gives. They wait here for each other."""
        if self._count == 1:
            return [list(map(float, values))]
        rows = np.zeros([self._count, len(values) or 1])
        rows[self._number, : len(values)] = values
        return self._sum(rows).numpy().tolist()

    def share(self, rows: list[list[float]]) -> list[list[float]]:
        """Returns those of `gather`'s rows that are this worker's; there may be fewer by now."""
        return rows[self._number :: self._count]

    def local(self, variable: tf.Variable) -> tuple[tf.Variable, ...]:
        """Returns what this worker's devices have of a variable."""
        return self._strategy.experimental_local_results(variable)

    def _sum_of_all(self, mine: tf.Tensor) -> tf.Tensor:
        def add(mine: tf.Tensor) -> tf.Tensor:
            replica = tf.distribute.get_replica_context()
            # The copy is on the replica's device, which the sum needs to know.
            return replica.all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(mine))

        total = self._strategy.run(add, (mine,))
        (first, *_) = self._strategy.experimental_local_results(total)
        # Each device of a worker has added the worker's numbers.
        return first / (self._strategy.num_replicas_in_sync // self._count)


@contextlib.contextmanager
def on_signals(call: Callable[[], None]) -> Iterator[None]:
    """Calls `call` at SIGTERM and Ctrl-C, instead of ending the process."""
    # Python lets only the main thread handle signals.
    is_main = threading.current_thread() is threading.main_thread()
    kinds = (signal.SIGTERM, signal.SIGINT) if is_main else ()
    before = {kind: signal.signal(kind, lambda *_: call()) for kind in kinds}
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
