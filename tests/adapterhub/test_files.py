import hashlib
import json
import os
import pathlib
import shutil
import zipfile

import numpy as np
import pytest
import safetensors.numpy

from adapter_bert_tf import UserError
from adapter_bert_tf.adapterhub.files import read_files, read_safetensors
from adapter_bert_tf.files import make_folders, write_atomically
from tests.adapterhub import hub
from tests.torch_bytes import state_file

CONFIG, HEAD = hub.config(), hub.head_config()


@pytest.fixture
def folder(tmp_path):
    return hub.write(tmp_path / "adapter", CONFIG, head=HEAD)


def _check(files, path) -> None:
    assert (files.path, files.config, files.head_config) == (str(path), CONFIG, HEAD)
    for found, expected in (
        (files.tensors, hub.tensors(CONFIG)),
        (files.head_tensors, hub.head_tensors(HEAD)),
    ):
        assert found.keys() == expected.keys()
        for name, tensor in expected.items():
            assert found[name].dtype == np.float32
            np.testing.assert_array_equal(found[name], tensor)


@pytest.mark.parametrize("as_bin", [False, True])
def test_a_folder(tmp_path, as_bin):
    folder = hub.write(tmp_path / "adapter", CONFIG, head=HEAD, as_bin=as_bin)
    _check(read_files(str(folder), with_head=True), folder)
    without = read_files(str(folder), with_head=False)
    assert (without.head_config, without.head_tensors) == (None, {})


def test_an_old_bin_file(folder):
    (folder / "adapter.safetensors").unlink()
    (folder / "pytorch_adapter.bin").write_bytes(state_file(hub.tensors(CONFIG), legacy=True))
    _check(read_files(str(folder), with_head=True), folder)


def test_safetensors_come_before_bin_files(folder):
    (folder / "pytorch_adapter.bin").write_bytes(b"not one")
    _check(read_files(str(folder), with_head=True), folder)


@pytest.mark.parametrize("inside", ["", "some/folder/", "../../"])
def test_a_zip_file_with_or_without_folders(folder, tmp_path, inside):
    path = tmp_path / "adapter.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for each in sorted(folder.iterdir()):
            file.write(each, inside + each.name)
        file.writestr(f"{inside}README.md", "What else is in there is not unpacked.")
    around = sorted(os.listdir(tmp_path)), sorted(os.listdir(tmp_path.parent))
    _check(read_files(str(path), with_head=True), path)
    assert around == (sorted(os.listdir(tmp_path)), sorted(os.listdir(tmp_path.parent)))


@pytest.fixture
def cached(folder, tmp_path):
    """A repository in the Hub's cache: files are links to what is named after its content."""
    top, commit = tmp_path / "models--AdapterHub--task", "1234567890abcdef"
    snapshot, blobs = top / "snapshots" / commit, top / "blobs"
    for place in (snapshot, blobs, top / "refs"):
        place.mkdir(parents=True)
    (top / "refs" / "main").write_text(commit)
    for path in folder.iterdir():
        blob = blobs / hashlib.sha256(path.read_bytes()).hexdigest()
        shutil.move(path, blob)
        (snapshot / path.name).symlink_to(os.path.relpath(blob, snapshot))
    (top / "snapshots" / "abcdef").mkdir()
    return top


def test_the_hubs_cache(cached):
    _check(read_files(str(cached), with_head=True), cached)
    snapshot = cached / "snapshots" / "1234567890abcdef"
    _check(read_files(str(snapshot), with_head=True), snapshot)


@pytest.mark.parametrize("commit", ["", "../../other", "main", "12/34", "1234\n5678", "é" * 9])
def test_a_cache_without_a_commit_is_told(cached, commit):
    (cached / "refs" / "main").write_text(commit)
    with pytest.raises(UserError, match=r"refs/main: expected a commit$"):
        read_files(str(cached), with_head=True)


