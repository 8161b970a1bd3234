"""Flags of a test's own, instead of those of the process."""

from absl import flags

from adapter_bert_tf.flags import _DEFINE

_KINDS = ("string", "integer", "float", "boolean", "enum", "list", "multi_string", "alias")


def make_flags(monkeypatch) -> flags.FlagValues:
    """Lets everything that is defined during a test belong to new flags, and returns these."""
    fresh = flags.FlagValues()
    monkeypatch.setattr(flags, "FLAGS", fresh)
    defining = {getattr(flags, name): _with(getattr(flags, name), fresh) for name in _names()}
    for name in _names():
        monkeypatch.setattr(flags, name, defining[getattr(flags, name)])
    for kind, define in _DEFINE.items():
        monkeypatch.setitem(_DEFINE, kind, defining[define])
    return fresh


def _names() -> list[str]:
    return [f"DEFINE_{kind}" for kind in _KINDS]


def _with(define, values):
    return lambda *args, **kwargs: define(*args, flag_values=values, **kwargs)
