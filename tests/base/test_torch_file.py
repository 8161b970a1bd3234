import contextlib
import os
import pickle
import struct
import sys
import time
import tracemalloc
import zipfile

import numpy as np
import pytest

from adapter_bert_tf import UserError
from adapter_bert_tf.base.torch_file import read_torch_file
from tests.torch_bytes import NO_HOOKS, ORDERED_DICT, REBUILD, REBUILD_PARAMETER, SIX
from tests.torch_bytes import call as _call
from tests.torch_bytes import dictionary as _dict
from tests.torch_bytes import legacy_file as _legacy
from tests.torch_bytes import one_pickle as _pickle
from tests.torch_bytes import storage as _storage
from tests.torch_bytes import tensor as _tensor
from tests.torch_bytes import value as _value
from tests.torch_bytes import zip_file as _zip


def _read(tmp_path, content):
    path = tmp_path / "pytorch_model.bin"
    path.write_bytes(content)
    return read_torch_file(str(path))


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        ("Float", "float32"),
        ("Double", "float64"),
        ("Half", "float16"),
        ("Long", "int64"),
        ("Int", "int32"),
        ("Short", "int16"),
        ("Char", "int8"),
        ("Byte", "uint8"),
        ("Bool", "bool"),
    ],
)
def test_reads_each_type(tmp_path, kind, dtype):
    array = np.array([[1, 0, 100], [2, 3, 4]]).astype(dtype)
    value = _dict({"x": _tensor(_storage(kind))})
    for content in (
        _zip(value, [array.tobytes()]),
        _zip(value, [array.tobytes()], byteorder="little"),
        _zip(value, [array.astype(array.dtype.newbyteorder(">")).tobytes()], byteorder="big"),
        _legacy(value, [array]),
    ):
        read = _read(tmp_path, content)["x"]
        assert read.dtype == dtype
        assert read.flags.writeable
        np.testing.assert_array_equal(read, array)


def test_reads_bfloat16_as_float32(tmp_path):
    halves = np.array([0x3F80, 0xC020, 0x7F80, 0, 0x0001, 0x4049], np.uint16)
    value = _dict(
        {"x": _tensor(_storage("BFloat16")), "t": _tensor(_storage("BFloat16"), 1, (), ())}
    )
    for read in (
        _read(tmp_path, _zip(value, [halves.tobytes()])),
        _read(tmp_path, _zip(value, [halves.byteswap().tobytes()], byteorder="big")),
    ):
        assert read["x"].dtype == read["t"].dtype == np.float32
        np.testing.assert_array_equal(
            read["x"], np.array([[1, -2.5, np.inf], [0, 2.0**-133, 3.140625]], np.float32)
        )
        assert read["t"] == -2.5


def test_any_byte_but_zero_is_true(tmp_path):
    value = _dict({"x": _tensor(_storage("Bool"))})
    read = _read(tmp_path, _zip(value, [bytes([0, 1, 2, 255, 0, 1])]))["x"]
    assert read.view(np.uint8).tolist() == [[0, 1, 1], [1, 0, 1]]


def test_reads_views_that_share_a_storage(tmp_path):
    value = _dict(
        {
            "all": _tensor(),
            "transposed": _tensor(stride=(1, 3), size=(3, 2)),
            "every second": _tensor(offset=1, size=(3,), stride=(2,)),
            "expanded": _tensor(offset=4, size=(3, 2), stride=(0, 1)),
            "one": _tensor(offset=5, size=(), stride=()),
            "column": _tensor(offset=2, size=(2, 1), stride=(3, 2**62)),
            "none": _tensor(offset=6, size=(0, 768), stride=(768, 1)),
            "other": _tensor(_storage("Long", 1, "1"), size=(1,), stride=(1,)),
        }
    )
    grid = SIX.reshape(2, 3)
    expected = {
        "all": grid,
        "transposed": grid.T,
        "every second": SIX[1::2],
        "expanded": np.tile(SIX[4:], (3, 1)),
        "one": SIX[5],
        "column": grid[:, 2:],
        "none": np.zeros((0, 768)),
        "other": np.array([-7]),
    }
    other = np.array([-7], np.int64)
    for content in (_zip(value, [SIX.tobytes(), other.tobytes()]), _legacy(value, [SIX, other])):
        read = _read(tmp_path, content)
        assert list(read) == list(expected)
        for name, array in read.items():
            assert isinstance(array, np.ndarray)
            assert array.shape == expected[name].shape
            np.testing.assert_array_equal(array, expected[name])
        read["all"][0, 0] = 9  # They are copies.
        assert read["transposed"][0, 0] == 0


