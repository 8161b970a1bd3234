"""Exports as Python objects."""

import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
import tensorflow as tf

import adapter_bert_tf as ab
from adapter_bert_tf.serve import DESCRIPTION_FILE, WARMUP_FILE
from adapter_bert_tf.serve.description import find_export
from tests.serve.kinds import export_every_kind
from tests.serve.tasks import PAIRS, TEXTS

CONTEXT = "w1 é中 w2 w3, w4. w5 w6 w7"


@pytest.fixture(scope="module")
def exported(bert, tmp_path_factory) -> tuple[str, dict[str, str]]:
    return export_every_kind(bert, tmp_path_factory.mktemp("kinds"))


@pytest.fixture(scope="module")
def export(exported) -> ab.LoadedExport:
    return ab.load_export(exported[0])


def _close(found, wanted) -> None:
    """Compares predictions, which are tuples of texts, numbers and tuples."""
    assert type(found) is type(wanted)
    for ours, theirs in zip(found, wanted, strict=True):
        if isinstance(theirs, tuple):
            assert list(ours) == pytest.approx(list(theirs), abs=1e-5)
        elif isinstance(theirs, float):
            assert ours == pytest.approx(theirs, abs=1e-5)
        else:
            assert ours == theirs


@pytest.mark.parametrize("name", ["film", "same", "stars", "tone"])
def test_predictions_are_those_of_the_task(bert, exported, export, name):
    task = ab.load_task(exported[1][name], bert)
    pairs = PAIRS if name == "same" else None
    found = export[name].predict(TEXTS, pairs, batch_size=3)
    for ours, theirs in zip(found, task.predict(TEXTS, pairs), strict=True):
        _close(ours, theirs)
    assert export[name].labels == task.labels
    assert export[name].metrics == task.metrics
    assert export[name].predict([], [] if pairs else None) == []


def test_all_tasks_predict_as_each_does(export):
    everything = export.predict_all(TEXTS, PAIRS, batch_size=3)
    assert list(everything) == ["film", "same", "stars", "tone"]
    for name, found in everything.items():
        alone = export[name].predict(TEXTS, PAIRS if name == "same" else None)
        for ours, theirs in zip(found, alone, strict=True):
            _close(ours, theirs)
    without = export.predict_all(TEXTS)
    assert list(without) == ["film", "stars", "tone"]
    _close(without["stars"][1], everything["stars"][1])
    assert export.predict_all([]) == {"film": [], "stars": [], "tone": []}


def test_of_many_tasks_fewer_texts_are_asked_at_a_time(export, monkeypatch):
    asked, ask = [], export.ask
    monkeypatch.setattr(export, "ask", lambda *a: asked.append(len(a[1]["text"])) or ask(*a))
    export.predict_all(TEXTS, PAIRS, batch_size=9)
    assert asked == [2, 2]
    export.predict_all(TEXTS[:1], PAIRS[:1], batch_size=1)
    assert asked == [2, 2, 1]


def test_an_export_of_questions_has_nothing_to_say_of_texts(export):
    squad = dataclasses.replace(export.described, tasks=export.described.tasks[-1:])
    with pytest.raises(ab.UserError, match="all tasks are on questions, use answer"):
        ab.LoadedExport(squad, export).predict_all(["w1"])


def test_it_warms_up_from_a_remote_folder_too(export, monkeypatch):
    folder = "ram://loaded/model/1"
    name = f"{folder}/assets.extra/tf_serving_warmup_requests"
    tf.io.gfile.makedirs(os.path.dirname(name))
    tf.io.gfile.copy(name.replace(folder, export.folder), name)
    asked: list[str] = []
    known = {each: lambda each=each, **_: asked.append(each) for each in export.signatures}
    monkeypatch.setattr(export, "signatures", known)
    monkeypatch.setattr(export, "described", dataclasses.replace(export.described, folder=folder))
    export.warm_up()
    assert sorted(asked) == sorted(known)


def test_answers_are_those_of_the_task_and_counted_in_characters(bert, exported, export):
    task = ab.load_task(exported[1]["squad"], bert)
    for context in (CONTEXT, "é" * 3 + CONTEXT):
        found = export["squad"].answer("w1 w2", context)
        _close(found, task.answer("w1 w2", context))


def test_what_it_can_not_do_is_told(export, tmp_path):
    assert list(export) == ["film", "same", "stars", "tone", "squad"]
    with pytest.raises(KeyError, match="serves film, same, stars, tone, squad, not other"):
        export["other"]
    with pytest.raises(ab.UserError, match="film: a task on texts, use predict"):
        export["film"].answer("w1", CONTEXT)
    with pytest.raises(ab.UserError, match="squad: a task on questions"):
        export["squad"].predict(["w1"])
    with pytest.raises(ab.UserError, match="same: a task on pairs"):
        export["same"].predict(["w1"])
    with pytest.raises(ab.UserError, match="a list of texts"):
        export["film"].predict("w1")
    with pytest.raises(ab.UserError, match="batch_size: expected a whole number from 1"):
        export["film"].predict(["w1"], batch_size=0)
    with pytest.raises(ab.UserError, match="text 0: expected a text that UTF-8 can hold"):
        export["film"].predict(["\ud800"])
    with pytest.raises(ab.UserError, match="question: expected a text, not 1"):
        export["squad"].answer(1, CONTEXT)
    with pytest.raises(ab.UserError, match="nowhere.*No such file"):
        ab.load_export(tmp_path / "nowhere")


