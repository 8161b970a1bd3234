"""Which tasks a version has that is made from an earlier one."""

import json
import pathlib
import shutil

import pytest

from adapter_bert_tf.errors import UserError
from adapter_bert_tf.files import list_folder, make_folders, write_atomically
from adapter_bert_tf.serve.export import find_version
from adapter_bert_tf.serve.plan import name_packs, plan_version

BEFORE = pathlib.Path(__file__).parent / "before"
DESCRIPTION = "assets.extra/adapter_bert_tf.json"


@pytest.fixture
def model(tmp_path) -> pathlib.Path:
    """A model whose version 1 serves `a` and `b`, and whose version 2 serves `b` as `c`."""
    _version(tmp_path / "model" / "1", {"a": "a", "b": "b"})
    _version(tmp_path / "model" / "2", {"b": "c"})
    return tmp_path / "model"


def _version(folder: pathlib.Path, names: dict[str, str], **changes) -> None:
    raw = json.loads((BEFORE / "export" / DESCRIPTION).read_text())
    numbers = [i for i, task in enumerate(raw["tasks"]) if task["name"] in names]
    raw["values"] |= _values_of(raw["values"], numbers)
    raw["tasks"] = [
        {"name": names[raw["tasks"][i]["name"]], "pack": raw["tasks"][i]["pack"] | changes}
        for i in numbers
    ]
    (folder / "assets.extra").mkdir(parents=True)
    (folder / DESCRIPTION).write_text(json.dumps(raw))


def _values_of(values: dict, numbers: list[int]) -> dict:
    """Returns how an export keeps the values of some tasks of another one."""
    kept = [values["numbers"][i] for i in numbers]
    used = sorted({*range(len(values["paths"])), *(place for places in kept for place in places)})
    place_of = {place: i for i, place in enumerate(used)}
    return {
        "shapes": [values["shapes"][place] for place in used],
        "numbers": [[place_of[place] for place in places] for places in kept],
    }


def _pack(folder: pathlib.Path, task: str | None) -> str:
    shutil.copytree(BEFORE / "pack", folder)
    description = folder / "pack.json"
    description.write_text(json.dumps(json.loads(description.read_text()) | {"task": task}))
    return str(folder)


def test_a_pack_replaces_the_task_of_its_name_and_it_is_told(model, tmp_path):
    plan = plan_version(str(model / "1"), [_pack(tmp_path / "new", "a"), _pack(tmp_path / "d", "")])
    assert plan.version == str(model / "3")
    assert plan.packs == {"a": str(tmp_path / "new"), "d": str(tmp_path / "d")}
    told = [line for line in plan.lines() if line[0] != "note"]
    assert [(name, text.split(", ")[0]) for name, text in told] == [
        ("replaced", "a"),
        ("added", "d"),
    ]


def test_renaming_keeps_the_task_that_a_pack_would_replace(model, tmp_path):
    pack = _pack(tmp_path / "new", "a")
    plan = plan_version(str(model / "1"), [pack], rename={"a": "b", "b": "a-old"})
    assert plan.names == {"a": "b", "b": "a-old"}
    assert plan.packs == {"a": pack}
    told = dict(plan.lines())
    assert "replaced" not in told
    assert told["added"].startswith("a, ")


def test_a_task_that_is_removed_makes_room_for_a_pack(model, tmp_path):
    plan = plan_version(str(model / "1"), [_pack(tmp_path / "new", "a")], remove=["a"])
    assert plan.names == {"b": "b"}
    assert list(plan.packs) == ["a"]


def test_a_version_that_is_not_made_from_the_newest_says_what_it_lacks(model, tmp_path):
    assert (
        "from version 1, not from the newest, 2: it lacks c"
        in plan_version(str(model / "1"), remove=["a"]).lacks
    )
    assert plan_version(str(model / "2"), rename={"c": "x"}).lacks == ""
    assert plan_version(str(model), rename={"c": "x"}).source == str(model / "2")
    _version(model / "10", {"a": "a"}, sha256="0" * 64)
    assert plan_version(str(model / "1"), remove=["b"]).lacks.endswith("has another pack of a")
    # What replaces a task is newer than both.
    pack = _pack(tmp_path / "new", "a")
    assert plan_version(str(model / "1"), [pack]).lacks.endswith("lacks nothing of that one")
    (model / "10" / DESCRIPTION).write_text("{")
    assert "10, which can't be read" in plan_version(str(model / "1"), [pack]).lacks


def test_tasks_of_one_name_are_told_apart_by_their_folders(tmp_path):
    first, second = (_pack(tmp_path / name / "pack", "train") for name in ("films", "books"))
    assert name_packs([first, second]) == {"train": first, "books": second}
    # The run `books` is tuned again, and replaces what it brought before, in any order.
    served = {"train": "train", "books": "train"}
    assert name_packs([second], served) == {"books": second}
    assert name_packs([second, first], served) == {"books": second, "train": first}
    with pytest.raises(UserError, match="several tasks are called films"):
        name_packs([first, first, first])


def test_a_new_name_that_a_pack_has_is_refused(model, tmp_path):
    """The pack would replace the task that was renamed."""
    pack = _pack(tmp_path / "new", "c")
    with pytest.raises(UserError, match="--rename=a:c: a pack of --packs has that name"):
        plan_version(str(model / "1"), [pack], rename={"a": "c"})


def test_a_version_whose_name_is_no_number_is_refused(tmp_path):
    """The next version would be made beside it, in a folder that may be no model's."""
    _version(tmp_path / "model" / "mine", {"a": "a"})
    with pytest.raises(UserError, match="mine: expected the folder of a version.* a number"):
        plan_version(str(tmp_path / "model" / "mine"), rename={"a": "b"})


def test_names_that_requests_can_not_give_are_refused(model, tmp_path):
    pack = _pack(tmp_path / "new", "c,d")
    with pytest.raises(UserError, match="new/pack.json: task: 'c,d' has a comma"):
        plan_version(str(model / "1"), [pack])
    # A single task needs no name.
    assert list(name_packs([pack])) == ["c,d"]
    with pytest.raises(UserError, match="the task 'e;f' has a comma .* --rename=OLD:NEW"):
        name_packs([_pack(tmp_path / "other", "c")], {"e;f": "e"})


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"remove": ["z"]}, r"--remove=z: not in .*/1, which serves a, b"),
        ({"rename": {"z": "y"}}, "--rename=z: not in "),
        ({"rename": {"a": "b"}}, "several tasks called 'b'"),
        ({"rename": {"a": "c"}, "remove": ["a"]}, "--rename=a: is removed too"),
        ({"remove": ["a", "b"]}, "no task of .*/1 would be left"),
        ({"rename": {"a": "c,d"}}, "the task 'c,d' has a comma .* --rename=OLD:NEW"),
        ({"rename": {"a": "c;d"}}, "the task 'c;d' has a comma or a semicolon"),
    ],
)
def test_changes_that_cannot_be_are_told(model, changes, told):
    with pytest.raises(UserError, match=told):
        plan_version(str(model / "1"), **changes)


def test_a_version_that_was_half_uploaded_is_written_again(tmp_path):
    for folder in ("ram://half/1", "ram://half/2"):
        make_folders(folder)
        write_atomically(f"{folder}/saved_model.pb", b"")
    write_atomically("ram://half/2/.uploading", b"")
    with pytest.raises(UserError, match="this version exists already"):
        find_version("ram://half/1")
    assert find_version("ram://half/2") == "ram://half/2"
    assert list_folder("ram://half/2") == []