def test_reads_an_empty_storage(tmp_path):
    value = _dict({"x": _tensor(_storage(elements=0), size=(0,), stride=(1,))})
    for content in (_zip(value, [b""]), _legacy(value, [SIX[:0]])):
        assert _read(tmp_path, content)["x"].shape == (0,)


def test_reads_parameters_and_the_versions_of_a_state_dict(tmp_path):
    parameter = _call(REBUILD_PARAMETER, _tensor(), b"\x88", NO_HOOKS)
    versions = _dict({"": _dict({"version": _value(1)})}, start=NO_HOOKS)
    state = _dict({"weight": parameter}, start=NO_HOOKS)
    state += _dict({"_metadata": versions}) + b"b"
    for content in (_zip(state), _legacy(state)):
        read = _read(tmp_path, content)
        assert type(read) is dict
        assert list(read) == ["weight"]
        np.testing.assert_array_equal(read["weight"], SIX.reshape(2, 3))


def test_reads_newer_pickles(tmp_path):
    """`torch.save(..., pickle_protocol=4)` names functions and remembers values in other ways."""
    rebuild = b"\x8c\x0ctorch._utils\x94\x8c\x12_rebuild_tensor_v2\x94\x93\x94"
    arguments = _storage() + _value(0) + _value((6,)) + _value((1,)) + b"\x89" + NO_HOOKS
    tensor = rebuild + b"(" + arguments + b"t\x94R\x94"
    value = b"}\x94\x8c\x01x" + tensor + b"s"
    np.testing.assert_array_equal(_read(tmp_path, _zip(value))["x"], SIX)


def test_reads_what_the_memo_keeps(tmp_path):
    value = (
        b"}(" + _value("a") + _tensor() + b"r\xff\xff\xff\xff" + _value("b") + b"j\xff\xff\xff\xffu"
    )
    read = _read(tmp_path, _zip(value))
    np.testing.assert_array_equal(read["a"], read["b"])


def _state(**arguments):
    return _zip(_dict({"x": _tensor(**arguments)}))


def _item(value):
    return _zip(_dict({"x": value}))


def _global(module, name):
    return f"c{module}\n{name}\n".encode()


def _attack(canary):
    """A call that makes the canary."""
    return _global("os", "system") + b"(" + _value(f"touch {canary}") + b"tR"


def _tensor_of(*arguments):
    return _item(_call(REBUILD, *arguments))


def _without_sizes(content):
    """Claims a gigabyte for the storage, in the zip file's list of entries."""
    at = content.index(b"PK\1\2", content.index(b"PK\1\2") + 1)
    return content[: at + 20] + struct.pack("<II", 2**30, 2**30) + content[at + 28 :]


def _encrypted(content):
    at = content.index(b"PK\1\2")
    return content[: at + 8] + b"\1" + content[at + 9 :]


def _many_entries():
    """A list of 100,000 entries, which `zipfile` would keep in 60 MB."""
    entry = struct.pack("<4s42x", b"PK\1\2")
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, len(entry) * 100_000, 4, 0)
    return b"PK\3\4" + entry * 100_000 + end


DEEP = 100_000
NOT_A_TENSOR = "x is not a tensor"
ODD_TENSOR = "a tensor has odd"
ODD_STORAGE = "a storage has an odd description"

