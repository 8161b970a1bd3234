import io
import os
import subprocess
import sys

import pytest
import tensorflow as tf

from adapter_bert_tf import UserError, files
from adapter_bert_tf.files import (
    exists,
    list_folder,
    lock,
    new_file,
    new_folder,
    open_bytes,
    read_json,
    read_text,
    remove,
    remove_leftovers,
    write_atomically,
)

ROOT = "ram://files"


@pytest.fixture(params=["disk", "remote"])
def folder(request, tmp_path):
    """A folder on this machine, and one that is not."""
    if request.param == "disk":
        yield str(tmp_path)
        return
    tf.io.gfile.makedirs(ROOT)
    yield ROOT
    tf.io.gfile.rmtree(ROOT)


def test_a_file_is_whole_or_as_before(folder):
    path = f"{folder}/file"
    write_atomically(path, b"first")
    with pytest.raises(RuntimeError), new_file(path) as beside:
        with open(beside, "wb") as file:
            file.write(b"half")
        raise RuntimeError
    assert open_bytes(path).read() == b"first"
    write_atomically(path, b"second")
    assert open_bytes(path).read() == b"second"
    assert list_folder(folder) == ["file"]


def test_a_file_has_the_users_permissions(tmp_path):
    write_atomically(str(tmp_path / "file"), b"")
    (tmp_path / "plain").write_bytes(b"")
    assert os.stat(tmp_path / "file").st_mode == os.stat(tmp_path / "plain").st_mode


def test_a_folder_is_whole_or_not_there(folder):
    path = f"{folder}/a/folder"
    with pytest.raises(RuntimeError), new_folder(path, last="whole") as beside:
        write_atomically(os.path.join(beside, "half"), b"")
        raise RuntimeError
    assert list_folder(f"{folder}/a") == []
    with new_folder(path, last="whole") as beside:
        os.mkdir(os.path.join(beside, "in"))
        for name in ("whole", "in/deep"):
            write_atomically(os.path.join(beside, name), b"")
    assert list_folder(path) == ["in", "whole"]
    assert list_folder(f"{path}/in") == ["deep"]
    with pytest.raises(UserError, match="exists already"), new_folder(path, last="whole"):
        pass


def test_a_folder_that_another_process_has_made_meanwhile_is_told(tmp_path):
    path = tmp_path / "folder"
    with pytest.raises(UserError, match="folder: Directory not empty"), new_folder(path, "a"):
        path.mkdir()
        (path / "theirs").touch()
    assert os.listdir(tmp_path) == ["folder"]


def test_a_remote_folder_gets_the_file_that_makes_it_whole_last(monkeypatch):
    upload, uploaded = files._upload, []

    def counted(local, path):
        uploaded.append(path)
        if len(uploaded) == 3:
            raise OSError("the network is gone")
        upload(local, path)

    monkeypatch.setattr(files, "_upload", counted)
    with (
        pytest.raises(UserError, match="half: the network is gone"),
        new_folder(f"{ROOT}/half", last="a") as beside,
    ):
        for name in "abc":
            write_atomically(os.path.join(beside, name), b"")
    assert list_folder(f"{ROOT}/half") == [".uploading", "b", "c"]
    # The same command starts again.
    monkeypatch.setattr(files, "_upload", upload)
    with new_folder(f"{ROOT}/half", last="a") as beside:
        write_atomically(os.path.join(beside, "a"), b"")
    assert list_folder(f"{ROOT}/half") == ["a"]
    tf.io.gfile.rmtree(ROOT)


def test_a_remote_file_is_read_as_any_other(folder):
    path, content = f"{folder}/text", "\ufeffeins\r\nzwei\näöü".encode()
    write_atomically(path, content)
    with open_bytes(path) as file:
        assert file.seek(-2, io.SEEK_END) == len(content) - 2
        assert file.read() == content[-2:]
        file.seek(3)
        assert file.read(4) == b"eins"
    assert read_text(path) == "eins\r\nzwei\näöü"
    with files.local_copy(path) as local:
        assert open(local, "rb").read() == content
    remove(path)
    assert not exists(path)
    with pytest.raises(UserError, match="text: No such file or directory$"):
        read_json(path)
    assert list_folder(f"{folder}/none") == []


_KILLED = """
import os, sys
from adapter_bert_tf.files import new_file, new_folder
with new_file(sys.argv[1] + "/file"), new_folder(sys.argv[1] + "/folder", last="a"):
    print("writes", flush=True)
    sys.stdin.read()
"""


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_writes_is_not(tmp_path):
    folder = str(tmp_path)
    command = [sys.executable, "-c", _KILLED, folder]
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        left = os.listdir(folder)
        assert len(left) == 2
        remove_leftovers(folder)
        write_atomically(f"{folder}/file", b"")
        assert sorted(os.listdir(folder)) == sorted([*left, "file"])
        process.kill()
    # Whoever writes the same next removes it.
    write_atomically(f"{folder}/file", b"")
    assert [name for name in os.listdir(folder) if ".file." in name] == []
    remove_leftovers(folder)
    assert os.listdir(folder) == ["file"]


def test_a_lock_is_ones_own_until_it_is_closed(tmp_path):
    handle = lock(str(tmp_path))
    with pytest.raises(BlockingIOError):
        lock(str(tmp_path))
    os.close(handle)
    os.close(lock(str(tmp_path)))


@pytest.mark.parametrize("path", ["https://tfhub.dev/x", "/a/b", "a/b", "c:/d", "://b"])
def test_these_are_not_remote_folders(path):
    assert not files.is_remote(path)


def test_a_file_system_that_tensorflow_does_not_know_is_told():
    with pytest.raises(UserError, match="'nofs' not implemented") as error:
        exists("nofs://a/b")
    assert "\n" not in str(error.value)
