import json
import pathlib

import pytest

from adapter_bert_tf import UserError
from adapter_bert_tf.data.sources import OriginalFiles, OwnFiles, RecordFiles, Tfds
from adapter_bert_tf.data.task import DEV, TEST, TRAIN
from adapter_bert_tf.run.settings import ClassifierSettings, SquadSettings, make_settings
from adapter_bert_tf.run.source import check_files, check_squad_files, find_source, split_names
from tests.programs import run_without_tensorflow


@pytest.fixture
def files(tmp_path) -> pathlib.Path:
    rows = ["text,label", *(f"text {i},{i % 2}" for i in range(40))]
    for name in ("train.csv", "dev.csv", "test.csv"):
        (tmp_path / name).write_text("\n".join(rows))
    (tmp_path / "a.tfrecord").write_bytes(b"")
    (tmp_path / "train.tsv").write_text("a\t1\t\tx\nb\t0\t\ty\n")
    return tmp_path


def _settings(files, **values) -> ClassifierSettings:
    paths = {name: f"{files}/{value}" if "." in value else value for name, value in values.items()}
    return make_settings(ClassifierSettings, {"output_dir": "run", **paths})


def _squad(**values) -> SquadSettings:
    return make_settings(SquadSettings, {"output_dir": "run", **values})


def test_sources_are_found_by_what_is_given(files):
    assert isinstance(find_source(_settings(files, train_file="train.csv")), OwnFiles)
    assert isinstance(find_source(_settings(files, train_file="a.tfrecord")), RecordFiles)
    assert isinstance(find_source(_settings(files, task="CoLA")), Tfds)
    only_train = make_settings(
        ClassifierSettings,
        {"output_dir": "run", "task": "CoLA", "data_dir": str(files), "do_train": True},
    )
    assert isinstance(find_source(only_train), OriginalFiles)


def test_options_for_tables_are_passed_on(tmp_path):
    (tmp_path / "a.csv").write_bytes("kind#body#second\nx#hällo#b\n#c#d\ny#e#f\n".encode("cp437"))
    values = {
        "output_dir": "run",
        "train_file": str(tmp_path / "a.csv"),
        "do_train": True,
        "text_column": "body",
        "text_pair_column": "second",
        "label_column": "kind",
        "skip_unlabelled": True,
        "encoding": "cp437",
        "delimiter": "#",
        "name": "mine",
    }
    source = find_source(make_settings(ClassifierSettings, values))
    read = source.read(TRAIN)
    assert (read.texts, read.pairs, read.labels) == (["hällo", "e"], ["b", "f"], [0, 1])
    assert (source.task.name, source.labels) == ("mine", ("x", "y"))
    with pytest.raises(UserError, match="expected a number"):
        find_source(make_settings(ClassifierSettings, {**values, "regression": True})).read(TRAIN)


@pytest.mark.parametrize(
    ("examples", "told"),
    [({"task": "CoLA"}, "--task"), ({"train_file": "a.tfrecord"}, "TFRecords")],
)
@pytest.mark.parametrize(
    "option",
    [
        {"text_column": "a"},
        {"text_pair_column": "a"},
        {"label_column": "a"},
        {"label_separator": ","},
        {"encoding": "latin1"},
        {"delimiter": ";"},
        {"kind": "regression"},
        {"skip_unlabelled": True},
        {"regression": True},
    ],
)
def test_options_for_tables_are_refused_where_there_is_none(examples, told, option):
    settings = make_settings(ClassifierSettings, {"output_dir": "run", **examples, **option})
    with pytest.raises(UserError, match=f"--{next(iter(option))}: is for tables.*not for {told}"):
        check_files(settings)


def test_stopping_early_needs_a_dev_set(files):
    values = {"output_dir": "run", "train_file": f"{files}/a.tfrecord", "early_stopping": 2}
    with pytest.raises(UserError, match="--early_stopping=2: there is no dev set"):
        check_files(make_settings(ClassifierSettings, values))


def test_a_dev_set_is_drawn_by_the_seed_only_for_a_run_that_evaluates(files):
    def dev(**more):
        path = str(files / "train.csv")
        values = {"output_dir": "run", "train_file": path, **more}
        settings = make_settings(ClassifierSettings, values)
        source = find_source(settings)
        return split_names(settings, source, DEV) and source.read(DEV).texts

    assert len(dev()) == 4
    assert dev() == dev(seed=0) != dev(seed=1)
    assert dev(do_train=True) == []
    assert len(dev(dev_file=str(files / "dev.csv"))) == 40


