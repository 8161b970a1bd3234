"""All tasks by name."""

import difflib

from adapter_bert_tf.data.additional import ADDITIONAL
from adapter_bert_tf.data.glue import GLUE
from adapter_bert_tf.data.task import Task
from adapter_bert_tf.errors import UserError


def _key(name: str) -> str:
    """`SST-2`, `sst2` and `sst_2` are one name."""
    return "".join(character for character in name.lower() if character.isalnum())


TASKS: dict[str, Task] = {_key(task.name): task for task in (*GLUE, *ADDITIONAL)}


def find_task(name: str) -> Task:
    """Returns the task called `name`, in any spelling, or tells the nearest names."""
    if _key(name) in TASKS:
        return TASKS[_key(name)]
    near = [TASKS[key].name for key in difflib.get_close_matches(_key(name), TASKS, n=3)]
    names = near or [task.name for task in TASKS.values()]
    hint = "did you mean" if near else "known are"
    raise UserError(f"--task={name}: no such task; {hint} {', '.join(names)}")
