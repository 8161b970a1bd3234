"""Exports task packs of one base as a SavedModel for TF Serving.

    python -m adapter_bert_tf.export --bert=minilm --packs=runs/sst2/pack,runs/mrpc/pack \\
        --export_dir=models/bert

writes the version `models/bert/1`, or the next one if there are some already. To choose the
version, put its number at the end of `--export_dir`.

    python -m adapter_bert_tf.export --add_to=models/bert/1 --packs=runs/rte/pack

writes `models/bert/2` with the tasks of version 1 and one more. Neither the base nor the packs of
version 1 are needed for that. A baseline without BERT is exported alone.
"""

import os

from absl import flags

from adapter_bert_tf import entry
from adapter_bert_tf.base.presets import refuse_unknown
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.files import read_json_object
from adapter_bert_tf.pack.pack import read_description
from adapter_bert_tf.serve import DESCRIPTION_FILE


def _main() -> None:
    values = flags.FLAGS
    if not values.packs:
        raise UserError("--packs: expected the folders of task packs")
    if (values.add_to is None) == (values.export_dir is None):
        raise UserError("--export_dir, or --add_to: expected one of the two")
    if values.add_to is not None:
        read_json_object(os.path.join(values.add_to, DESCRIPTION_FILE))
    else:
        refuse_unknown(values.bert)
    for pack in values.packs:
        read_description(pack)
    is_baseline = any(read_description(pack).baseline is not None for pack in values.packs)

    # Imported here, so that wrong flags are reported before TensorFlow is loaded.
    from adapter_bert_tf.base.load import find_base
    from adapter_bert_tf.serve.export import add_packs, export, export_packs

    if values.add_to is not None:
        version = add_packs(values.add_to, values.packs)
    elif is_baseline:
        version = export(values.packs, values.export_dir)
    else:
        base = find_base(
            values.bert, values.bert_config_file, values.vocab_file, values.do_lower_case
        )
        version = export_packs(base, values.packs, values.export_dir)
    print(f"exported: {version}")


if __name__ == "__main__":
    flags.DEFINE_list("packs", None, "Export: folders of task packs.")
    flags.DEFINE_string(
        "export_dir", None, "Export: folder of the model, or of a new version in it."
    )
    flags.DEFINE_string("add_to", None, "Export: folder of a version to which the packs are added.")
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
    entry.run(_main)
