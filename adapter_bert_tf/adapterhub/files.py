"""The files of an adapter: a folder, a zip file, or a repository in the Hub's cache."""

import contextlib
import dataclasses
import io
import os
import re
import stat
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import safetensors

from adapter_bert_tf.base.torch_file import read_torch_file
from adapter_bert_tf.errors import UserError, file_error, first_line
from adapter_bert_tf.files import (
    exists,
    is_folder,
    is_remote,
    local_copies,
    local_copy,
    read_json_object,
)

ADAPTER_CONFIG, HEAD_CONFIG = "adapter_config.json", "head_config.json"
ADAPTER_WEIGHTS = ("adapter.safetensors", "pytorch_adapter.bin")
HEAD_WEIGHTS = ("model_head.safetensors", "pytorch_model_head.bin")

_NAMES = (ADAPTER_CONFIG, HEAD_CONFIG, *ADAPTER_WEIGHTS, *HEAD_WEIGHTS)
_CONFIG_BYTES, _WEIGHT_BYTES = 1 << 20, 1 << 30
_HEADER_BYTES, _LIST_BYTES = 4 << 20, 1 << 20
_COMMIT = re.compile(r"[0-9a-f]{4,64}")
_LONGEST_NAME = 500
_BFLOAT16 = "BF16"
_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", _BFLOAT16: "<u2"}

# What `zipfile` raises for a broken file.
_UNZIPPABLE = (
    *(zipfile.BadZipFile, zlib.error, struct.error),
    *(EOFError, RuntimeError, LookupError, ValueError, OverflowError),
)

Tensors = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class HubFiles:
    """What the files of an adapter hold.

    Args:
      path: What the user named, for messages.
      config: The content of `adapter_config.json`.
      tensors: The adapter's tensors by their names in PyTorch.
      head_config: The content of `head_config.json`, if there is one.
      head_tensors: The head's tensors.
    """

    path: str
    config: dict[str, Any]
    tensors: Tensors
    head_config: dict[str, Any] | None
    head_tensors: Tensors


def read_files(path: str, with_head: bool) -> HubFiles:
    """Reads the files of an adapter.

    Args:
      path: A folder, a zip file, or a repository's folder in the Hub's cache.
      with_head: Whether to read the head, if there is one.
    """
    with _folder_of(path) as folder:
        config = _read_config(os.path.join(folder, ADAPTER_CONFIG))
        tensors = _read_weights(folder, ADAPTER_WEIGHTS)
        head = os.path.join(folder, HEAD_CONFIG)
        if not with_head or not os.path.lexists(head):
            return HubFiles(path, config, tensors, None, {})
        return HubFiles(
            path, config, tensors, _read_config(head), _read_weights(folder, HEAD_WEIGHTS)
        )


@contextlib.contextmanager
def _folder_of(path: str) -> Iterator[str]:
    if is_remote(path) and exists(path):
        copied = local_copies if is_folder(path) else local_copy
        with copied(path) as local, _told_as(path, local), _folder_of(local) as folder:
            yield folder
    elif os.path.isfile(path):
        with tempfile.TemporaryDirectory() as folder:
            _unzip(path, folder)
            with _told_as(path, folder):
                yield folder
    elif os.path.isdir(path):
        yield _snapshot(path) if os.path.isdir(os.path.join(path, "snapshots")) else path
    else:
        raise UserError(f"{path}: no such folder or zip file")


@contextlib.contextmanager
def _told_as(path: str, copy: str) -> Iterator[None]:
    """Names what was given in messages: its copy is gone when they are read."""
    try:
        yield
    except UserError as error:
        raise UserError(str(error).replace(copy, path)) from None


def _snapshot(path: str) -> str:
    """Returns the folder of the commit that a cached repository is at."""
    main = os.path.join(path, "refs", "main")
    _check_plain(main, 100)
    with open(main, encoding="utf-8", errors="replace") as file:
        commit = file.read().strip()
    if not _COMMIT.fullmatch(commit):
        raise UserError(f"{main}: expected a commit")
    return os.path.join(path, "snapshots", commit)


