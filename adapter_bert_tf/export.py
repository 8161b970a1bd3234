"""Exports task packs of one base as a SavedModel for TF Serving.

    python -m adapter_bert_tf.export --bert=minilm --packs=runs/sst2/pack,runs/mrpc/pack \\
        --export_dir=models/bert

writes `models/bert/1`, or the next number. A number at the end of `--export_dir` is the version.

    python -m adapter_bert_tf.export --add_to=models/bert/1 --packs=runs/rte/pack

writes `models/bert/2` with one more task. The base comes from the version that is added to.
"""

from absl import flags

from adapter_bert_tf import entry


def _main() -> None:
    values = flags.FLAGS
    # Here, so that wrong flags are told before TensorFlow is loaded.
    from adapter_bert_tf.errors import UserError

    if not values.packs:
        raise UserError("--packs: expected the folders of task packs")
    if (values.add_to is None) == (values.export_dir is None):
        raise UserError("--export_dir, or --add_to: expected one of the two")

    from adapter_bert_tf.base.load import find_base
    from adapter_bert_tf.serve.export import add_packs, export_packs

    if values.add_to is not None:
        version = add_packs(values.add_to, values.packs)
    else:
        base = find_base(
            values.bert, values.bert_config_file, values.vocab_file, values.do_lower_case
        )
        version = export_packs(base, values.packs, values.export_dir)
    print(f"exported: {version}")


if __name__ == "__main__":
    flags.DEFINE_list("packs", None, "Export: folders of task packs.")
    flags.DEFINE_string("export_dir", None, "Export: the model's folder, or a new version in it.")
    flags.DEFINE_string("add_to", None, "Export: a version; its tasks come with the new one.")
    flags.DEFINE_string("bert", "minilm", "Base: a folder, a checkpoint, a handle or a preset.")
    flags.DEFINE_string("bert_config_file", None, "Base: bert_config.json, if not beside it.")
    flags.DEFINE_string("vocab_file", None, "Base: vocab.txt, if not beside it.")
    flags.DEFINE_boolean("do_lower_case", None, "Base: lower-case the text; by default as it says.")
    entry.run(_main)
