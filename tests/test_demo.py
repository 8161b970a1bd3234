import importlib.metadata
import subprocess
import sys

import pytest

from adapter_bert_tf import UserError, demo
from adapter_bert_tf.data.examples import TaskFiles
from adapter_bert_tf.data.sources import find_task
from adapter_bert_tf.data.task import DEV, TEST, TRAIN
from adapter_bert_tf.heads.kinds import TEXT_LABELS
from adapter_bert_tf.serve.loaded import load_export


def _skip_without_package():
    try:
        importlib.metadata.distribution(demo._PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{demo._PACKAGE} is not installed")


def test_the_embedded_data_is_in_the_layout_of_the_collection(tmp_path):
    _skip_without_package()
    demo.write_sms_spam(str(tmp_path))
    files = TaskFiles(find_task("sms_spam"), str(tmp_path), TEXT_LABELS)
    parts = [files.read(name) for name in (TRAIN, DEV, TEST)]
    # The package has 4,837 of the collection's 5,574 messages.
    assert [len(part) for part in parts] == [3869, 483, 485]
    assert sum(sum(part.labels) for part in parts) == 638


def test_a_missing_package_is_told_with_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "_PACKAGE", "not-there")
    with pytest.raises(UserError, match="run_classifier.py --task=sms_spam"):
        demo.write_sms_spam(str(tmp_path))


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    _skip_without_package()
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="file/data: Not a directory"):
        demo.write_sms_spam(str(tmp_path / "file" / "data"))


@pytest.mark.slow
def test_the_demo_tunes_and_classifies(tmp_path):
    _skip_without_package()
    command = [sys.executable, "-m", "adapter_bert_tf.demo", f"--output_dir={tmp_path}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    accuracy = next(line for line in lines if line.startswith("accuracy = "))
    assert float(accuracy.split(" = ")[1]) > 0.97
    assert [line.split()[0] for line in lines[-7:-4]] == ["ham", "spam", "ham"]
    assert lines[-1].endswith(f" -m adapter_bert_tf.playground --export_dir={tmp_path}/model")
    exported = subprocess.run(lines[-2].split(), capture_output=True, text=True)
    assert exported.returncode == 0, exported.stderr
    predictions = load_export(tmp_path / "model")["sms_spam"].predict(demo._SENTENCES)
    assert [prediction.label for prediction in predictions] == ["ham", "spam", "ham"]
