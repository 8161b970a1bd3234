"""Reads the tensors of PyTorch's `.bin` and `.pt` files, without PyTorch and without running code.

Such a file is a pickle, which may call any function, and the tensors' bytes beside it. We never
hand the pickle to Python's unpickler. `_unpickle` knows the few operations that dicts of tensors
need, calls only functions of this file, and refuses the rest. No operation takes longer the more
the pickle holds already, so that none can be repeated to keep us busy.
"""

import dataclasses
import io
import math
import os
import pickletools
import re
import struct
import types
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

from adapter_bert_tf.errors import UserError, file_error, first_line
from adapter_bert_tf.files import refuse_special

# What a file of 10,000 tensors needs, and little enough for a hostile file to be refused soon. The
# second limit is because one byte of a pickle can make an object of a hundred.
_MOST_INDEX_BYTES = 4 << 20
_MOST_OPERATIONS = 500_000
# Tensors may share bytes, so that together they are larger than the file.
_MOST_SHARING = 4
_MOST_DIMENSIONS = 32

_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
_LEGACY_PROTOCOL = 1001

# What `zipfile`, `pickletools` and NumPy raise for a broken file.
_UNREADABLE = (
    zipfile.BadZipFile,
    ValueError,
    LookupError,
    OverflowError,
    EOFError,
    OSError,  # It seeks a place before the file.
    RuntimeError,
    struct.error,
)


class _RefusedError(Exception):
    """Says what is wrong with the file, in words that follow its path."""


@dataclasses.dataclass(frozen=True)
class _Kind:
    """How a storage holds its elements, and the dtype that they are read as."""

    stored: np.dtype
    result: np.dtype


@dataclasses.dataclass(frozen=True)
class _Storage:
    """Elements in the file that one or more tensors show."""

    key: str
    kind: _Kind
    elements: int

    @property
    def bytes(self) -> int:
        return self.elements * self.kind.stored.itemsize


@dataclasses.dataclass(frozen=True)
class _Tensor:
    """A view of a storage. The offset and the strides count elements."""

    storage: _Storage
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]

    @property
    def elements(self) -> int:
        return math.prod(self.size)


class _File(io.BufferedReader):
    """A file that reads at most `limit` bytes at once.

    This is for `zipfile`, which reads the list of entries at once however long it is, and keeps
    hundreds of bytes for each entry.
    """

    def __init__(self, path: str):
        super().__init__(io.FileIO(path))
        self.bytes = os.fstat(self.fileno()).st_size
        self.limit = _MOST_INDEX_BYTES

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > self.limit:
            raise _RefusedError(f"its list of tensors is longer than {self.limit} bytes")
        return super().read(size)


_Read = Callable[[_Storage], bytes]


def read_torch_file(path: str) -> dict[str, np.ndarray]:
    """Reads the dict of tensors that `torch.save` wrote, such as a `state_dict`.

    bfloat16 becomes float32. Raises `UserError` for anything but tensors.
    """
    refuse_special(path)
    try:
        file = _File(path)
    except OSError as error:
        raise file_error(path, error) from None
    try:
        with file:
            is_zip = file.peek(4).startswith(b"PK\3\4")
            return _read_zip(file) if is_zip else _read_legacy(file)
    except _RefusedError as error:
        raise UserError(f"{path}: {error}") from None
    except _UNREADABLE as error:
        reason = _shown(first_line(error))
        raise UserError(f"{path}: not a readable PyTorch file: {reason}") from None


def _shown(text: str) -> str:
    """Returns a text of the file for a message: in one line, and not too long."""
    text = text if len(text) <= 200 else f"{text[:200]}..."
    return text if text.isprintable() else ascii(text)


