"""The file that describes an export. It is read without TensorFlow."""

import os
from typing import Any, NamedTuple

from adapter_bert_tf.base.config import MOST_WORDS, BertConfig, config_from_export
from adapter_bert_tf.checks import ANY_OBJECT, Check, boolean, each, fields, named, text, whole
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.files import read_json_object
from adapter_bert_tf.pack.pack import Pack, parse_pack
from adapter_bert_tf.serve import DESCRIPTION_FILE

_NAMES = each(text, different=True)
_NUMBERS = each(whole(0, 2**40))
_LAYOUT: dict[str, Check] = {
    "paths": _NAMES,
    "numbers": each(_NUMBERS),
    "shapes": each(_NUMBERS),
}
# Other versions may say more.
_check = fields(
    {
        "origin": text,
        "config": config_from_export,
        "base": _NAMES,
        "values": fields(_LAYOUT, {}, closed=False),
        "tasks": each(fields({"name": text, "pack": ANY_OBJECT}, {}, closed=False)),
        "lower_case": boolean,
        "tokens": each(text, most=MOST_WORDS),
    },
    {"signatures": named(fields({"inputs": _NAMES, "outputs": _NAMES}, {}, closed=False))},
    closed=False,
)


class Description(NamedTuple):
    """What an export says about itself.

    Attributes:
      raw: The whole file.
      config: The base's sizes.
      tasks: The name and the pack of each task.
    """

    raw: dict[str, Any]
    config: BertConfig
    tasks: list[tuple[str, Pack]]


def read_description(folder: str) -> Description:
    """Reads and checks the description of the export in `folder`."""
    path = os.path.join(folder, DESCRIPTION_FILE)
    raw = _check(read_json_object(path), f"{path}:")
    tasks = [
        (task["name"], parse_pack(task["pack"], f"{path}: {task['name']}")) for task in raw["tasks"]
    ]
    if not tasks or len({name for name, _ in tasks}) < len(tasks):
        raise UserError(f"{path}: expected tasks of different names")
    config = config_from_export(raw["config"], f"{path}: config")
    if len(raw["tokens"]) > config.vocab_size:
        raise UserError(
            f"{path}: {len(raw['tokens']):,} tokens, but vocab_size is {config.vocab_size:,}"
        )
    return Description(raw, config, tasks)
