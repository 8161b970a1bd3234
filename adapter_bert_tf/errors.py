"""The exception for mistakes that a user can correct, and helpers to word its message."""

import contextlib
import errno
import os
from collections.abc import Collection, Iterator

from absl import logging

# Characters of a message. Names from files and flags may have any number of them.
_LONGEST = 900
# What is wrong with a disk and not with a path.
_OF_DISKS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)


class UserError(ValueError):
    """A wrong input or setting.

    The message is one line that names the file, line or flag and says what was expected. Programs
    print it and exit with code 1, without a stack trace.
    """

    def __init__(self, message: str):
        # It may quote names from files, with line ends or with what a terminal takes for commands.
        shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in message)
        super().__init__(shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…")


class DiskError(UserError):
    """A disk that is full, damaged or read-only: the next file would fare no better."""


def file_error(path: str | os.PathLike, error: Exception) -> UserError:
    """Turns an error of the operating system or of TensorFlow into one that names the file."""
    number = getattr(error, "errno", None)
    reason = os.strerror(number) if number else first_line(error)
    # TensorFlow's errors have the system's words, but not its number.
    is_of_disk = any(os.strerror(each) in reason for each in _OF_DISKS)
    return (DiskError if is_of_disk else UserError)(f"{os.fspath(path)}: {reason}")


def first_line(error: BaseException) -> str:
    """Returns the first line of an exception's message, or its class name if it has none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def some(names: Collection[str], shown: int = 5) -> str:
    """Joins names for a message. Of many names it shows the first few and counts the others."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(sorted(names)[:shown]) + more


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keeps the log lines of libraries off the terminal, which are not meant for users.

    TFDS warns about folders that are not there yet, the official scorers of SQuAD log every
    question without a prediction, and Keras says that saving takes longer than a step.
    """
    before = logging.get_verbosity()
    logging.set_verbosity(logging.FATAL)
    try:
        yield
    finally:
        logging.set_verbosity(before)
