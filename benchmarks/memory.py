"""What a process holds in memory, and files on disk."""

import ctypes
import os


def held() -> float:
    """The memory in use, in MB, without what malloc keeps for later and without libraries."""
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    with open("/proc/self/status", encoding="utf-8") as file:
        line = next(line for line in file if line.startswith("RssAnon"))
    return int(line.split()[1]) * 1024 / 1e6


def megabytes(folder: str) -> float:
    """The size of a folder's files."""
    return sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder)) / 1e6