def _read_zip(file: _File) -> dict[str, np.ndarray]:
    """Reads the format of PyTorch 1.6 and later."""
    archive = zipfile.ZipFile(file)
    entries = {entry.filename: entry for entry in archive.infolist()}
    pickles = [name for name in entries if re.fullmatch(r"[^/]+/data\.pkl", name)]
    if len(pickles) != 1:
        raise _RefusedError("not a PyTorch file: expected one data.pkl in a zip file")
    root = pickles[0].removesuffix("data.pkl")

    def read(name: str, size: int | None = None) -> bytes:
        if root + name not in entries:
            raise _RefusedError(f"holds no {_shown(name)}")
        entry = entries[root + name]
        if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
            raise _RefusedError(f"{_shown(name)} is compressed; torch.save doesn't compress")
        if entry.file_size > file.limit:
            raise _RefusedError(f"{_shown(name)} has {entry.file_size} bytes, which is too long")
        if size is not None and entry.file_size != size:
            raise _RefusedError(f"{_shown(name)} has {entry.file_size} bytes, not {size}")
        return archive.read(entry)

    tensors = _tensors(_unpickle(io.BytesIO(read("data.pkl"))))
    order = read("byteorder") if f"{root}byteorder" in entries else b"little"
    if order not in (b"little", b"big"):
        raise _RefusedError("byteorder must be little or big")
    file.limit = file.bytes
    return _arrays(
        tensors,
        lambda storage: read(f"data/{storage.key}", storage.bytes),
        file.bytes,
        big_endian=order == b"big",
    )


def _read_legacy(file: _File) -> dict[str, np.ndarray]:
    """Reads the format before PyTorch 1.6: five pickles, and then the storages one by one."""
    index = io.BytesIO(file.read(_MOST_INDEX_BYTES))
    if _unpickle(index) != _LEGACY_MAGIC or _unpickle(index) != _LEGACY_PROTOCOL:
        raise _RefusedError("not a PyTorch file")
    system = _unpickle(index)
    if not isinstance(system, dict) or system.get("little_endian") is not True:
        raise _RefusedError("saved on a big-endian machine; save it again with a newer PyTorch")
    tensors = _tensors(_unpickle(index))
    keys = _unpickle(index)
    file.limit = file.bytes
    places = _legacy_places(file, index.tell(), keys, tensors)

    def read(storage: _Storage) -> bytes:
        file.seek(places[storage.key])
        return file.read(storage.bytes)

    return _arrays(tensors, read, file.bytes, big_endian=False)


def _legacy_places(
    file: _File, place: int, keys: Any, tensors: dict[str, _Tensor]
) -> dict[str, int]:
    """Returns where each storage begins. Each follows its number of elements."""
    storages = {tensor.storage.key: tensor.storage for tensor in tensors.values()}
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise _RefusedError("its list of storages is not a list of strings")
    if len(keys) != len(storages) or set(keys) != set(storages):
        raise _RefusedError("its list of storages is not that of its tensors")
    places = {}
    for key in keys:
        file.seek(place)
        if file.read(8) != struct.pack("<q", storages[key].elements):
            raise _RefusedError(f"storage {key} is cut off or of another size than its tensors say")
        places[key] = place + 8
        place += 8 + storages[key].bytes
    if place > file.bytes:
        raise _RefusedError(f"cut off: has {file.bytes} bytes of {place}")
    return places


def _tensors(value: Any) -> dict[str, _Tensor]:
    """Checks that the pickle's value is a dict of tensors."""
    if not isinstance(value, dict):
        raise _RefusedError("expected a dict of tensors")
    for name, tensor in value.items():
        if not name.isprintable():  # Later messages name it in one line.
            raise _RefusedError(f"{_shown(name)} is not a tensor's name")
        if not isinstance(tensor, _Tensor):
            raise _RefusedError(f"{_shown(name)} is not a tensor")
    return value


def _arrays(
    tensors: dict[str, _Tensor], read: _Read, file_bytes: int, big_endian: bool
) -> dict[str, np.ndarray]:
    """Reads each storage once, and copies its tensors out of it."""
    _check_bytes(tensors, file_bytes)
    names: dict[_Storage, list[str]] = {}
    for name, tensor in tensors.items():
        names.setdefault(tensor.storage, []).append(name)
    arrays = {}
    for storage, its_names in names.items():
        content = read(storage)
        for name in its_names:
            arrays[name] = _array(tensors[name], content, big_endian)
        del content  # The next storage takes its place in memory.
    return {name: arrays[name] for name in tensors}


def _check_bytes(tensors: dict[str, _Tensor], file_bytes: int) -> None:
    """Refuses, before memory is taken, tensors that hold far more than the file can."""
    storages = {tensor.storage for tensor in tensors.values()}
    if len({storage.key for storage in storages}) < len(storages):
        raise _RefusedError("tensors of several types share a storage")
    # Entries of a zip file may overlap, so that each fits but not all of them.
    if sum(storage.bytes for storage in storages) > file_bytes:
        raise _RefusedError(f"cut off: its tensors need more than its {file_bytes} bytes")
    total = sum(
        tensor.elements * tensor.storage.kind.result.itemsize for tensor in tensors.values()
    )
    if total > _MOST_SHARING * file_bytes:
        raise _RefusedError(f"its tensors take more than {_MOST_SHARING} times the file's bytes")


