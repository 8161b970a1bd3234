"""Reads JSON with clear errors, and writes files and folders completely or not at all."""

import contextlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from typing import Any

from adapter_bert_tf.errors import UserError, file_error

# The largest files that are read as a whole: descriptions such as pack.json, and data. JSON takes
# up to 25 times its size in memory.
MOST_OF_DESCRIPTION, MOST_OF_DATA = 2**25, 2**30


def write_atomically(path: str, content: bytes) -> None:
    """Writes a file under a temporary name, then renames it."""
    with new_file(path) as beside, open(beside, "wb") as file:
        file.write(content)


@contextlib.contextmanager
def new_file(path: str) -> Iterator[str]:
    """Yields a temporary path to write to, which is renamed to `path` if no error occurs."""
    folder = os.path.dirname(path) or "."
    handle, beside = tempfile.mkstemp(dir=folder, prefix=f".{os.path.basename(path)}.")
    try:
        yield beside
        # We sync our own handle, as the writer may have closed or replaced its own.
        os.fsync(handle)
        os.chmod(beside, 0o666 & ~_umask())
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise
    finally:
        os.close(handle)


@contextlib.contextmanager
def new_folder(path: str) -> Iterator[str]:
    """Yields a temporary folder to write to, which is renamed to `path` if no error occurs."""
    if os.path.exists(path) and (not os.path.isdir(path) or os.listdir(path)):
        raise UserError(f"{path}: exists already, and is not overwritten")
    parent = os.path.dirname(os.path.abspath(path))
    try:
        os.makedirs(parent, exist_ok=True)
        beside = tempfile.mkdtemp(dir=parent, prefix=f".{os.path.basename(path)}.")
    except OSError as error:
        raise file_error(path, error) from None
    try:
        yield beside
        os.chmod(beside, 0o777 & ~_umask())
        os.rename(beside, path)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def refuse_special(path: str) -> None:
    """Refuses what is there but no file: a FIFO would block, and a device may have no end."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return  # Whoever opens it says why that fails. Remote folders have nothing special.
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise UserError(f"{path}: expected a file, not a pipe, socket or device")


def read_bytes(path: str, most: int = MOST_OF_DATA) -> bytes:
    """Reads a file as a whole, if it has no more than `most` bytes."""
    refuse_special(path)
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > most:
                raise UserError(f"{path}: has {size:,} bytes; expected {most:,} at most")
            return file.read()
    except OSError as error:
        raise file_error(path, error) from None


def read_text(path: str, most: int = MOST_OF_DATA) -> str:
    """Reads a file of UTF-8, with or without a mark in front."""
    try:
        return read_bytes(path, most).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 at byte {error.start}") from None


def read_json(path: str, most: int = MOST_OF_DATA) -> Any:
    """Reads a JSON file."""
    text = read_text(path, most)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(
            f"{path}: not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from None
    except ValueError as error:  # Python refuses numbers with thousands of digits.
        raise UserError(f"{path}: not JSON: {error}") from None
    except RecursionError:
        raise UserError(f"{path}: not JSON: nested too deeply") from None


def read_json_object(path: str) -> dict[str, Any]:
    """Reads a JSON file that holds one object, a description."""
    value = read_json(path, MOST_OF_DESCRIPTION)
    if not isinstance(value, dict):
        raise UserError(f"{path}: expected a JSON object, not {type(value).__name__}")
    return value