def test_mnli_has_two_sets_of_a_kind(files):
    settings = _settings(files, task="MNLI")
    source = find_source(settings)
    assert split_names(settings, source, DEV) == ["dev_matched", "dev_mismatched"]
    assert split_names(settings, source, TEST) == ["test_matched", "test_mismatched"]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"dev_file": "dev.csv"}, "--do_train: there is no train set; give --train_file"),
        ({"train_file": "train.csv", "do_predict": True, "do_train": True}, "no test set"),
        ({"train_file": "a.tfrecord", "do_eval": True}, "no dev set; give --dev_file"),
        ({"train_file": "no.tfrecord"}, "no.tfrecord: no such file"),
        ({"train_file": "train.csv", "dev_file": "no.csv"}, "no.csv: No such file"),
        ({"train_file": "train.csv", "dev_file": "a.tfrecord"}, "expected a name that ends in"),
        ({"task": "CoLA", "data_dir": "/nowhere"}, "--data_dir=/nowhere: no such folder"),
        ({"task": "sms_spam"}, "--data_dir: sms_spam is not in TFDS"),
    ],
)
def test_what_is_missing_is_told(files, values, told):
    paths = {
        name: f"{files}/{value}" if name.endswith("_file") else value
        for name, value in values.items()
    }
    with pytest.raises(UserError, match=told):
        find_source(make_settings(ClassifierSettings, {"output_dir": "run", **paths}))


def test_a_dev_file_without_the_column_is_told_before_training(files):
    (files / "dev.csv").write_text("text,mark\na,1\n")
    with pytest.raises(UserError, match="dev.csv: no column 'label'"):
        check_files(_settings(files, train_file="train.csv", dev_file="dev.csv"))


def test_questions_need_files_or_tfds(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"data": []}))
    check_squad_files(_squad())
    check_squad_files(_squad(train_file=str(path)))
    check_squad_files(_squad(predict_file=str(path), do_predict=True))
    for values, told in (
        ({"predict_file": str(path)}, "--do_train: give --train_file"),
        ({"train_file": str(path), "do_predict": True}, "--do_predict: give --predict_file"),
        ({"train_file": str(path), "predict_file": "no.json"}, "--predict_file=no.json: no such"),
        (
            {"train_file": str(path), "do_train": True, "do_predict": True},
            "--do_predict: give --predict_file",
        ),
    ):
        with pytest.raises(UserError, match=told):
            check_squad_files(_squad(**values))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"bert": "/nowhere"}, "/nowhere: no such folder, checkpoint or preset"),
        ({"bert": "minilm", "pack": "/nowhere"}, "/nowhere/pack.json: No such file"),
        ({"bert": "minilm", "test_file": "/no.csv"}, "--test_file=/no.csv: no such file"),
    ],
)
def test_what_is_not_there_is_told_before_anything_is_loaded(given, told, tmp_path):
    table = tmp_path / "train.csv"
    table.write_text("text,label\n" + "a,yes\nb,no\n" * 20)
    with pytest.raises(UserError, match=told):
        check_files(ClassifierSettings(train_file=str(table), **given))


def test_a_squad_file_that_is_no_json_is_told_before_anything_is_loaded(tmp_path):
    path = tmp_path / "train.json"
    path.write_text("no json")
    with pytest.raises(UserError, match=r"train\.json: not JSON"):
        check_squad_files(SquadSettings(train_file=str(path), bert="minilm"))


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (["text 1,0", "text 2,2"], "dev.csv:3: unknown label '2'; known are 0, 1"),
        (["text 1,0", "text 2,"], "dev.csv:3: 'label' is missing"),
    ],
)
def test_wrong_labels_are_told_before_tensorflow_is_loaded(files, rows, told):
    (files / "dev.csv").write_text("\n".join(["text,label", *rows]))
    flags = [f"--{name}_file={files}/{name}.csv" for name in ("train", "dev")]
    done = run_without_tensorflow("run_classifier", *flags, cwd=files)
    assert done.returncode == 1
    assert done.stderr.strip() == f"error: {files}/{told}"
