"""Reads and writes files, here or in a remote folder, completely or not at all.

A path such as `gs://bucket/run` goes through `tf.io.gfile`, and TensorFlow is loaded for it. What
is on this machine never needs TensorFlow.
"""

import contextlib
import errno
import fcntl
import hashlib
import io
import json
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

from adapter_bert_tf.errors import UserError, file_error, first_line

_SCHEME = re.compile(r"(?!https?:)[a-z][a-z0-9+.-]*://", re.IGNORECASE)
# What is being written has such a name, until it is whole.
_PART = re.compile(r"\.(?P<name>.+)\.[a-z0-9_]{8}\.part")
# In a remote folder that is being written, until it is whole.
_UPLOADING = ".uploading"
_CHUNK = 1 << 20

# The largest files that are read as a whole: descriptions such as pack.json, and data. JSON takes
# up to 25 times its size in memory.
MOST_OF_DESCRIPTION, MOST_OF_DATA = 2**25, 2**30


def is_remote(path: str | os.PathLike) -> bool:
    """Whether a path is not one of this machine's, but of a file system such as `gs://`."""
    return bool(_SCHEME.match(os.fspath(path)))


def exists(path: str | os.PathLike) -> bool:
    """Whether there is a file or folder."""
    return _ask("exists", path) if is_remote(path) else os.path.exists(path)


def is_folder(path: str | os.PathLike) -> bool:
    """Whether there is a folder."""
    # Of a file system that it does not know, TensorFlow says that nothing is a folder.
    return exists(path) and _ask("isdir", path) if is_remote(path) else os.path.isdir(path)


def list_folder(path: str | os.PathLike) -> list[str]:
    """Returns the names in a folder, sorted; none if there is no such folder."""
    if not is_folder(path):
        return []
    try:
        names = _gfile("listdir", os.fspath(path)) if is_remote(path) else os.listdir(path)
    except OSError as error:
        raise file_error(path, error) from None
    # Object stores end the names of folders with a slash.
    return sorted(name.rstrip("/") for name in names)


def file_size(path: str | os.PathLike) -> int:
    """Returns the size of a file in bytes."""
    if is_remote(path):
        return _gfile("stat", os.fspath(path)).length
    return os.path.getsize(path)


def all_files(folder: str | os.PathLike) -> Iterator[str]:
    """Yields the path of each file in a folder, and in those below it."""
    for path in (os.path.join(folder, name) for name in list_folder(folder)):
        if is_folder(path):
            yield from all_files(path)
        else:
            yield path


def file_sizes(folder: str | os.PathLike) -> Iterator[int]:
    """Yields the size of each file in a folder, and in those below it."""
    return map(file_size, all_files(folder))


def absolute(path: str | os.PathLike) -> str:
    """Returns a path that doesn't depend on the current folder and has no slash at its end."""
    return os.fspath(path).rstrip("/") if is_remote(path) else os.path.abspath(path)


def make_folders(path: str | os.PathLike) -> None:
    """Makes a folder and those above it, if they are not there yet."""
    if is_remote(path):
        _gfile("makedirs", os.fspath(path))
    else:
        os.makedirs(path, exist_ok=True)


def remove(path: str | os.PathLike) -> None:
    """Removes a file, or a folder with all that is in it."""
    if is_remote(path):
        _gfile("rmtree" if is_folder(path) else "remove", os.fspath(path))
    elif os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)


def open_bytes(path: str | os.PathLike) -> io.BufferedReader:
    """Opens a file to read its bytes."""
    if is_remote(path):
        return io.BufferedReader(_RemoteFile(os.fspath(path)), _CHUNK)
    return open(path, "rb")


@contextlib.contextmanager
def local_copy(path: str | os.PathLike) -> Iterator[str]:
    """Yields the path of a local file with the same content, for libraries that know no others."""
    if not is_remote(path):
        yield os.fspath(path)
        return
    with tempfile.TemporaryDirectory() as folder:
        local = os.path.join(folder, os.path.basename(path))
        with open_bytes(path) as source, open(local, "wb") as file:
            shutil.copyfileobj(source, file, _CHUNK)
        yield local


