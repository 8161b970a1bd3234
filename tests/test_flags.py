import dataclasses
import subprocess
import sys
import time

import pytest
from absl import flags

from adapter_bert_tf import AdapterConfig, UserError
from adapter_bert_tf.flags import define_flags, read_settings
from adapter_bert_tf.options import option, options_of
from adapter_bert_tf.run import settings as run_settings
from adapter_bert_tf.run.settings import ClassifierSettings, SquadSettings, option_sets
from tests.own_flags import make_flags
from tests.programs import ROOT

KINDS = [ClassifierSettings, SquadSettings]


@pytest.fixture
def values(monkeypatch) -> flags.FlagValues:
    return make_flags(monkeypatch)


def _read(values, kind, *arguments):
    define_flags(kind)
    values(["program", "--output_dir=run", *arguments])
    return read_settings(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_every_option_is_a_flag_with_its_default_and_help(values, kind):
    settings = _read(values, kind, *(["--task=CoLA"] if kind is ClassifierSettings else []))
    owners = {kind: settings, **{type(each): each for each in _parts(settings)}}
    shown = {}
    for owner, prefix in option_sets(kind):
        for name, each in options_of(owner, prefix).items():
            shown[name] = values[name].help
            assert values[name].help.endswith(f": {each.help}") or f": {each.help} [" in shown[name]
            assert all(values[alias].name == alias for alias in each.aliases)
            # What is None by default may follow from others.
            if name not in ("output_dir", "task", *settings.parts) and each.default is not None:
                assert getattr(owners[owner], each.field) == each.default, name
    # 0 is a default that has to be shown; nothing and False are not.
    assert shown["seed"].endswith(" [0]")
    assert shown["adapter_design"].endswith(" [houlsby]")
    assert "[" not in shown["pad_to_max"]
    assert "[" not in shown["adapter_layers"]


def _parts(settings):
    return settings.adapter, settings.tuning, settings.devices


def test_every_field_of_these_classes_is_an_option():
    nested = {"adapter", "tuning", "devices", "explicit"}
    for kind in KINDS:
        # Adapters that were imported have another epsilon; nobody would choose one.
        others = {kind: nested, AdapterConfig: {"epsilon"}}
        for owner, prefix in option_sets(kind):
            fields = {field.name for field in dataclasses.fields(owner)}
            found = {each.field for each in options_of(owner, prefix).values()}
            assert fields - found == others.get(owner, set())


def test_the_names_of_the_original_mean_the_same(values):
    settings = _read(
        values,
        ClassifierSettings,
        "--task_name=CoLA",
        "--init_checkpoint=folder/bert_model.ckpt",
        "--train_layer_norms=false",
        "--train_from_layer=2",
        "--iterations_per_loop=1000",
        "--master=local",
    )
    assert (settings.task, settings.bert) == ("CoLA", "folder/bert_model.ckpt")
    assert (settings.tuning.layer_norms, settings.tuning.from_layer) == (False, 2)


def test_lists_and_numbers_are_read(values):
    settings = _read(
        values,
        ClassifierSettings,
        "--train_file=a.csv",
        "--label_column=a,b",
        "--adapter_layers=2,1",
        "--adapter_sites=attention",
        "--adapter_size=8",
        "--learning_rate=1e-4",
    )
    assert settings.label_column == ("a", "b")
    assert (settings.adapter.layers, settings.adapter.sites) == ((1, 2), ("attention",))
    assert (settings.adapter.size, settings.rate) == (8, 1e-4)


def test_a_new_field_of_the_adapters_is_a_flag_by_itself(values, monkeypatch):
    wider = dataclasses.make_dataclass(
        "Wider",
        [
            ("gates", tuple[int, ...], option((1, 2), "Gates.")),
            ("depth", float, option(0.0, "Depth.")),
        ],
        bases=(run_settings.AdapterConfig,),
        frozen=True,
    )
    monkeypatch.setattr(run_settings, "AdapterConfig", wider)
    flag = "--adapter_gates=3,4"
    settings = _read(values, ClassifierSettings, "--task=CoLA", flag, "--adapter_depth=0.5")
    assert (settings.adapter.gates, settings.adapter.depth) == ((3, 4), 0.5)
    assert values["adapter_gates"].help == "Tuning: Gates. [1,2]"


@pytest.mark.parametrize(
    ("given", "done"),
    [
        ([], ["do_train", "do_eval"]),
        (["--do_train"], ["do_train"]),
        (["--do_train=true", "--do_eval=true"], ["do_train", "do_eval"]),
        (["--do_predict"], ["do_predict"]),
        (["--do_eval=false"], ["do_train"]),
        (["--nodo_train"], ["do_eval"]),
        (["--do_train", "--do_eval=false", "--do_predict"], ["do_train", "do_predict"]),
    ],
)
def test_parts_that_are_not_asked_for_are_off(values, given, done):
    settings = _read(values, ClassifierSettings, "--task=CoLA", *given)
    assert [name for name in ("do_train", "do_eval", "do_predict") if getattr(settings, name)] == (
        done
    )


@pytest.mark.parametrize(
    ("given", "done"),
    [
        ([], ["do_train", "do_predict"]),
        (["--do_train"], ["do_train"]),
        (["--do_predict=true"], ["do_predict"]),
        (["--do_predict=false"], ["do_train"]),
    ],
)
def test_squad_trains_and_predicts_by_default(values, given, done):
    settings = _read(values, SquadSettings, *given)
    assert [name for name in ("do_train", "do_predict") if getattr(settings, name)] == done


def test_nothing_to_do_is_told(values):
    with pytest.raises(UserError, match="nothing to do: expected --do_train or --do_eval or"):
        _read(values, ClassifierSettings, "--task=CoLA", "--nodo_train", "--nodo_eval")


_WITHOUT_TENSORFLOW = """
import sys
import adapter_bert_tf.flags, adapter_bert_tf.run.settings, adapter_bert_tf.run.source
print(sorted({"tensorflow", "tf_keras", "official", "sklearn", "scipy"} & sys.modules.keys()))
"""


def test_flags_settings_and_sources_do_not_load_tensorflow():
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_TENSORFLOW], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run_classifier.py"], "expected either --task, or files of your own"),
        (["run_classifier.py", "--output_dir=x"], "expected either --task, or files of your own"),
        (["run_classifier.py", "--output_dir=x", "--task=CoLLA"], "did you mean CoLA"),
        (["run_classifier.py", "--output_dir=x", "--train_file=no.csv"], "no.csv: No such file"),
        (
            ["run_classifier.py", "--output_dir=x", "--train_file={csv}", "--text_column=body"],
            "--text_column=body: no such column in",
        ),
        (
            ["run_classifier.py", "--output_dir=x", "--task=CoLA", "--adapter_size=0"],
            "--adapter_size=0: expected a whole number from 1 to 8,192",
        ),
        (["run_squad.py", "--output_dir=x", "--train_file=no.json"], "no.json: no such file"),
        (["run_squad.py", "--output_dir=x", "--doc_stride=0"], "--doc_stride=0: expected"),
    ],
)
def test_wrong_flags_end_in_one_line_before_tensorflow_is_loaded(tmp_path, arguments, told):
    (tmp_path / "a.csv").write_text("text,label\na,1\nb,0\n")
    program, *rest = (each.format(csv=tmp_path / "a.csv") for each in arguments)
    command = [sys.executable, "-X", "importtime", str(ROOT / program), *rest]
    start = time.monotonic()
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    # About a third of a second; TensorFlow alone takes 3.
    assert time.monotonic() - start < 10
    lines = [line for line in done.stderr.splitlines() if not line.startswith("import time:")]
    assert len(lines) == 1, lines
    assert lines[0].startswith("error: ")
    assert told in lines[0]
    assert done.returncode == 1
    imported = {line.split("|")[-1].strip() for line in done.stderr.splitlines() if "|" in line}
    assert "adapter_bert_tf.run.settings" in imported
    assert "tensorflow" not in imported
    assert not (tmp_path / "x").exists()