# What the file holds, given the canary's path, and a part of the message.
HOSTILE = {
    # Names
    "os.system": (lambda canary: _item(_attack(canary)), "asks for os.system; only tensors are"),
    "os.system in an old file": (lambda canary: _legacy(_attack(canary)), "asks for os.system;"),
    "os.system alone": (lambda canary: _pickle(_attack(canary)), "asks for os.system;"),
    "os.system as magic number": (
        lambda canary: _pickle(_attack(canary)) + _legacy(_tensor())[15:],
        "asks for os.system;",
    ),
    "os.system by strings": (
        lambda canary: _item(_value("os") + _value("system") + b"\x93" + _value(("a",)) + b"R"),
        "asks for os.system;",
    ),
    "a module of the folder": (
        lambda _: _item(_global("trap", "run") + b")R"),
        "asks for trap.run",
    ),
    "builtins.eval": (lambda _: _item(_global("builtins", "eval")), "asks for builtins.eval;"),
    "torch.load": (lambda _: _item(_global("torch", "load")), "asks for torch.load;"),
    "dotted": (
        lambda _: _item(_global("collections", "OrderedDict.__init__")),
        "asks for collections.OrderedDict.__init__;",
    ),
    "name of lines": (
        lambda _: _item(_value("a\nb") + _value("\x1b[2J\ud800") + b"\x93"),
        r"asks for 'a\nb.\x1b[2J\ud800';",
    ),
    "long name": (lambda _: _item(_global("a" * 10**6, "b")), "aaa...; only tensors are read"),
    "name not a string": (lambda _: _item(b"K\1K\1\x93"), "asks for a name that is not a string"),
    # Operations
    "INST": (lambda _: _item(b"(ios\nsystem\n"), "uses INST;"),
    "OBJ": (lambda _: _item(b"(" + ORDERED_DICT + b"o"), "uses OBJ;"),
    "NEWOBJ": (lambda _: _item(ORDERED_DICT + b")\x81"), "uses NEWOBJ;"),
    "NEWOBJ_EX": (lambda _: _item(ORDERED_DICT + b")}\x92"), "uses NEWOBJ_EX;"),
    "EXT1": (lambda _: _item(b"\x82\1"), "uses EXT1;"),
    "PERSID": (lambda _: _item(b"Pstorage\n"), "uses PERSID;"),
    "DUP": (lambda _: _item(b"K\x012"), "uses DUP;"),
    "NEXT_BUFFER": (lambda _: _item(b"\x97"), "uses NEXT_BUFFER;"),
    "unknown operation": (lambda _: _item(b"\xff"), "not a readable PyTorch file: at position"),
    "attributes of a dict": (
        lambda _: _item(NO_HOOKS + _dict({"__class__": b"N"}) + b"b"),
        "sets attributes other than _metadata",
    ),
    "attributes of a function": (
        lambda _: _item(REBUILD + b"N" + _dict({"__defaults__": b")"}) + b"\x86b"),
        "sets attributes",
    ),
    "attributes of a tensor": (
        lambda _: _item(_tensor() + _dict({"_metadata": b"N"}) + b"b"),
        "sets attributes",
    ),
    "calls a string": (lambda _: _item(_value("print") + b")R"), "not a function"),
    "calls a storage": (lambda _: _item(_storage() + b")R"), "not a function"),
    "calls a storage's type": (
        lambda _: _item(_global("torch", "IntStorage") + b")R"),
        "not a funct",
    ),
    "calls with a dict": (lambda _: _item(ORDERED_DICT + b"}R"), "not a function"),
    "OrderedDict of a list": (lambda _: _item(ORDERED_DICT + b"]\x85R"), "odd arguments"),
    "sets items of a tensor": (lambda _: _item(_tensor() + b"K\1K\1s"), "other than a dict"),
    "sets half an item": (lambda _: _zip(b"}(" + _value("x") + b"u"), "other than a dict"),
    "appends to a tensor": (lambda _: _item(_tensor() + b"K\1a"), "other than a list"),
    "empty stack": (lambda _: _zip(b"R"), "takes values that it has not made"),
    "no value": (lambda _: _zip(b""), "takes values that it has not made"),
    "no mark": (lambda _: _zip(b"t"), "takes values that it has not made"),
    "empty memo": (lambda _: _zip(b"h\5"), "takes values that it has not made"),
    # Tensors
    "too few arguments": (lambda _: _tensor_of(_storage()), ODD_TENSOR),
    "a number as storage": (
        lambda _: _tensor_of(_value(1), b"K\0))\x89", NO_HOOKS),
        ODD_TENSOR,
    ),
    "hooks": (
        lambda _: _tensor_of(_storage(), b"K\0))\x89", _dict({"a": b"N"})),
        ODD_TENSOR,
    ),
    "negated values": (
        lambda _: _tensor_of(_storage(), b"K\0))\x89", NO_HOOKS, _dict({"neg": b"\x88"})),
        ODD_TENSOR,
    ),
    "a parameter of a string": (
        lambda _: _item(_call(REBUILD_PARAMETER, _value("a"), b"\x88", NO_HOOKS)),
        "a parameter has odd arguments",
    ),
    "negative offset": (lambda _: _state(offset=-1), ODD_TENSOR),
    "negative stride": (lambda _: _state(offset=5, size=(6,), stride=(-1,)), ODD_TENSOR),
    "negative size": (lambda _: _state(size=(-2, -3)), ODD_TENSOR),
    "real size": (lambda _: _state(size=(2.0, 3)), ODD_TENSOR),
    "size of bools": (lambda _: _state(size=(True, True)), ODD_TENSOR),
    "size of a tensor": (
        lambda _: _tensor_of(_storage(), b"K\0", _tensor(), b")\x89N"),
        ODD_TENSOR,
    ),
    "huge number": (lambda _: _state(size=(0, 2**2000)), ODD_TENSOR),
    "huge and empty": (
        lambda _: _state(size=(0, 2**62, 2**62), stride=(1, 1, 1)),
        "not a readable PyTorch file",
    ),
    "no strides": (lambda _: _state(stride=()), ODD_TENSOR),
    "100 dimensions": (lambda _: _state(size=(1,) * 100, stride=(1,) * 100), ODD_TENSOR),
    "offset behind the storage": (lambda _: _state(offset=1), "beyond its storage of 6 elements"),
    "billion elements": (lambda _: _state(size=(10**9,), stride=(1,)), "beyond its storage"),
    "stride of 0": (
        lambda _: _state(size=(10**9,), stride=(0,)),
        "its tensors take more than 4 times the file's bytes",
    ),
    "overlapping rows": (
        lambda _: _state(size=(3,) * 32, stride=(0,) * 32),
        "its tensors take more than 4 times the file's bytes",
    ),
    "one tensor many times": (
        lambda _: _zip(
            _dict({"a": _tensor(_storage("Byte", 10**6), 0, (10**6,), (1,)) + b"q\x63"})
            + b"("
            + b"".join(_value(str(name)) + b"h\x63" for name in range(10_000))
            + b"u",
            [bytes(10**6)],
        ),
        "its tensors take more than 4 times the file's bytes",
    ),
    # Storages
    "key with ..": (lambda _: _state(storage=_storage(key="../data.pkl")), ODD_STORAGE),
    "absolute key": (lambda _: _state(storage=_storage(key="/etc/passwd")), ODD_STORAGE),
    "negative elements": (lambda _: _state(storage=_storage(elements=-1)), ODD_STORAGE),
    "storage of no type": (
        lambda _: _item(_value(("storage", "a", "0", "cpu", 6)) + b"Q"),
        ODD_STORAGE,
    ),
    "persistent number": (lambda _: _item(b"K\1Q"), ODD_STORAGE),
    "view of a storage": (
        lambda _: _item(_storage()[:-2] + _value(("1", 0, 6)) + b"tQ"),
        ODD_STORAGE,
    ),
    "missing storage": (lambda _: _state(storage=_storage(key="7")), "holds no data/7"),
    "larger storage": (
        lambda _: _state(storage=_storage(elements=7)),
        "data/0 has 24 bytes, not 28",
    ),
    "huge storage": (
        lambda _: _state(storage=_storage(elements=10**12), size=(10**12,), stride=(1,)),
        "cut off: its tensors need more than",
    ),
    "storage of two types": (
        lambda _: _zip(_dict({"x": _tensor(), "y": _tensor(_storage("Int"))})),
        "tensors of several types share a storage",
    ),
    # Values
    "a tensor alone": (lambda _: _zip(_tensor()), "expected a dict of tensors"),
    "a list": (lambda _: _zip(b"]"), "expected a dict of tensors"),
    "a number": (lambda _: _item(_value(3)), NOT_A_TENSOR),
    "a real number": (lambda _: _item(_value(3.5)), NOT_A_TENSOR),
    "a string": (lambda _: _item(_value("a")), NOT_A_TENSOR),
    "a dict": (lambda _: _item(_dict({"y": _tensor()})), NOT_A_TENSOR),
    "a storage": (lambda _: _item(_storage()), NOT_A_TENSOR),
    "a function": (lambda _: _item(REBUILD), NOT_A_TENSOR),
    "key 1": (lambda _: _zip(_dict({1: _tensor()})), "a dict's key must be a string, not int"),
    "key of lines": (lambda _: _zip(_dict({"a\nb": _tensor()})), r"'a\nb' is not a tensor's name"),
    "dict in itself": (lambda _: _zip(b"}q\1" + _value("x") + b"h\1s"), NOT_A_TENSOR),
    # Pickles that take time or memory
    "nested key": (  # Its hash overflows the stack of C.
        lambda _: _zip(b"})" + b"\x85" * DEEP + b"Ns"),
        "a dict's key must be a string, not tuple",
    ),
    "key that doubles": (
        lambda _: _zip(b"})" + b"q\1h\1\x86" * 200 + b"Ns"),
        "a dict's key must be a string, not tuple",
    ),
    "nested lists": (lambda _: _item(b"]" * DEEP + b"a" * (DEEP - 1)), NOT_A_TENSOR),
    "nested dicts": (
        lambda _: _item((b"}" + _value("a")) * DEEP + b"N" + b"s" * DEEP),
        NOT_A_TENSOR,
    ),
    "nested marks": (lambda _: _item(b"(" * DEEP), "takes values that it has not made"),
    "long memo": (lambda _: _item(b"Nr\xff\xff\xff\xff" * 1000), "other than a dict"),
    "million operations": (lambda _: _zip(b"}" * 10**6), "more than 500000 operations"),
    "long pickle": (lambda _: _zip(b"}" * (5 << 20)), "data.pkl has 5242883 bytes, which is too"),
    "long pickle in an old file": (
        lambda _: _legacy(_value("a" * (5 << 20))),
        "not a readable PyTorch file",
    ),
    "string of gigabytes": (
        lambda _: _item(b"X\xff\xff\xff\x7fabc"),
        "not a readable PyTorch file",
    ),
    "string of exabytes": (lambda _: _item(b"\x8d" + b"\xff" * 7 + b"\x7fabc"), "not a readable"),
    "number of gigabytes": (lambda _: _item(b"\x8b\xff\xff\xff\x7f1"), "not a readable PyTorch"),
    "number of digits": (lambda _: _item(b"L" + b"9" * 10**6 + b"L\n"), "not a readable PyTorch"),
    # Zip files
    "zip bomb": (
        lambda _: _zip(
            _dict({"x": _tensor(_storage("Byte", 10**8), 0, (10**8,), (1,))}),
            [bytes(10**8)],
            zipfile.ZIP_DEFLATED,
        ),
        "data.pkl is compressed",
    ),
    "gigabyte claimed": (
        lambda _: _without_sizes(_state(storage=_storage("Byte", 2**30))),
        "cut off: its tensors need more than",
    ),
    "encrypted": (lambda _: _encrypted(_state()), "not a readable PyTorch file"),
    "changed byte": (
        lambda _: _state().replace(SIX.tobytes(), SIX[::-1].tobytes()),
        "Bad CRC-32 for file 'archive/data/0'",
    ),
    "many entries": (lambda _: _many_entries(), "list of tensors is longer than 4194304 bytes"),
    "byte order": (lambda _: _zip(_dict({"x": _tensor()}), byteorder="up"), "byteorder must be"),
    "no data.pkl": (lambda _: _state().replace(b"data.pkl", b"data.txt"), "expected one data.pkl"),
    "half a zip file": (lambda _: _state()[:300], "not a readable PyTorch file"),
    "without its first bytes": (  # `zipfile` then looks for entries before the file.
        lambda _: b"PK\3\4" + _state()[_state().index(b"archive/data/0") :],
        "not a readable PyTorch file",
    ),
    "start of a zip file": (lambda _: b"PK\3\4", "not a readable PyTorch file"),
    # Old files
    "nothing": (lambda _: b"", "not a readable PyTorch file"),
    "text": (lambda _: b"version https://git-lfs.github.com/spec/v1\n", "not a readable PyTorch"),
    "another pickle": (lambda _: pickle.dumps({"a": 1}), "not a PyTorch file"),
    "big-endian": (lambda _: _legacy(_dict({}), little_endian=False), "big-endian"),
    "cut off": (lambda _: _legacy(_dict({"x": _tensor()}))[:-1], "cut off: has"),
    "cut off earlier": (lambda _: _legacy(_dict({"x": _tensor()}))[:-28], "storage 0 is cut off"),
    "other sizes": (lambda _: _legacy(_dict({"x": _tensor()}), [SIX[:5]]), "storage 0 is cut off"),
    "no list of storages": (
        lambda _: _legacy(_dict({"x": _tensor()}), keys=3),
        "not a list of str",
    ),
    "other storages": (
        lambda _: _legacy(_dict({"x": _tensor()}), keys=["1"]),
        "that of its tensors",
    ),
    "storages twice": (
        lambda _: _legacy(_dict({"x": _tensor()}), keys=["0"] * 2),
        "that of its ten",
    ),
}


