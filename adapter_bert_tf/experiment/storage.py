"""Where Optuna keeps trials: in a journal, or in a database."""

import contextlib
import time
import warnings
from collections.abc import Iterator

import optuna
from optuna.storages import JournalStorage, RDBStorage, RetryHeartbeatStaleTrialCallback
from optuna.storages.journal import JournalFileBackend

from adapter_bert_tf.errors import UserError, first_line

JOURNAL = "journal.log"
# Seconds between two signs of life in a database, and after how many a worker counts as dead.
HEARTBEAT, _GRACE = 20, 60
_ATTEMPTS = 4


class LostStorageError(UserError):
    """The storage can't be reached, so that nothing more can be done."""


def open_storage(storage: str | None, journal: str) -> optuna.storages.BaseStorage:
    """Opens a database, or a journal if there is none.

    Args:
      storage: URL of the database.
      journal: Path of the journal.
    """
    if storage is None:
        return JournalStorage(JournalFileBackend(journal))
    for _ in range(_ATTEMPTS - 1):
        # Of workers that start together, one makes the tables, and the others fail.
        with contextlib.suppress(LostStorageError):
            return _connect(storage)
        time.sleep(1)
    return _connect(storage)


def _connect(storage: str) -> RDBStorage:
    with told(storage), warnings.catch_warnings():
        # It calls heartbeats experimental, at each start.
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return RDBStorage(
            storage,
            heartbeat_interval=HEARTBEAT,
            grace_period=_GRACE,
            heartbeat_stale_trial_callback=RetryHeartbeatStaleTrialCallback(),
        )


@contextlib.contextmanager
def told(storage: str | None) -> Iterator[None]:
    """Turns what a lost database or a full disk raises into one line."""
    try:
        yield
    except (OSError, optuna.exceptions.StorageInternalError) as error:
        raise LostStorageError(f"{storage or JOURNAL}: {first_line(error)}") from None
    except ImportError as error:
        raise UserError(f"--storage={storage}: {first_line(error)}") from None
    except Exception as error:
        if type(error).__module__.startswith("sqlalchemy"):
            raise LostStorageError(f"--storage={storage}: {first_line(error)}") from None
        raise
