"""Reads JSON with clear errors, and writes files and folders completely or not at all."""

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

from adapter_bert_tf.errors import UserError, file_error


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


def read_json(path: str) -> Any:
    """Reads a JSON file."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            return json.load(file)
    except OSError as error:
        raise file_error(path, error) from None
    except json.JSONDecodeError as error:
        raise UserError(
            f"{path}: not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 at byte {error.start}") from None
    except ValueError as error:  # Python refuses numbers with thousands of digits.
        raise UserError(f"{path}: not JSON: {error}") from None
    except RecursionError:
        raise UserError(f"{path}: not JSON: nested too deeply") from None


def read_json_object(path: str) -> dict[str, Any]:
    """Reads a JSON file that holds one object."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise UserError(f"{path}: expected a JSON object, not {type(value).__name__}")
    return value


def byte_size(size: float) -> str:
    """Returns a number of bytes for people, such as `9.7 MB`."""
    for unit in ("bytes", "KB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.3g} GB"
