"""Turns a checkpoint of the original adapter-bert program into a base and a task pack.

    python -m adapter_bert_tf.import_checkpoint --bert_config_file=bert_config.json \\
        --checkpoint=model.ckpt-1000 --output_dir=imported

`imported/base` is a folder that `load_encoder` takes, `imported/pack` the task pack for it.
"""

from absl import flags

from adapter_bert_tf import entry


def _main() -> None:
    # Here, so that wrong flags are told before TensorFlow is loaded.
    from adapter_bert_tf.pack.original import import_checkpoint

    values = flags.FLAGS
    import_checkpoint(
        values.checkpoint, values.bert_config_file, values.output_dir, values.vocab_file
    )
    print(f"base: {values.output_dir}/base\npack: {values.output_dir}/pack")


def main() -> None:
    """Runs the program."""
    flags.DEFINE_string("checkpoint", None, "Import: prefix of the checkpoint.", required=True)
    flags.DEFINE_string("bert_config_file", None, "Import: its bert_config.json.", required=True)
    flags.DEFINE_string("output_dir", None, "Import: folder to write.", required=True)
    flags.DEFINE_string("vocab_file", None, "Import: its vocab.txt; by default the one beside it.")
    entry.run(_main)


if __name__ == "__main__":
    main()
