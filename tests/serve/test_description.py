"""What exports say about themselves, without TensorFlow."""

import json
import pathlib
import shutil

import pytest

from adapter_bert_tf.errors import UserError
from adapter_bert_tf.serve.description import find_export, read_description

EXPORT = pathlib.Path(__file__).parent / "before" / "export"


def test_sizes_are_those_of_the_files():
    export = read_description(EXPORT)
    assert [task.name for task in export.tasks] == ["a", "b"]
    files = [path for path in EXPORT.rglob("*") if path.is_file()]
    assert export.size == sum(path.stat().st_size for path in files)
    assert 0 < sum(task.size for task in export.tasks) < export.size
    names = [name for name, _ in export.lines()]
    assert names == ["base", "task", "task", "size"]


def test_of_many_tasks_some_are_listed(tmp_path):
    path = shutil.copytree(EXPORT, tmp_path / "1") / "assets.extra" / "adapter_bert_tf.json"
    raw = json.loads(path.read_text())
    raw["tasks"] = [raw["tasks"][0] | {"name": f"t{i}"} for i in range(50)]
    values, count = raw["values"], len(raw["values"]["paths"])
    first = values["numbers"][0]
    own = [number for number in first if number >= count]
    shapes = values["shapes"]
    values["shapes"] = shapes[:count] + [shapes[number] for number in own] * 50
    values["numbers"] = [
        [n if n < count else count + own.index(n) + i * len(own) for n in first] for i in range(50)
    ]
    path.write_text(json.dumps(raw))
    export = read_description(tmp_path)
    lines = list(export.lines())
    assert len(lines) < 30
    assert ("", f"and 30 more, {30 * export.tasks[0].size / 1000:.3g} KB") in lines


def _classes(raw):
    pack = raw["tasks"][0]["pack"]
    pack["head"]["settings"]["classes"] = 3
    pack["labels"] = ["x", "y", "z"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda raw: raw["values"]["paths"].reverse(), "values: paths: expected their names in"),
        (lambda raw: raw["values"]["numbers"].reverse(), "values: numbers: expected one of each"),
        (lambda raw: raw["values"]["numbers"][0].pop(), "values: numbers: expected one of each"),
        (lambda raw: raw["values"]["shapes"].append([2]), "values: numbers: expected one of each"),
        (lambda raw: raw["values"]["shapes"].append([2] * 3), "expected 2 at most, not 3"),
        (_classes, r"a: has 3 classes, but outputs of the shape \[2\]"),
        (lambda raw: raw["tokens"].append("\ud800"), "expected a text that UTF-8 can hold"),
    ],
)
def test_a_description_that_contradicts_itself_is_told(tmp_path, change, told):
    path = shutil.copytree(EXPORT, tmp_path / "1") / "assets.extra" / "adapter_bert_tf.json"
    raw = json.loads(path.read_text())
    change(raw)
    path.write_text(json.dumps(raw))
    with pytest.raises(UserError, match=told):
        read_description(tmp_path)


def test_the_newest_version_is_found(tmp_path):
    assert find_export(tmp_path) is None
    for number in ("9", "10"):
        shutil.copytree(EXPORT, tmp_path / number)
    (tmp_path / "11").mkdir()
    assert find_export(tmp_path) == str(tmp_path / "10")
    assert find_export(tmp_path / "9") == str(tmp_path / "9")


def test_layers_that_were_dropped_are_told(tmp_path):
    path = shutil.copytree(EXPORT, tmp_path / "1") / "assets.extra" / "adapter_bert_tf.json"
    raw = json.loads(path.read_text())
    raw["tasks"][1]["dropped_layers"] = 2
    path.write_text(json.dumps(raw))
    lines = list(read_description(tmp_path).lines())
    tasks = [text for name, text in lines if name == "task"]
    told = ", without its adapters in the 2 lowest layers; metrics are of all layers"
    assert [text.endswith(told) for text in tasks] == [False, True]
    assert ("warning", "not tuned with --adapter_drop for so many layers: b") in lines
    raw["tasks"][1]["pack"]["tuning"]["adapter_drop"] = 2
    path.write_text(json.dumps(raw))
    assert "warning" not in dict(read_description(tmp_path).lines())
    raw["tasks"][1]["dropped_layers"] = "2"
    path.write_text(json.dumps(raw))
    with pytest.raises(UserError, match="dropped_layers: expected a whole number"):
        read_description(tmp_path)


def test_another_format_is_refused_with_what_to_run(tmp_path):
    path = shutil.copytree(EXPORT, tmp_path / "1") / "assets.extra" / "adapter_bert_tf.json"
    path.write_text(json.dumps({"format": 2}))
    with pytest.raises(UserError, match="of format 2, not 3; export all packs with --packs"):
        read_description(tmp_path)
