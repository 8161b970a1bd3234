"""Writes a task pack as a folder that PyTorch's `adapters` (AdapterHub) loads.

    python -m adapter_bert_tf.export_adapterhub --pack=runs/mine/pack --output_dir=hub/mine

The pack must not have trained LayerNorms: tune it with --layer_norms=false.
"""

from absl import flags

from adapter_bert_tf import entry


def _main() -> None:
    # Here, so that wrong flags are told before TensorFlow is loaded.
    from adapter_bert_tf.adapterhub.exchange import export_adapterhub

    values = flags.FLAGS
    export_adapterhub(values.pack, output_dir=values.output_dir, bert=values.bert, name=values.name)
    print(f"adapter: {values.output_dir}")


def main() -> None:
    """Runs the program."""
    flags.DEFINE_string("pack", None, "Export: the pack's folder.", required=True)
    flags.DEFINE_string("output_dir", None, "Export: the folder to write.", required=True)
    flags.DEFINE_string("bert", None, "Export: the BERT, by default where the pack says.")
    flags.DEFINE_string("name", None, "Export: the adapter's name, by default the task's.")
    entry.run(_main)


if __name__ == "__main__":
    main()
