"""python -m adapter_bert_tf.show as a user starts it."""

import dataclasses
import json
import os
import pathlib
import shutil

import pytest

from adapter_bert_tf.base.load import find_base
from adapter_bert_tf.encoder.adapter import AdapterConfig
from adapter_bert_tf.experiment import about
from adapter_bert_tf.experiment.places import Places
from adapter_bert_tf.experiment.records import COMPLETE, FAILED, Record, write_records
from adapter_bert_tf.experiment.table import Experiment
from adapter_bert_tf.pack.pack import read_pack, read_tensors
from adapter_bert_tf.run.folder import RunFolder
from adapter_bert_tf.run.settings import ClassifierSettings, SquadSettings
from adapter_bert_tf.serve.export import export_packs
from adapter_bert_tf.tuning.methods import Tuning
from tests import tiny
from tests.programs import run_quickly, run_without_tensorflow
from tests.serve.tasks import load, make_pack

PROGRAM = "adapter_bert_tf.show"
DESIGN = AdapterConfig(5, layers=(0, 2), parallel=True)


def _show(path, run=run_without_tensorflow) -> list[tuple[str, str]]:
    """Returns the names and texts of the lines, whose texts all start at the same column."""
    done = run(PROGRAM, str(path))
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line]
    start = max(len(line.split()[0]) for line in lines) + 2
    assert all(not line[:start].split()[1:] for line in lines), done.stdout
    return [(line[:start].strip(), line[start:]) for line in lines]


