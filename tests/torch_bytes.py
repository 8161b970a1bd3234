"""PyTorch's files, written operation by operation: PyTorch is not needed to read them."""

import io
import pickle
import struct
import zipfile
from collections.abc import Iterable, Mapping

import numpy as np

ORDERED_DICT = b"ccollections\nOrderedDict\n"
REBUILD = b"ctorch._utils\n_rebuild_tensor_v2\n"
REBUILD_PARAMETER = b"ctorch._utils\n_rebuild_parameter\n"
NO_HOOKS = ORDERED_DICT + b")R"
SIX = np.arange(6, dtype=np.float32)


def value(number_or_text) -> bytes:
    """Pushes a number, a string or a tuple of them."""
    return pickle.dumps(number_or_text, 2)[2:-1]


def call(function: bytes, *arguments: bytes) -> bytes:
    return function + b"(" + b"".join(arguments) + b"tR"


def storage(kind="Float", elements=6, key="0") -> bytes:
    kind = f"ctorch\n{kind}Storage\n".encode()
    return b"(" + value("storage") + kind + value(key) + value("cpu") + value(elements) + b"tQ"


def tensor(storage=storage(), offset=0, size=(2, 3), stride=(3, 1)) -> bytes:
    return call(REBUILD, storage, value(offset), value(size), value(stride), b"\x89", NO_HOOKS)


def dictionary(items: Mapping[str, bytes], start=b"}") -> bytes:
    return start + b"(" + b"".join(value(key) + item for key, item in items.items()) + b"u"


def one_pickle(content: bytes) -> bytes:
    return b"\x80\x02" + content + b"."


def zip_file(
    content: bytes,
    storages: Iterable[bytes] = (SIX.tobytes(),),
    compression=zipfile.ZIP_STORED,
    **more: str,
) -> bytes:
    """A file of PyTorch 1.6 or later."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        archive.writestr("archive/data.pkl", one_pickle(content))
        for key, stored in enumerate(storages):
            archive.writestr(f"archive/data/{key}", stored)
        for name, text in more.items():
            archive.writestr(f"archive/{name}", text)
        archive.writestr("archive/version", "3\n")
    return file.getvalue()


def legacy_file(content: bytes, storages=(SIX,), keys=None, little_endian=True) -> bytes:
    """A file of PyTorch before 1.6."""
    system = {"protocol_version": 1001, "little_endian": little_endian, "type_sizes": {"int": 4}}
    keys = [str(key) for key in range(len(storages))] if keys is None else keys
    return (
        pickle.dumps(0x1950A86A20F9469CFC6C, 2)
        + pickle.dumps(1001, 2)
        + pickle.dumps(system, 2)
        + one_pickle(content)
        + pickle.dumps(keys, 2)
        + b"".join(struct.pack("<q", stored.size) + stored.tobytes() for stored in storages)
    )


_KINDS = {"float32": "Float", "float64": "Double", "float16": "Half", "int64": "Long"}


def state_file(arrays: Mapping[str, np.ndarray], legacy: bool = False) -> bytes:
    """What `torch.save` writes of a dict of tensors."""
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    content = dictionary(
        {
            name: tensor(
                storage(_KINDS[array.dtype.name], array.size, str(key)),
                size=array.shape,
                stride=tuple(step // array.itemsize for step in array.strides),
            )
            for key, (name, array) in enumerate(arrays.items())
        }
    )
    if legacy:
        return legacy_file(content, list(arrays.values()))
    return zip_file(content, [array.tobytes() for array in arrays.values()])
