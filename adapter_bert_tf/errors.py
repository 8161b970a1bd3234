"""The one exception for what a user can mend, and how its messages are worded."""

from collections.abc import Collection


class UserError(Exception):
    """A wrong input, told in one line that names it and what was expected.

    Entry points print the message and exit with code 1, without a stack trace.
    """


def some(names: Collection[str], shown: int = 5) -> str:
    """Joins names for a message, the first few of them if they are many."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(sorted(names)[:shown]) + more
