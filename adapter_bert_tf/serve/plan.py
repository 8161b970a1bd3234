"""How a version is made from an earlier one: tasks are kept, renamed, removed, added or replaced.

All of it is decided from descriptions, before TensorFlow is loaded.
"""

import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from adapter_bert_tf.errors import UserError, some
from adapter_bert_tf.files import absolute
from adapter_bert_tf.pack.pack import DESCRIPTION, read_pack
from adapter_bert_tf.serve.description import (
    Description,
    find_export,
    read_description,
    versions_in,
)

# They stand between names in requests to `some`, and between inputs in saved_model_cli's lines.
_SEPARATORS = ",;"


def name_packs(
    folders: Sequence[str], served: Mapping[str, str | None] | None = None
) -> dict[str, str]:
    """Returns the packs by the names under which they are served.

    A name that is served already means that its pack is replaced.

    Args:
      folders: The packs' folders.
      served: What is served already: for each name, the task that its pack is for.
    """
    served = served or {}
    packs: dict[str, str] = {}
    for folder in folders:
        task, own = read_pack(folder).task, _name_of(folder)
        # Tasks on your own files are named after the file, so several may have the same name.
        again = own in served and served[own] == task
        name = task if task and task not in packs and not again else own
        if name in packs:
            raise UserError(f"--packs: several tasks are called {name}; rename a folder")
        packs[name] = folder
    if len(served.keys() | packs.keys()) > 1:
        _refuse_separators(packs, served)
    return packs


def _refuse_separators(packs: Mapping[str, str], served: Iterable[str]) -> None:
    """Refuses names that requests can't give. A single task needs no name."""
    for name, folder in packs.items():
        if set(_SEPARATORS) & set(name):
            path = os.path.join(folder, DESCRIPTION)
            raise UserError(f"{path}: task: {name!r} has a comma or a semicolon; change it there")
    for name in served:
        if set(_SEPARATORS) & set(name) and name not in packs:
            hint = "give it another one with --rename=OLD:NEW"
            raise UserError(f"the task {name!r} has a comma or a semicolon in its name; {hint}")


def _name_of(folder: str) -> str:
    """Returns the name of the pack's folder, or that of the run if the folder is called `pack`."""
    path = absolute(folder)
    return os.path.basename(path if not path.endswith("/pack") else os.path.dirname(path))


@dataclasses.dataclass(frozen=True)
class Plan:
    """What becomes of the tasks of a version in the next one.

    Args:
      source: The version's folder.
      version: The new version's folder.
      names: The new name of each task that is not removed, by the old one.
      removed: Names of the tasks that are left out.
      packs: The packs to add by name. One with the name of a task replaces it.
      lacks: What the newest version has and the new one has not, in a sentence; or "".
    """

    source: str
    version: str
    names: dict[str, str]
    removed: tuple[str, ...]
    packs: dict[str, str]
    lacks: str

    def lines(self) -> Iterator[tuple[str, str]]:
        """Yields what changes."""
        for name in self.removed:
            yield "removed", name
        for old, new in self.names.items():
            if old != new:
                yield "renamed", f"{old} to {new}"
        for name, folder in self.packs.items():
            if name in self.names.values():
                keep = f"to keep both, add --rename={name}:NEW"
                yield "replaced", f"{name}, by {folder}; {keep}"
            else:
                yield "added", f"{name}, from {folder}"
        if self.lacks:
            yield "note", self.lacks


def plan_version(
    exported: str,
    packs: Sequence[str] = (),
    remove: Sequence[str] = (),
    rename: Mapping[str, str] | None = None,
) -> Plan:
    """Plans the version after the newest one.

    Args:
      exported: The folder of the version that it is made from; or the model's folder, which means
        its newest version.
      packs: The folders of the packs to add. A pack of a task that is there replaces it, unless
        that task is removed or renamed.
      remove: Names of tasks to leave out.
      rename: New names of tasks by the old ones.
    """
    source = read_description(exported)
    if source.config is None:
        raise UserError(
            f"{source.folder}: a baseline without BERT; other tasks can't be added to it"
        )
    if not os.path.basename(absolute(source.folder)).isdecimal():
        raise UserError(
            f"--add_to={exported}: expected the folder of a version, whose name is a number, or "
            "that of a model with versions"
        )
    tasks = {task.name: task.pack for task in source.tasks}
    rename = rename or {}
    for flag, names in (("remove", remove), ("rename", rename)):
        for name in names:
            if name not in tasks:
                known = some(tasks.keys(), shown=10)
                raise UserError(f"--{flag}={name}: not in {source.folder}, which serves {known}")
    for name in rename.keys() & set(remove):
        raise UserError(f"--rename={name}: is removed too")
    names = {name: rename.get(name, name) for name in tasks if name not in remove}
    new = list(names.values())
    for name in new:
        if not name or new.count(name) > 1:
            raise UserError(f"--rename: there would be several tasks called {name!r}")
    named = name_packs(packs, {name: tasks[old].task for old, name in names.items()})
    for old, name in names.items():
        if old != name and name in named:
            raise UserError(f"--rename={old}:{name}: a pack of --packs has that name")
    if not names and not named:
        raise UserError(f"--remove: no task of {source.folder} would be left")
    model = os.path.dirname(absolute(source.folder))
    digests = {new: tasks[old].sha256 for old, new in names.items()}
    lacks = _what_it_lacks(source, model, digests, named)
    return Plan(source.folder, next_version(model), names, tuple(remove), named, lacks)


def next_version(folder: str) -> str:
    """Returns the folder of the version after the newest one of a model."""
    newest = next(iter(versions_in(folder)), "0")
    return os.path.join(folder, str(1 + int(newest)))


def _what_it_lacks(
    source: Description, model: str, digests: Mapping[str, str], added: Mapping[str, str]
) -> str:
    newest = find_export(model)
    if newest is None or absolute(newest) == absolute(source.folder):
        return ""
    numbers = [os.path.basename(absolute(each)) for each in (source.folder, newest)]
    told = "made from version {}, not from the newest, {}".format(*numbers)
    try:
        tasks = read_description(newest).tasks
    except UserError as error:
        return f"{told}, which can't be read ({error})"
    theirs = {task.name: task.pack.sha256 for task in tasks if task.name not in added}
    missing = theirs.keys() - digests.keys()
    other = [name for name in theirs.keys() & digests.keys() if theirs[name] != digests[name]]
    parts = [f"it lacks {some(missing)}"] if missing else []
    parts += [f"it has another pack of {some(other)}"] if other else []
    return f"{told}: {' and '.join(parts) or 'it lacks nothing of that one'}"
