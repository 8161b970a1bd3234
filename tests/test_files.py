import os

import pytest

from adapter_bert_tf import UserError
from adapter_bert_tf.files import new_file, new_folder, write_atomically


def test_a_file_is_whole_or_as_before(tmp_path):
    path = str(tmp_path / "file")
    write_atomically(path, b"first")
    with pytest.raises(RuntimeError), new_file(path) as beside:
        with open(beside, "wb") as file:
            file.write(b"half")
        raise RuntimeError
    assert open(path, "rb").read() == b"first"
    assert os.listdir(tmp_path) == ["file"]


def test_a_file_has_the_users_permissions(tmp_path):
    write_atomically(str(tmp_path / "file"), b"")
    (tmp_path / "plain").write_bytes(b"")
    assert os.stat(tmp_path / "file").st_mode == os.stat(tmp_path / "plain").st_mode


def test_a_folder_is_whole_or_not_there(tmp_path):
    path = str(tmp_path / "a" / "folder")
    with pytest.raises(RuntimeError), new_folder(path) as beside:
        write_atomically(os.path.join(beside, "half"), b"")
        raise RuntimeError
    assert os.listdir(tmp_path / "a") == []
    with new_folder(path) as beside:
        write_atomically(os.path.join(beside, "whole"), b"")
    assert os.listdir(path) == ["whole"]
    with pytest.raises(UserError, match="exists already"), new_folder(path):
        pass