def test_what_is_missing_is_told(folder, cached, tmp_path):
    def told(path, message, with_head=True):
        with pytest.raises(UserError) as error:
            read_files(str(path), with_head)
        assert str(error.value) == message

    folder = hub.write(folder, CONFIG, head=HEAD)
    told(tmp_path / "nowhere", f"{tmp_path}/nowhere: no such folder or zip file")
    told("", ": no such folder or zip file")
    (folder / "model_head.safetensors").unlink()
    told(folder, f"{folder}: expected model_head.safetensors or pytorch_model_head.bin")
    assert read_files(str(folder), with_head=False).tensors
    (folder / "adapter.safetensors").unlink()
    told(folder, f"{folder}: expected adapter.safetensors or pytorch_adapter.bin")
    (folder / "adapter_config.json").unlink()
    told(folder, f"{folder}/adapter_config.json: No such file or directory")
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("adapter_config.json", json.dumps(CONFIG))
    told(path, f"{path}: expected adapter.safetensors or pytorch_adapter.bin")
    with zipfile.ZipFile(path, "w"):
        pass
    told(path, f"{path}/adapter_config.json: No such file or directory")
    shutil.rmtree(cached / "snapshots" / "1234567890abcdef")
    place = f"{cached}/snapshots/1234567890abcdef"
    told(cached, f"{place}/adapter_config.json: No such file or directory")
    (cached / "refs" / "main").unlink()
    told(cached, f"{cached}/refs/main: No such file or directory")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("as_bin", [False, True])
def test_all_floats_become_float32(tmp_path, dtype, as_bin):
    tensors = {name: tensor.astype(dtype) for name, tensor in hub.tensors(CONFIG).items()}
    folder = hub.write(tmp_path / "adapter", CONFIG, tensors, as_bin=as_bin)
    for name, found in read_files(str(folder), with_head=True).tensors.items():
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, tensors[name].astype(np.float32))


def test_bfloat16_becomes_float32(tmp_path):
    halves = np.array([0x3F80, 0xC020, 0, 0x4049], np.uint16).tobytes()
    path = tmp_path / "a.safetensors"
    path.write_bytes(hub.safetensors_file("x", halves, dtype="BF16", shape=[2, 2]))
    found = read_safetensors(str(path))["x"]
    np.testing.assert_array_equal(found, np.array([[1, -2.5], [0, 3.140625]], np.float32))


def test_scalars_and_empty_tensors_are_read(tmp_path):
    path = tmp_path / "a.safetensors"
    arrays = {"one": np.array(2.5, np.float32), "none": np.zeros([0, 3], np.float32)}
    safetensors.numpy.save_file(arrays, path)
    for name, found in read_safetensors(str(path)).items():
        assert found.shape == arrays[name].shape
        np.testing.assert_array_equal(found, arrays[name])


@pytest.mark.parametrize("as_bin", [False, True])
@pytest.mark.parametrize(
    ("array", "told"),
    [
        (np.zeros(3, np.int64), "numbers; expected floats"),
        (np.array([0.0, np.nan], np.float32), "numbers that are not finite"),
        (np.array([0.0, np.inf], np.float64), "numbers that are not finite"),
        (np.array([0.0, 1e300], np.float64), "numbers that are not finite"),
    ],
    ids=str,
)
def test_numbers_that_are_of_no_use_are_told(tmp_path, array, told, as_bin):
    folder = hub.write(tmp_path / "adapter", CONFIG, {"odd.one": array}, as_bin=as_bin)
    name = "pytorch_adapter.bin" if as_bin else "adapter.safetensors"
    with pytest.raises(UserError, match=f"^{folder}/{name}: odd.one has .*{told}$"):
        read_files(str(folder), with_head=True)


@pytest.mark.parametrize("packed", [False, True])
def test_an_adapter_may_be_in_a_remote_folder(folder, tmp_path, packed):
    remote = f"ram://adapters/{packed}"
    make_folders("ram://adapters" if packed else remote)
    if packed:
        local = shutil.make_archive(str(tmp_path / "packed"), "zip", folder)
        write_atomically(remote, pathlib.Path(local).read_bytes())
    else:
        for path in folder.iterdir():
            write_atomically(f"{remote}/{path.name}", path.read_bytes())
    _check(read_files(remote, with_head=True), remote)
    with pytest.raises(UserError, match="ram://adapters/nowhere: no such folder or zip file"):
        read_files("ram://adapters/nowhere", with_head=True)
