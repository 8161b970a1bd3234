"""The one exception for what a user can mend, and how its messages are worded."""

import os
from collections.abc import Collection


class UserError(ValueError):
    """A wrong input or setting, told in one line that names it and what was expected.

    Entry points print the message and exit with code 1, without a stack trace.
    """


def file_error(path: str | os.PathLike, error: OSError) -> UserError:
    """Words what the system says of a file."""
    reason = os.strerror(error.errno) if error.errno else first_line(error)
    return UserError(f"{os.fspath(path)}: {reason}")


def first_line(error: BaseException) -> str:
    """The first line of an exception's message, or its name if it has none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def some(names: Collection[str], shown: int = 5) -> str:
    """Joins names for a message, the first few of them if they are many."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(sorted(names)[:shown]) + more