@pytest.fixture(scope="module")
def pack(bert, tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("packs") / "many"
    tuning = Tuning(layer_norms=False)
    return make_pack(
        bert, folder, "many", DESIGN, classes=12, tuning=tuning, max_seq_length=24, pair=True
    )


def test_a_pack(bert, pack):
    shown = dict(_show(pack))
    described = read_pack(pack)
    assert shown["pack"] == pack
    assert shown["task"] == "many: classification"
    assert shown["labels"].startswith("many-0, many-1, ")
    assert shown["labels"].endswith("many-7, … (12 in all)")
    assert set(shown["tuning"].split()) == {
        "adapters",
        "layer_norms=False",
        "adapter_size=5",
        "adapter_layers=0,2",
        "adapter_design=parallel",
        "adapter_sites=attention,feed_forward",
        "adapter_scaling=1.0",
    }
    assert shown["metrics"] == "f1 0.5000"
    assert shown["base"] == f"{bert}/bert_model.ckpt, fingerprint {_fingerprint(pack)}"
    assert shown["inputs"] == "max_seq_length=24 pair=True"
    tensors = read_tensors(pack, described).values()
    parameters = sum(tensor.size for tensor in tensors)
    assert shown["size"].startswith(f"{parameters:,} parameters in {len(tensors)} variables, ")


def _fingerprint(pack: str) -> str:
    return read_pack(pack).base["fingerprint"][:12]


def test_a_base_has_the_fingerprint_of_its_packs(bert, pack):
    for path in (bert, f"{bert}/bert_model.ckpt"):
        shown = dict(_show(path, run_quickly))
        assert shown["fingerprint"] == _fingerprint(pack)
        parameters = sum(tensor.size for tensor in tiny.google_tensors().values())
        assert shown["size"] == f"{parameters:,} parameters"
        assert shown["vocab"] == f"{tiny.WORDS} tokens, lower-cased"
        assert shown["format"] == "TensorFlow checkpoint"
        assert shown["layers"].startswith(f"{tiny.LAYERS}, {tiny.WIDTH} wide")


def test_an_export_or_the_newest_of_a_model(bert, pack, tmp_path):
    other = make_pack(
        bert, tmp_path / "b", "b", dataclasses.replace(DESIGN, size=3), None, max_seq_length=9
    )
    version = export_packs(find_base(bert), [pack, other], str(tmp_path / "model" / "10"))
    (tmp_path / "model" / "9").mkdir()
    lines = _show(version)
    assert _show(tmp_path / "model") == lines
    assert [text for name, text in lines if name == "task"] == [
        "many: classification",
        "b: regression",
    ]
    assert ("export", version) in lines
    assert ("inputs", "max_seq_length=9") in lines
    found = {text.split(":")[0]: text for name, text in lines if name == "signature"}
    for name, function in load(version).items():
        takes, gives = found.pop(name).removeprefix(f"{name}: ").split(" -> ")
        assert set(takes.split(", ")) == set(function.structured_input_signature[1])
        assert set(gives.split(", ")) == set(function.structured_outputs)
    assert not found
    held = sum(path.stat().st_size for path in pathlib.Path(version).rglob("*") if path.is_file())
    size, unit = dict(lines)["size"].split()
    assert float(size) * {"KB": 1e3, "MB": 1e6}[unit] == pytest.approx(held, rel=0.01)


def test_an_export_of_an_older_version():
    lines = _show(pathlib.Path(__file__).parent / "serve" / "before" / "export")
    assert [text for name, text in lines if name == "task"] == [
        "a: classification",
        "b: regression",
    ]
    assert "signature" not in dict(lines)


def _run(folder, settings) -> RunFolder:
    run = RunFolder(str(folder))
    run.claim(settings.identity())
    return run


def test_a_run_that_was_stopped_and_finished(pack, tmp_path):
    settings = ClassifierSettings(
        output_dir=str(tmp_path / "run"),
        train_file="train.csv",
        bert="minilm",
        num_train_epochs=4.0,
        adapter=DESIGN,
        tuning=Tuning(from_layer=2),
    )
    run = _run(tmp_path / "run", settings)
    shown = dict(_show(tmp_path / "run"))
    assert shown["base"] == "minilm"
    assert set(shown["settings"].split()) == {
        "train_file=train.csv",
        "num_train_epochs=4.0",
        "adapter_size=5",
        "adapter_layers=0,2",
        "adapter_design=parallel",
        "adapter_sites=attention,feed_forward",
        "adapter_scaling=1.0",
        "from_layer=2",
    }
    assert shown["progress"] == "0 of 4 epochs; the same command resumes it"
    assert "pack" not in shown
    run.write_history([{"train": {}, "dev": {"f1": 0.5}}])
    shutil.copytree(pack, run.pack)
    shown = dict(_show(tmp_path / "run"))
    assert shown["progress"].startswith("1 of 4 epochs")
    assert (shown["pack"], shown["metrics"]) == (run.pack, "f1 0.5000")
    results = {
        "task": "mine",
        "metrics": {"f1": 0.75},
        "epochs": [{"train": {}, "dev": {}}] * 4,
        "steps": 1234,
    }
    run.write_results({**results, "seconds": 61.2, "settings": dataclasses.asdict(settings)})
    shown = dict(_show(tmp_path / "run"))
    assert shown["progress"] == "finished: 4 epochs, 1,234 steps, 61 s"
    assert (shown["task"], shown["metrics"]) == ("mine", "f1 0.7500")


def test_runs_of_questions_and_of_other_learning_rates(tmp_path):
    for name, rate, told in (("a", None, ""), ("b", 1e-3, " learning_rate=0.001")):
        settings = SquadSettings(
            output_dir=str(tmp_path / name), doc_stride=64, learning_rate=rate, pack="a/pack"
        )
        _run(tmp_path / name, settings)
        shown = dict(_show(tmp_path / name))
        assert sorted(shown["settings"].split()) == sorted(
            f"doc_stride=64 pack=a/pack{told}".split()
        )


def test_an_experiment(pack, tmp_path):
    identity = about.identify("sweep", Experiment("A sweep", (), "tiny", ()), Places(""))
    told = about.collect(identity, "sweeps", ["--space=a b"])
    about.write(str(tmp_path), told)
    assert dict(_show(tmp_path))["trials"] == "none yet"
    shutil.copytree(pack, tmp_path / "trials/good/pack")
    good = Record("t", "adapters", {"adapter_size": 8}, 0, COMPLETE, "accuracy", 0.5, test=0.25)
    records = [
        dataclasses.replace(good, folder=str(tmp_path / "trials/good")),
        dataclasses.replace(good, seed=1, value=0.75, test=0.5),
        dataclasses.replace(good, settings={"adapter_size": 2}, value=0.99),
        dataclasses.replace(good, seed=2, state=FAILED, value=None, test=None),
    ]
    write_records(str(tmp_path), records)
    shown = dict(_show(tmp_path))
    assert shown["experiment"] == str(tmp_path)
    assert shown["command"] == "python -m sweeps '--space=a b'"
    assert shown["trials"] == "3 complete, 1 failed"
    # A single seed does not win against the mean of two.
    assert shown["best"] == "t adapters: accuracy 0.6250  test 0.3750  (2 seeds)"
    assert shown["settings"] == "adapter_size=8"
    assert dict(_show(shown["pack"]))["task"] == "many: classification"


def test_mistakes_are_told_in_a_line(pack, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "pack.json").write_text("{")
    cut = shutil.copytree(pack, tmp_path / "cut")
    weights = next(pathlib.Path(cut).glob("*.safetensors"))
    weights.write_bytes(weights.read_bytes()[:20])
    export = tmp_path / "export" / "assets.extra"
    export.mkdir(parents=True)
    (export / "adapter_bert_tf.json").write_text(json.dumps({"format": 3}))
    for path, told in (
        ("empty", "neither a pack nor a run, an experiment, an export or a BERT"),
        ("nowhere", "no such folder, checkpoint or preset"),
        ("minilmm", "did you mean minilm?"),
        ("broken", "not JSON"),
        ("cut", weights.name),
        ("export", "expected a field"),
    ):
        done = run_quickly(PROGRAM, path, cwd=tmp_path)
        assert done.returncode == 1, path
        assert told in done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
        assert done.stdout == ""
    assert run_quickly(PROGRAM).returncode == 1
    assert os.listdir(tmp_path / "empty") == []


def test_settings_without_a_number_of_epochs(tmp_path):
    (tmp_path / "settings.json").write_text('{"tuning": {}}')
    assert dict(_show(tmp_path))["progress"] == "0 epochs; the same command resumes it"