class _Zip(io.BufferedReader):
    """A zip file. `zipfile` reads its list of files at once, however long it is."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _LIST_BYTES:
            raise zipfile.BadZipFile("its list of files is too long")
        return super().read(size)


def _unzip(path: str, folder: str) -> None:
    """Unpacks the files of an adapter, and nothing else, whatever folder they are in."""
    try:
        with _Zip(io.FileIO(path)) as whole, zipfile.ZipFile(whole) as archive:
            for entry in archive.infolist():
                name = os.path.basename(entry.filename)
                if name not in _NAMES:
                    continue
                if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise UserError(f"{path}: {name} is compressed in an unusual way")
                most = _CONFIG_BYTES if name.endswith(".json") else _WEIGHT_BYTES
                # Weights hardly get smaller; so a small file can't become a huge one.
                most = min(most, 100 * os.path.getsize(path))
                if entry.file_size > most:
                    raise UserError(f"{path}: {name} would take {entry.file_size:,} bytes")
                target = os.path.join(folder, name)
                if os.path.exists(target):
                    raise UserError(f"{path}: holds {name} twice")
                with archive.open(entry) as source, open(target, "wb") as file:
                    while part := source.read(_LIST_BYTES):
                        file.write(part)
    except UserError:
        raise
    except OSError as error:
        raise file_error(path, error) from None
    except _UNZIPPABLE as error:
        raise UserError(f"{path}: not a readable zip file: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    """Returns the message of a library, which may show what is in the file."""
    text = first_line(error)[:200]
    return text if text.isprintable() else ascii(text)


def _check_plain(path: str, most: int) -> None:
    """Refuses what is not a file, such as a pipe that would never end, and what is too large."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise file_error(path, error) from None
    if not stat.S_ISREG(found.st_mode):
        raise UserError(f"{path}: not a file")
    if found.st_size > most:
        raise UserError(f"{path}: {found.st_size:,} bytes; expected {most:,} at most")


def _read_config(path: str) -> dict[str, Any]:
    _check_plain(path, _CONFIG_BYTES)
    return read_json_object(path)


def _read_weights(folder: str, names: tuple[str, str]) -> Tensors:
    file = next((name for name in names if os.path.lexists(os.path.join(folder, name))), None)
    if file is None:
        raise UserError(f"{folder}: expected {' or '.join(names)}")
    path = os.path.join(folder, file)
    _check_plain(path, _WEIGHT_BYTES)
    tensors = read_safetensors(path) if file == names[0] else read_torch_file(path)
    found: Tensors = {}
    for name, tensor in tensors.items():
        _check_name(path, name)
        if not np.issubdtype(tensor.dtype, np.floating):
            raise UserError(f"{path}: {name} has {tensor.dtype} numbers; expected floats")
        with np.errstate(over="ignore"):
            found[name] = np.asarray(tensor, np.float32)
        if not np.isfinite(found[name]).all():
            raise UserError(f"{path}: {name} has numbers that are not finite")
    return found


def _check_name(path: str, name: str) -> None:
    """Refuses what later messages can't name in a line."""
    if not name.isprintable() or len(name) > _LONGEST_NAME:
        raise UserError(f"{path}: {name[:_LONGEST_NAME]!a} is not a tensor's name")


def read_safetensors(path: str) -> Tensors:
    """Reads a safetensors file; bfloat16, which NumPy lacks, becomes float32."""
    try:
        with open(path, "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            if size > _HEADER_BYTES:
                raise UserError(
                    f"{path}: its list of tensors has {size:,} bytes, which is too long"
                )
            # Checks the list against the file's size, and reads no tensor.
            with safetensors.safe_open(path, framework="numpy"):
                file.seek(0)
            entries = safetensors.deserialize(file.read())
    except OSError as error:
        raise file_error(path, error) from None
    except safetensors.SafetensorError as error:
        raise UserError(f"{path}: not a readable safetensors file: {_reason(error)}") from None
    found: Tensors = {}
    for name, entry in entries:
        _check_name(path, name)
        kind, data = entry["dtype"], entry["data"]
        if kind not in _TYPES:
            raise UserError(f"{path}: {name} has {kind} numbers; expected floats")
        values = np.frombuffer(data, _TYPES[kind])
        if kind == _BFLOAT16:
            values = (values.astype(np.uint32) << 16).view(np.float32)
        try:
            found[name] = values.reshape(entry["shape"])
        except ValueError:  # NumPy's limits are lower.
            raise UserError(f"{path}: {name} has an odd shape") from None
    return found
