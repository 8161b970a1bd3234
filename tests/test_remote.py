"""All of it on TensorFlow's file system in memory, beside the same on disk."""

import json
import os
import random

import pytest
import tensorflow as tf

from adapter_bert_tf import UserError, load_task, read_pack
from adapter_bert_tf.files import make_folders, write_atomically
from adapter_bert_tf.run.checkpoint import Checkpoint
from adapter_bert_tf.run.classifier import run_classifier
from adapter_bert_tf.run.settings import ClassifierSettings, SquadSettings
from adapter_bert_tf.run.squad import run_squad
from adapter_bert_tf.serve.description import find_export
from adapter_bert_tf.serve.export import add_packs
from tests import tiny

ROOT = "ram://tests"
CONTEXT = "w1 w2 w3 w4 w5 w6"


class _Killed(BaseException):
    pass


@pytest.fixture(scope="module")
def places(tmp_path_factory) -> list[str]:
    """A BERT and data in a folder on disk, and the same in a remote one."""
    disk = tmp_path_factory.mktemp("disk")
    tiny.write_google_bert(disk / "bert")
    generator = random.Random(0)
    for name, rows in (("train", 24), ("dev", 8), ("test", 8)):
        texts = [f"w{generator.randrange(40)} w{generator.randrange(40)}" for _ in range(rows)]
        lines = [f"{text},{'ab'[row % 2]}\n" for row, text in enumerate(texts)]
        (disk / f"{name}.csv").write_text("text,label\n" + "".join(lines))
    answer = {"text": "w3", "answer_start": CONTEXT.index("w3")}
    asked = [{"id": str(i), "question": f"w{i}", "answers": [answer]} for i in range(12)]
    article = {"title": "t", "paragraphs": [{"context": CONTEXT, "qas": asked}]}
    (disk / "squad.json").write_text(json.dumps({"data": [article]}))
    for path in filter(os.path.isfile, disk.rglob("*")):
        target = f"{ROOT}/{path.relative_to(disk)}"
        make_folders(os.path.dirname(target))
        write_atomically(target, path.read_bytes())
    return [str(disk), ROOT]


def _classify(place: str) -> str:
    settings = ClassifierSettings(
        train_file=f"{place}/train.csv",
        dev_file=f"{place}/dev.csv",
        test_file=f"{place}/test.csv",
        bert=f"{place}/bert",
        vocab_file=f"{place}/bert/vocab.txt",
        output_dir=f"{place}/runs/text",
        cache_dir=f"{place}/cache",
        export_dir=f"{place}/models/all",
        max_seq_length=16,
        train_batch_size=8,
        num_train_epochs=2.0,
        save_checkpoints_steps=1,
        do_train=True,
        do_eval=True,
        do_predict=True,
    )
    with pytest.MonkeyPatch.context() as patch:
        count = Checkpoint.count_step

        def counted(self, is_first):
            count(self, is_first)
            if self.step == 4:
                raise _Killed

        patch.setattr(Checkpoint, "count_step", counted)
        with pytest.raises(_Killed):
            run_classifier(settings)
    assert run_classifier(settings) is not None
    return settings.output_dir


def _answer(place: str) -> str:
    settings = SquadSettings(
        train_file=f"{place}/squad.json",
        predict_file=f"{place}/squad.json",
        bert=f"{place}/bert",
        output_dir=f"{place}/runs/squad",
        cache_dir=f"{place}/cache",
        max_seq_length=16,
        max_query_length=4,
        train_batch_size=8,
        num_train_epochs=1.0,
    )
    assert run_squad(settings) is not None
    return settings.output_dir


def _content(path: str) -> bytes:
    with tf.io.gfile.GFile(path, "rb") as file:
        return file.read()


@pytest.mark.slow
def test_all_is_the_same_bit_for_bit(places, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = []
    for place in places:
        text, squad = _classify(place), _answer(place)
        version = add_packs(f"{place}/models/all/1", [f"{squad}/pack"])
        assert version == f"{place}/models/all/2"
        assert find_export(f"{place}/models/all") == version
        loaded = tf.saved_model.load(version).signatures
        texts = loaded["serving_default"](
            text=tf.constant(["w1 w2", "w7"]), task=tf.constant(["train", "train"])
        )
        answers = loaded["answer"](
            question=tf.constant(["w1"]),
            context=tf.constant([CONTEXT]),
            task=tf.constant(["SQuAD v1.1"]),
        )
        files = {
            name: _content(f"{place}/runs/{name}")
            for name in (
                "text/history.json",
                "text/eval_results.txt",
                "text/predictions.csv",
                "text/confusion.csv",
                "squad/history.json",
                "squad/predictions.json",
                "squad/nbest_predictions.json",
            )
        }
        weights = [read_pack(f"{run}/pack").sha256 for run in (text, squad)]
        cached = {name: _content(f"{place}/cache/{name}") for name in _names(f"{place}/cache")}
        outputs = [*texts.items(), *answers.items()]
        served = [(name, values.numpy().tolist()) for name, values in outputs]
        predicted = load_task(f"{text}/pack").predict(["w1 w2"])
        found.append((files, weights, cached, served, predicted))
        assert not [name for name in _names(text) if name.startswith(".")]
    assert found[0] == found[1]
    # In particular no folder that is called `ram:`.
    assert os.listdir(tmp_path) == []


def _names(folder: str) -> list[str]:
    return sorted(tf.io.gfile.listdir(folder))


def test_mistakes_are_told_in_a_line(places):
    settings = {"train_file": f"{ROOT}/train.csv", "bert": f"{ROOT}/bert", "max_seq_length": 16}
    for changes, told in (
        ({"train_file": f"{ROOT}/none.csv"}, "none.csv: No such file"),
        ({"bert": f"{ROOT}/none"}, "ram://tests/none: no such folder, checkpoint or preset"),
        ({"train_file": "nofs://a/b.csv"}, "nofs://a/b.csv: .*'nofs' not implemented"),
        ({"output_dir": "nofs://a/run"}, "nofs://a/run: .*'nofs' not implemented"),
        ({"pack": f"{ROOT}/bert"}, "bert/pack.json: No such file"),
    ):
        with pytest.raises(UserError, match=told) as error:
            run_classifier(ClassifierSettings(**{**settings, **changes}))
        assert "\n" not in str(error.value)
