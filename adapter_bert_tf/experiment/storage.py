"""Where Optuna keeps trials: in a journal, or in a database."""

import contextlib
import fcntl
import json
import os
import time
import warnings
from collections.abc import Iterator
from typing import IO

import optuna
from optuna.storages import JournalStorage, RDBStorage, RetryHeartbeatStaleTrialCallback
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock

from adapter_bert_tf.errors import UserError, first_line
from adapter_bert_tf.experiment.about import without_password

JOURNAL = "journal.log"
# Seconds between two signs of life in a database, and after how many a worker counts as dead.
HEARTBEAT, _GRACE = 20, 60
# So often a trial is begun again whose worker died: one that needs too much memory kills each.
MOST_RETRIES = 4
_ATTEMPTS = 4


class LostStorageError(UserError):
    """The storage can't be reached, so that nothing more can be done."""


class TakenError(Exception):
    """Others have taken a trial from this worker, which gave no sign of life for too long."""


def open_storage(storage: str | None, journal: str) -> optuna.storages.BaseStorage:
    """Opens a database, or a journal if there is none.

    Args:
      storage: URL of the database.
      journal: Path of the journal.
    """
    if storage is None:
        with told(storage):
            return JournalStorage(JournalFileBackend(journal, _Lock(journal)))
    for _ in range(_ATTEMPTS - 1):
        # Of workers that start together, one makes the tables, and the others fail.
        with contextlib.suppress(LostStorageError):
            return _connect(storage)
        time.sleep(1)
    return _connect(storage)


class _Lock(JournalFileSymlinkLock):
    """A lock that is gone when its process is, which Optuna's own is not.

    Who takes it to write cuts off the half line that a full disk has left. Without that, the next
    line would be joined to it, and nothing could be read any more.
    """

    def __init__(self, journal: str):
        super().__init__(journal)
        self._journal = journal
        self._held: IO | None = None

    def acquire(self) -> bool:
        self._held = open(f"{self._journal}.held", "w")  # noqa: SIM115
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX)
            _cut_half_line(self._journal)
        except BaseException:
            self.release()
            raise
        return True

    def release(self) -> None:
        if self._held is not None:
            self._held.close()


def _cut_half_line(path: str) -> None:
    with open(path, "rb+") as file:
        size = file.seek(0, os.SEEK_END)
        if not size:
            return
        file.seek(size - 1)
        if file.read(1) != b"\n":
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)


def _connect(storage: str) -> RDBStorage:
    with told(storage), warnings.catch_warnings():
        # It calls heartbeats experimental, at each start.
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return RDBStorage(
            storage,
            heartbeat_interval=HEARTBEAT,
            grace_period=_GRACE,
            heartbeat_stale_trial_callback=RetryHeartbeatStaleTrialCallback(MOST_RETRIES),
        )


@contextlib.contextmanager
def told(storage: str | None) -> Iterator[None]:
    """Turns what a lost database or a full disk raises into one line."""
    name = without_password(f"--storage={storage}") if storage else JOURNAL
    try:
        yield
    except optuna.exceptions.UpdateFinishedTrialError:
        raise TakenError from None
    except (OSError, optuna.exceptions.StorageInternalError) as error:
        raise LostStorageError(f"{name}: {without_password(first_line(error))}") from None
    except json.JSONDecodeError as error:
        raise LostStorageError(f"{name}: damaged: {first_line(error)}") from None
    except ImportError as error:
        raise UserError(f"{name}: {first_line(error)}") from None
    except Exception as error:
        if type(error).__module__.startswith("sqlalchemy"):
            line = without_password(first_line(error))
            raise LostStorageError(f"{name}: {line}") from None
        raise