@contextlib.contextmanager
def _memory_below(limit):
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < limit
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", HOSTILE)
def test_refuses(name, tmp_path, monkeypatch):
    make, message = HOSTILE[name]
    canary = tmp_path / "canary"
    (tmp_path / "trap.py").write_text(f"open({str(canary)!r}, 'w')\ndef run(): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "pytorch_model.bin"
    path.write_bytes(make(canary))

    start = time.process_time()
    with pytest.raises(UserError) as error:
        read_torch_file(str(path))
    assert time.process_time() - start < 3
    with _memory_below(100e6), contextlib.suppress(UserError):
        read_torch_file(str(path))

    reason = str(error.value)
    assert reason.startswith(f"{path}: ")
    assert message in reason
    assert reason.isprintable()
    assert len(reason) < 500 + len(str(path))
    assert not canary.exists()
    assert "trap" not in sys.modules


def test_needs_little_more_memory_than_the_tensors(tmp_path):
    size = 4 << 20
    storages = [_storage("Byte", size, str(key)) for key in range(8)]
    tensors = {
        f"x{key}": _tensor(storage, 0, (size,), (1,)) for key, storage in enumerate(storages)
    }
    path = tmp_path / "pytorch_model.bin"
    path.write_bytes(_zip(_dict(tensors), [bytes(size)] * 8))
    with _memory_below(9.5 * size):
        read = read_torch_file(str(path))
    assert sum(array.nbytes for array in read.values()) == 8 * size


@pytest.mark.parametrize("name", ["zip", "legacy"])
def test_broken_bytes_raise_nothing_else(name, tmp_path):
    value = _dict({"weight": _tensor(), "bias": _tensor(_storage("Half", 3, "1"), 0, (3,), (1,))})
    half = SIX[:3].astype(np.float16)
    content = {
        "zip": _zip(value, [SIX.tobytes(), half.tobytes()]),
        "legacy": _legacy(value, [SIX, half]),
    }[name]
    random = np.random.default_rng(0)
    for length in range(0, len(content), 7):
        with pytest.raises(UserError):
            _read(tmp_path, content[:length])
    for _ in range(300):
        changed = bytearray(content)
        for place in random.integers(len(content), size=random.integers(1, 4)):
            changed[place] = random.integers(256)
        with contextlib.suppress(UserError):
            _read(tmp_path, bytes(changed))


def test_names_a_file_that_is_not_there(tmp_path):
    with pytest.raises(UserError, match=f"^{tmp_path}/none.bin: No such file or directory$"):
        read_torch_file(f"{tmp_path}/none.bin")
    with pytest.raises(UserError, match=f"^{tmp_path}: Is a directory$"):
        read_torch_file(os.fspath(tmp_path))