def _array(tensor: _Tensor, content: bytes, big_endian: bool) -> np.ndarray:
    kind = tensor.storage.kind
    if tensor.elements == 0:
        return np.zeros(tensor.size, kind.result)
    item = kind.stored.itemsize
    # A dimension of 1 may have any stride, even one that NumPy finds too large.
    strides = [
        stride * item if size > 1 else 0
        for size, stride in zip(tensor.size, tensor.stride, strict=True)
    ]
    stored = kind.stored.newbyteorder(">" if big_endian else "<")
    view: np.ndarray = np.ndarray(tensor.size, stored, content, tensor.offset * item, strides)
    if kind is not _BFLOAT16:
        return view.astype(kind.result, order="C")
    # bfloat16 is the upper half of a float32.
    wide = view.astype(np.uint32, order="C")
    np.left_shift(wide, 16, out=wide)
    return wide.view(np.float32)


def _call_ordered_dict(arguments: Any) -> dict[str, Any]:
    if arguments != ():
        raise _RefusedError("its OrderedDict has odd arguments")
    return {}


def _call_rebuild_tensor(arguments: Any) -> _Tensor:
    match arguments:
        case (_Storage() as storage, offset, tuple(size), tuple(stride), bool(), dict() as hooks):
            odd = hooks or len(size) != len(stride) or len(size) > _MOST_DIMENSIONS
            if odd or not all(_is_count(number) for number in (offset, *size, *stride)):
                raise _RefusedError("a tensor has odd sizes, strides, offset or hooks")
        case _:
            raise _RefusedError("a tensor has odd arguments")
    tensor = _Tensor(storage, offset, size, stride)
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if tensor.elements and last >= storage.elements:
        raise _RefusedError(f"a tensor reaches beyond its storage of {storage.elements} elements")
    return tensor


def _call_rebuild_parameter(arguments: Any) -> _Tensor:
    match arguments:
        case (_Tensor() as tensor, bool(), dict() as hooks) if not hooks:
            return tensor
    raise _RefusedError("a parameter has odd arguments")


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _kind(stored: str, result: str | None = None) -> _Kind:
    return _Kind(np.dtype(stored), np.dtype(result or stored))


_BFLOAT16 = _kind("uint16", "float32")

# What each name in a pickle stands for. No other name is looked up, here or in any module.
_GLOBALS: dict[str, Callable[[Any], Any] | _Kind] = {
    "collections.OrderedDict": _call_ordered_dict,
    "torch._utils._rebuild_tensor_v2": _call_rebuild_tensor,
    "torch._utils._rebuild_parameter": _call_rebuild_parameter,
    "torch.FloatStorage": _kind("float32"),
    "torch.DoubleStorage": _kind("float64"),
    "torch.HalfStorage": _kind("float16"),
    "torch.BFloat16Storage": _BFLOAT16,
    "torch.LongStorage": _kind("int64"),
    "torch.IntStorage": _kind("int32"),
    "torch.ShortStorage": _kind("int16"),
    "torch.CharStorage": _kind("int8"),
    "torch.ByteStorage": _kind("uint8"),
    # Any byte but 0 is true, which NumPy takes for granted to be 1.
    "torch.BoolStorage": _kind("uint8", "bool"),
}


def _global(module: Any, name: Any) -> Any:
    if not isinstance(module, str) or not isinstance(name, str):
        raise _RefusedError("asks for a name that is not a string; only tensors are read")
    full_name = f"{module}.{name}"
    if full_name not in _GLOBALS:
        raise _RefusedError(f"asks for {_shown(full_name)}; only tensors are read")
    return _GLOBALS[full_name]


def _storage(persistent_id: Any) -> _Storage:
    """Returns what a persistent id means. The last of six, in old files, is a view's place."""
    match persistent_id:
        case ("storage", _Kind() as kind, str(key), str(), elements, *view) if view in ([], [None]):
            if re.fullmatch("[0-9]{1,20}", key) and _is_count(elements):
                return _Storage(key, kind, elements)
    raise _RefusedError("a storage has an odd description")