def test_a_version_that_is_still_being_written_is_not_taken(exported, tmp_path):
    (tmp_path / "1").symlink_to(f"{exported[0]}/1")
    os.makedirs(tmp_path / "2" / "assets.extra")
    name = "assets.extra/adapter_bert_tf.json"
    os.symlink(f"{exported[0]}/1/{name}", tmp_path / "2" / name)
    assert find_export(tmp_path) == str(tmp_path / "1")
    with pytest.raises(ab.UserError, match="2: .*") as error:
        ab.load_export(tmp_path / "2")
    assert "\n" not in str(error.value)


@pytest.fixture
def copied(exported, tmp_path) -> pathlib.Path:
    """A copy of the version, to be damaged."""
    return pathlib.Path(shutil.copytree(f"{exported[0]}/1", tmp_path / "1"))


_DATA = "variables/variables.data-00000-of-00001"


@pytest.mark.parametrize("name", ["saved_model.pb", "variables/variables.index", _DATA])
def test_a_pipe_in_an_export_is_told(copied, name):
    (copied / name).unlink()
    os.mkfifo(copied / name)
    with pytest.raises(ab.UserError, match=f"{name}: expected a file, not a pipe"):
        ab.load_export(copied)


def test_a_damaged_export_is_told(copied, tmp_path):
    os.truncate(copied / _DATA, 1000)
    with pytest.raises(ab.UserError, match="can't be loaded"):
        ab.load_export(copied)


def test_another_saved_model_is_told(copied, tmp_path):
    tf.saved_model.save(tf.Module(), str(tmp_path / "other"))
    for name in ("saved_model.pb", "variables"):
        shutil.rmtree(copied / name, ignore_errors=True)
        (copied / name).unlink(missing_ok=True)
        shutil.move(tmp_path / "other" / name, copied / name)
    with pytest.raises(ab.UserError, match="not the described SavedModel; .* serving_default"):
        ab.load_export(copied)


def test_wrong_requests_to_warm_up_with_are_told(copied):
    export, path = ab.load_export(copied), copied / WARMUP_FILE
    export.warm_up()
    path.write_bytes(b"garbage" * 10)
    with pytest.raises(ab.UserError, match="cut short or damaged"):
        export.warm_up()
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(b"abcd")
    with pytest.raises(ab.UserError, match="expected requests to this export"):
        export.warm_up()
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ab.UserError, match="not a pipe"):
        export.warm_up()


def test_an_error_of_a_row_is_told(copied):
    path = copied / DESCRIPTION_FILE
    path.write_text(path.read_text().replace('"name": "film"', '"name": "movie"'))
    with pytest.raises(ab.UserError, match="movie: row 0: .*movie"):
        ab.load_export(copied)["movie"].predict(["w1"])


def test_an_empty_second_text_is_answered_as_the_task_does(bert, exported, export):
    task = ab.load_task(exported[1]["same"], bert)
    _close(export["same"].predict(["w1"], [""])[0], task.predict(["w1"], [""])[0])


def test_the_card_names_the_base_and_shortens_labels(bert, exported):
    with open(f"{exported[0]}/1/README.md", encoding="utf-8") as file:
        card = file.read()
    fingerprint = ab.read_pack(exported[1]["film"]).base["fingerprint"][:12]
    assert f"{os.path.basename(bert)} (fingerprint {fingerprint})" in card
    assert os.path.dirname(bert) not in card
    assert "<i>long</i>, a label that is too lon… |" in card
    assert "same-7, … (9 in all) |" in card


@pytest.mark.slow
def test_the_commands_of_the_card_answer(exported):
    """The lines without a server, as a shell runs them."""
    with open(f"{exported[0]}/1/README.md", encoding="utf-8") as file:
        part = file.read().split("## Without a server")[1].split("## Operations")[0]
    lines = [line.removeprefix("    ") for line in part.splitlines() if line.startswith("    ")]
    split = next(i for i, line in enumerate(lines) if line.startswith("python -c"))
    python, shell = "\n".join(lines[:split]), "\n".join(lines[split:])
    where = os.path.dirname(exported[0])
    env = {**os.environ, "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"}
    env["PYTHONPATH"] = os.pathsep.join(sys.path)
    printed = [sys.executable, "-c", python.replace("\nexport[", "\nprint(export[") + ")"]
    done = subprocess.run(printed, cwd=where, env=env, capture_output=True, text=True)
    assert "Prediction(label='film-" in done.stdout, done.stderr
    done = subprocess.run(shell, cwd=where, env=env, shell=True, capture_output=True, text=True)
    assert "Result for output key label" in done.stdout, done.stderr