@contextlib.contextmanager
def local_copies(folder: str, most: int = MOST_OF_DATA) -> Iterator[str]:
    """Yields a local folder with the same files, for libraries that know no others."""
    if not is_remote(folder):
        yield folder
        return
    paths = list(all_files(folder))
    size = sum(map(file_size, paths))
    if size > most:
        raise UserError(f"{folder}: has {size:,} bytes; expected {most:,} at most")
    with tempfile.TemporaryDirectory() as local:
        for path in paths:
            target = os.path.join(local, os.path.relpath(path, folder))
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open_bytes(path) as source, open(target, "wb") as file:
                shutil.copyfileobj(source, file, _CHUNK)
        yield local


class _RemoteFile(io.RawIOBase):
    """A remote file as one of Python's; `GFile` has too few of its methods."""

    def __init__(self, path: str):
        super().__init__()
        self._file = _gfile("GFile", path, "rb")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer, /) -> int:
        content = _translated(self._file.read, len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        _translated(self._file.seek, offset, whence)
        return self.tell()

    def tell(self) -> int:
        return _translated(self._file.tell)

    def close(self) -> None:
        self._file.close()
        super().close()


def refuse_special(path: str) -> None:
    """Refuses what is there but no file: a FIFO would block, and a device may have no end."""
    if "\0" in os.fspath(path):
        raise UserError(f"{path!r}: no path has a null character")
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return  # Whoever opens it says why that fails. Remote folders have nothing special.
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise UserError(f"{path}: expected a file, not a pipe, socket or device")


def refuse_existing(path: str, flag: str) -> None:
    """Refuses to write a file over another one."""
    if exists(path):
        raise UserError(f"{flag}={path}: exists, and is not overwritten")


def file_digest(path: str) -> str:
    """Returns the SHA-256 of a file."""
    refuse_special(path)
    try:
        with open_bytes(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise file_error(path, error) from None


def read_bytes(path: str, most: int = MOST_OF_DATA) -> bytes:
    """Reads a file as a whole, if it has no more than `most` bytes."""
    refuse_special(path)
    try:
        size = file_size(path)
        if size > most:
            raise UserError(f"{path}: has {size:,} bytes; expected {most:,} at most")
        with open_bytes(path) as file:
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


def write_atomically(path: str, content: bytes) -> None:
    """Writes a file under a temporary name, then renames it."""
    with new_file(path) as beside, open(beside, "wb") as file:
        file.write(content)


@contextlib.contextmanager
def new_file(path: str) -> Iterator[str]:
    """Yields a local path to write to, which becomes the file `path` if no error occurs."""
    if is_remote(path):
        with tempfile.TemporaryDirectory() as folder:
            local = os.path.join(folder, os.path.basename(path))
            yield local
            _upload(local, path)
        return
    folder, name = os.path.split(path)
    remove_leftovers(folder or ".", name)
    handle, beside = _make_part(folder or ".", name)
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
def new_folder(path: str, last: str) -> Iterator[str]:
    """Yields a local folder to write to, which becomes the folder `path` if no error occurs.

    Args:
      path: The folder; it must not hold anything yet.
      last: The file by which the folder is known to be whole. Where folders can't be renamed at
        once, as in object stores, it is written after all others.
    """
    remove_half_written(path)
    if exists(path) and (not is_folder(path) or list_folder(path)):
        raise UserError(f"{path}: exists already, and is not overwritten")
    if is_remote(path):
        with tempfile.TemporaryDirectory() as local:
            yield local
            try:
                _upload_folder(local, path, last)
            except OSError as error:
                raise file_error(path, error) from None
        return
    parent, name = os.path.split(os.path.abspath(path))
    try:
        os.makedirs(parent, exist_ok=True)
        remove_leftovers(parent, name)
        handle, beside = _make_part(parent, name, is_folder=True)
    except OSError as error:
        raise file_error(path, error) from None
    try:
        yield beside
        os.chmod(beside, 0o777 & ~_umask())
        try:
            os.rename(beside, path)
        except OSError as error:  # Another process may have been faster.
            raise file_error(path, error) from None
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    finally:
        os.close(handle)


def remove_half_written(path: str) -> None:
    """Removes a remote folder that a process which was killed had begun to write."""
    if is_remote(path) and exists(os.path.join(path, _UPLOADING)):
        try:
            remove(path)
        except OSError as error:
            raise file_error(path, error) from None


def remove_leftovers(folder: str, name: str | None = None) -> None:
    """Removes what processes that were killed had begun to write.

    Args:
      folder: Where to look. In a remote one nothing says whether a writer lives, so it has to be
        the caller's own.
      name: What they wrote; by default anything.
    """
    matches = filter(None, map(_PART.fullmatch, list_folder(folder)))
    for path in (os.path.join(folder, m[0]) for m in matches if name in (None, m["name"])):
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            if not is_remote(path):
                stack.callback(os.close, lock(path))
            remove(path)


def lock(path: str) -> int:
    """Locks a file or folder, until the handle that is returned is closed or the process ends.

    Raises `BlockingIOError` if another one has it, and another `OSError` where the file system
    has no locks.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise
    return handle


def _make_part(folder: str, name: str, is_folder: bool = False) -> tuple[int, str]:
    """Makes what is written first, locked: what is not locked was left by a killed process."""
    while True:
        beside = tempfile.mktemp(".part", f".{name}.", folder)
        if is_folder:
            os.mkdir(beside, 0o700)
        else:
            os.close(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        try:
            handle = lock(beside)
        except (BlockingIOError, FileNotFoundError):
            continue  # Another process has just taken it for a leftover.
        except OSError:
            return os.open(beside, os.O_RDONLY), beside
        if os.path.exists(beside):
            return handle, beside
        os.close(handle)


def _upload(local: str, path: str) -> None:
    """Copies a file to a remote one, which appears whole: stores rename single files at once."""
    folder, name = os.path.split(path)
    beside = f"{folder}/.{name}.{secrets.token_hex(4)}.part"
    try:
        _gfile("copy", local, beside)
        _gfile("rename", beside, path, overwrite=True)
    except BaseException:
        with contextlib.suppress(OSError):
            _gfile("remove", beside)
        raise


def _upload_folder(local: str, path: str, last: str) -> None:
    found = [
        os.path.relpath(os.path.join(parent, name), local)
        for parent, _, names in os.walk(local)
        for name in names
    ]
    mark = os.path.join(path, _UPLOADING)
    make_folders(path)
    with _gfile("GFile", mark, "w") as file:
        _translated(file.write, "not whole yet")
    for name in sorted(found, key=lambda each: (each == last, each)):
        target = os.path.join(path, name)
        make_folders(os.path.dirname(target))
        _upload(os.path.join(local, name), target)
    remove(mark)


def _ask(name: str, path: str | os.PathLike) -> bool:
    """Asks what is there; that nobody can say is the user's error."""
    try:
        return _gfile(name, os.fspath(path))
    except OSError as error:
        raise file_error(path, error) from None


def _gfile(name: str, *arguments: Any, **options: Any) -> Any:
    """Calls a function of `tf.io.gfile`."""
    import tensorflow as tf

    return _translated(getattr(tf.io.gfile, name), *arguments, **options)


def _translated(call: Callable, *arguments: Any, **options: Any) -> Any:
    """Calls a function of TensorFlow, whose errors become those of the operating system."""
    import tensorflow as tf

    try:
        return call(*arguments, **options)
    except tf.errors.NotFoundError:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)) from None
    except (tf.errors.PermissionDeniedError, tf.errors.UnauthenticatedError):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES)) from None
    except tf.errors.OpError as error:
        raise OSError(first_line(error)) from None


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def byte_size(size: float) -> str:
    """Returns a number of bytes for people, such as `9.7 MB`."""
    for unit in ("bytes", "KB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.3g} GB"
