import json

import pytest

import adapter_bert_tf as ab
from adapter_bert_tf import UserError
from adapter_bert_tf.baseline.space import Design
from adapter_bert_tf.run.baseline import TextsOfTasks, run_baseline
from adapter_bert_tf.run.settings import ClassifierSettings, make_settings
from tests.baseline import made


@pytest.fixture(scope="module")
def design(tmp_path_factory) -> Design:
    module = made.write_second_format(tmp_path_factory.mktemp("modules") / "module")
    return Design(module=module, deep_rate=0.1, wide_rate=0.1)


def _settings(tmp_path, rows: list[dict], **more) -> ClassifierSettings:
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = {"train_file": str(path), "output_dir": str(tmp_path / "run")}
    return make_settings(ClassifierSettings, {**given, "cache_dir": str(tmp_path), **more})


def _rows(label) -> list[dict]:
    texts, labels = made.texts_and_labels(80)
    return [{"text": text, "label": label(y)} for text, y in zip(texts, labels, strict=True)]


def test_a_value(tmp_path, design):
    assert run_baseline(_settings(tmp_path, _rows(lambda y: float(y) + 0.5)), design)
    task = ab.load_task(str(tmp_path / "run" / "pack"), trust_module=True)
    assert task.metrics["pearson"] > 0.5
    assert task.predict([made.YES])[0].value > task.predict([made.NO])[0].value


def test_several_labels(tmp_path, design):
    rows = _rows(lambda y: "a;b" if y else "a")
    assert run_baseline(_settings(tmp_path, rows, label_separator=";"), design)
    task = ab.load_task(str(tmp_path / "run" / "pack"), trust_module=True)
    assert task.predict([made.YES])[0].labels == ("a", "b")


def test_pairs_and_fewer_examples(tmp_path, design):
    rows = [{**row, "text_pair": "word3"} for row in _rows(lambda y: "yes" if y else "no")]
    texts = TextsOfTasks()
    settings = _settings(tmp_path, rows, max_train_examples=30)
    assert run_baseline(settings, design, texts)
    assert len(texts(settings).labels["train"]) == 30
    task = ab.load_task(str(tmp_path / "run" / "pack"), trust_module=True)
    assert task.predict([made.YES], ["word3"])[0].label == "yes"
    with pytest.raises(UserError, match="it needs the second texts too"):
        task.predict(["a"])


def test_records_have_no_text(tmp_path, design):
    path = tmp_path / "train.tfrecord"
    path.write_bytes(b"")
    settings = make_settings(
        ClassifierSettings, {"train_file": str(path), "output_dir": str(tmp_path / "run")}
    )
    with pytest.raises(UserError, match="TFRecords have no text"):
        run_baseline(settings, design)