def _set_items(target: Any, items: Any) -> None:
    if not isinstance(target, dict) or len(items) % 2:
        raise _RefusedError("its pickle sets items of something other than a dict")
    for key, value in zip(items[::2], items[1::2], strict=True):
        # Other keys aren't only of no use: the hash of a deeply nested tuple crashes Python.
        if not isinstance(key, str):
            raise _RefusedError(f"a dict's key must be a string, not {type(key).__name__}")
        target[key] = value


def _call(function: Any, arguments: Any) -> Any:
    # The stack holds no functions but those of `_GLOBALS`.
    if not isinstance(function, types.FunctionType) or not isinstance(arguments, tuple):
        raise _RefusedError("its pickle calls something that is not a function")
    return function(arguments)


def _check_state(target: Any, state: Any) -> None:
    """Allows, and ignores, the versions that `state_dict()` notes as an attribute of the dict."""
    if not isinstance(target, dict) or not isinstance(state, dict) or state.keys() != {"_metadata"}:
        raise _RefusedError("its pickle sets attributes other than _metadata")


_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_LITERALS = ("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE")
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


def _unpickle(stream: io.BytesIO) -> Any:
    """Returns the value of the next pickle, with `_Tensor`s for tensors."""
    pickle = _Pickle()
    try:
        for count, (operation, argument, _) in enumerate(pickletools.genops(stream)):
            if count == _MOST_OPERATIONS:
                raise _RefusedError(f"its pickle has more than {_MOST_OPERATIONS} operations")
            pickle.run(operation.name, argument)
        return pickle.stack.pop()
    except LookupError:
        raise _RefusedError("its pickle takes values that it has not made") from None


class _Pickle:
    """The state of a pickle that runs: its stack, what it remembers, and stacks below a mark."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self._below: list[list[Any]] = []
        self._memo: dict[int, Any] = {}

    def run(self, operation: str, argument: Any) -> None:
        """Runs one operation."""
        stack = self.stack
        if operation in _LITERALS:
            stack.append(argument)
        elif operation in _CONSTANTS:
            stack.append(_CONSTANTS[operation])
        elif operation in _TUPLES:
            stack.append(tuple(self._pop(_TUPLES[operation])))
        else:
            self._run_other(operation, argument)

    def _run_other(self, operation: str, argument: Any) -> None:
        match operation:
            case "BINPUT" | "LONG_BINPUT":
                self._memo[argument] = self.stack[-1]
            case "MEMOIZE":
                self._memo[len(self._memo)] = self.stack[-1]
            case "BINGET" | "LONG_BINGET":
                self.stack.append(self._memo[argument])
            case "MARK":
                self._below.append(self.stack)
                self.stack = []
            case "EMPTY_DICT":
                self.stack.append({})
            case "EMPTY_LIST":
                self.stack.append([])
            case "TUPLE":
                items = self._pop_to_mark()
                self.stack.append(tuple(items))
            case "GLOBAL":
                self.stack.append(_global(*argument.split(" ", 1)))
            case "STACK_GLOBAL":
                self.stack.append(_global(*self._pop(2)))
            case "BINPERSID":
                self.stack.append(_storage(self.stack.pop()))
            case "REDUCE":
                self.stack.append(_call(*self._pop(2)))
            case "BUILD":
                _check_state(self.stack[-2], self.stack.pop())
            case "SETITEM":
                items = self._pop(2)
                _set_items(self.stack[-1], items)
            case "SETITEMS":
                items = self._pop_to_mark()
                _set_items(self.stack[-1], items)
            case "APPEND":
                self._extend([self.stack.pop()])
            case "APPENDS":
                self._extend(self._pop_to_mark())
            case "PROTO" | "FRAME" | "STOP":
                pass
            case _:
                raise _RefusedError(f"its pickle uses {operation}; only tensors are read")

    def _pop(self, count: int) -> list[Any]:
        if len(self.stack) < count:
            raise IndexError
        items = self.stack[-count:]
        del self.stack[-count:]
        return items

    def _pop_to_mark(self) -> list[Any]:
        items, self.stack = self.stack, self._below.pop()
        return items

    def _extend(self, items: list[Any]) -> None:
        if not isinstance(self.stack[-1], list):
            raise _RefusedError("its pickle appends to something other than a list")
        self.stack[-1].extend(items)
