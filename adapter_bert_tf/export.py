"""Exports task packs of one base as a SavedModel for TF Serving.

    python -m adapter_bert_tf.export --bert=minilm --packs=runs/sst2/pack,runs/mrpc/pack \\
        --export_dir=models/bert

writes the version `models/bert/1`, or the next one if there are some already. To choose the
version, put its number at the end of `--export_dir`.

    python -m adapter_bert_tf.export --add_to=models/bert/1 --packs=runs/rte/pack

writes `models/bert/2` with the tasks of version 1 and one more. Neither the base nor the packs of
version 1 are needed for that. A pack of a task that is there replaces it. A baseline without BERT
is exported alone.

    python -m adapter_bert_tf.export --add_to=models/bert --remove=RTE --rename=SST-2:sentiment

writes a version without RTE, from the newest one, in which SST-2 has another name.
"""

from collections.abc import Iterable, Sequence

from absl import flags

from adapter_bert_tf import entry
from adapter_bert_tf.base.presets import refuse_unknown
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.pack.pack import read_pack
from adapter_bert_tf.serve.description import read_description
from adapter_bert_tf.serve.plan import name_packs, plan_version

# Flags about the base.
_OF_BASE = ("bert", "bert_config_file", "vocab_file", "do_lower_case")


def _main() -> None:
    values = flags.FLAGS
    changes = values.remove or values.rename
    if not values.packs and not (values.add_to and changes):
        raise UserError("--packs: expected the folders of task packs")
    if (values.add_to is None) == (values.export_dir is None):
        raise UserError("--export_dir, or --add_to: expected one of the two")
    if changes and values.add_to is None:
        raise UserError("--remove, --rename: expected with --add_to")
    if values.drop_layers and not values.packs:
        raise UserError("--drop_layers: expected with --packs, as it is about these")
    version = _export(values) if values.add_to is None else _change(values)
    _print(read_description(version).lines())
    print(f"exported: {version}")


def _export(values: flags.FlagValues) -> str:
    refuse_unknown(values.bert)
    named = name_packs(values.packs)
    is_baseline = any(read_pack(pack).baseline is not None for pack in named.values())

    # Imported here, so that wrong flags are reported before TensorFlow is loaded.
    from adapter_bert_tf.base.load import find_base
    from adapter_bert_tf.serve.export import export, export_packs

    if is_baseline:
        return export(
            values.packs,
            values.export_dir,
            drop_layers=values.drop_layers,
            trust_module=values.trust_module,
        )
    base = find_base(values.bert, values.bert_config_file, values.vocab_file, values.do_lower_case)
    return export_packs(base, values.packs, values.export_dir, values.drop_layers)


def _change(values: flags.FlagValues) -> str:
    for name in _OF_BASE:
        if flags.FLAGS[name].present:
            raise UserError(f"--{name}: not with --add_to, whose version has its own base")
    rename = _new_names(values.rename or ())
    plan = plan_version(values.add_to, values.packs or (), values.remove or (), rename)

    from adapter_bert_tf.serve.export import make_version

    version = make_version(plan, values.drop_layers)
    _print(plan.lines())
    return version


def _new_names(renamings: Sequence[str]) -> dict[str, str]:
    pairs = [_old_and_new(each) for each in renamings]
    rename = dict(pairs)
    for old, new in pairs:
        if rename[old] != new:
            raise UserError(f"--rename={old}: expected one new name, not {new} and {rename[old]}")
    return rename


def _old_and_new(renaming: str) -> tuple[str, str]:
    old, _, new = renaming.partition(":")
    if not old or not new:
        raise UserError(f"--rename={renaming}: expected OLD:NEW")
    return old, new


def _print(lines: Iterable[tuple[str, str]]) -> None:
    for name, text in lines:
        print(f"{name:<10}{text}")


def main() -> None:
    """Runs the program."""
    flags.DEFINE_list("packs", None, "Export: folders of task packs.")
    flags.DEFINE_string(
        "export_dir", None, "Export: folder of the model, or of a new version in it."
    )
    flags.DEFINE_string(
        "add_to", None, "Export: folder of a version, or of a model, from which the next is made."
    )
    flags.DEFINE_list("remove", None, "Export: tasks of --add_to's version to leave out.")
    flags.DEFINE_list("rename", None, "Export: OLD:NEW, new names for tasks of that version.")
    flags.DEFINE_integer(
        "drop_layers",
        0,
        "Export: number of the lowest layers in which the packs do without their adapters and "
        "LayerNorms, and share the base's; best for packs of --adapter_drop.",
        lower_bound=0,
    )
    flags.DEFINE_string(
        "bert", "minilm", "Base: a folder, a checkpoint, a TF-Hub handle or a preset."
    )
    flags.DEFINE_string(
        "bert_config_file", None, "Base: bert_config.json, if it is not beside the checkpoint."
    )
    flags.DEFINE_string("vocab_file", None, "Base: vocab.txt, if it is not beside the checkpoint.")
    flags.DEFINE_boolean(
        "do_lower_case", None, "Base: lower-case the text; by default as the base says."
    )
    flags.DEFINE_boolean(
        "trust_module", False, "Base: load a baseline's own SavedModel, which runs code."
    )
    entry.run(_main)


if __name__ == "__main__":
    main()
