"""From the fields of settings to flags, and from flags to settings."""

from collections.abc import Iterable
from typing import Any

from absl import flags

from adapter_bert_tf.options import Option, options_of
from adapter_bert_tf.run.settings import RunSettings, Settings, make_settings, option_sets

_DEFINE = {
    str: flags.DEFINE_string,
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    bool: flags.DEFINE_boolean,
}
# adapter-bert has these flags, and we have no use for them. They are accepted so that its commands
# run as they are.
_IGNORED = {"iterations_per_loop": "steps of a loop on a TPU", "master": "address of a TF1 master"}


def define_flags(kind: type[RunSettings]) -> None:
    """Defines a flag for each option of a run's settings."""
    for owner, prefix in option_sets(kind):
        for option in options_of(owner, prefix).values():
            define(option)
            for alias in option.aliases:
                flags.DEFINE_alias(alias, option.name)
    for name, meaning in _IGNORED.items():
        flags.DEFINE_string(name, None, f"Ignored: {meaning} in adapter-bert.")


def define(option: Option) -> None:
    """Defines the flag of an option."""
    # A flag that is not given is None, and leaves the field's default. The help shows it.
    default = option.default
    if option.many and default is not None:
        default = ",".join(str(each) for each in default)
    is_shown = default is not None and default is not False and default != ""
    shown = f" [{default}]" if is_shown else ""
    help = f"{option.group}: {option.help}{shown}"
    if option.choices:
        flags.DEFINE_enum(option.name, None, list(option.choices), help)
    elif option.many:
        flags.DEFINE_list(option.name, None, help)
    else:
        _DEFINE[option.type](option.name, None, help)


def given(options: Iterable[Option]) -> dict[str, Any]:
    """Returns the values of those flags that are given."""
    found: dict[str, Any] = {}
    for option in options:
        value = flags.FLAGS[option.name].value
        if value is not None:
            found[option.name] = option.parse(value) if option.many else value
    return found


def read_settings(kind: type[Settings]) -> Settings:
    """Returns the settings that the flags ask for."""
    sets = option_sets(kind)
    options = (each for owner, prefix in sets for each in options_of(owner, prefix).values())
    return make_settings(kind, given(options))
