"""Makes a task pack from an adapter of PyTorch's `adapters` (AdapterHub).

    python -m adapter_bert_tf.import_adapterhub --adapter=DIR --bert=bert-base-uncased \\
        --output_dir=packs/mine

DIR is the adapter's folder, a zip file of it, or a repository's folder in the Hub's cache.
"""

from absl import flags

from adapter_bert_tf import entry


def _main() -> None:
    # Here, so that wrong flags are told before TensorFlow is loaded.
    from adapter_bert_tf.adapterhub.exchange import import_adapterhub

    values = flags.FLAGS
    import_adapterhub(
        values.adapter,
        bert=values.bert,
        output_dir=values.output_dir,
        with_head=values.with_head,
        pair=values.pair,
        max_seq_length=values.max_seq_length,
        vocab_file=values.vocab_file,
    )
    print(f"pack: {values.output_dir}")


def main() -> None:
    """Runs the program."""
    flags.DEFINE_string("adapter", None, "Import: the adapter's folder.", required=True)
    flags.DEFINE_string("bert", None, "Import: the BERT it was trained on.", required=True)
    flags.DEFINE_string("output_dir", None, "Import: the pack's folder.", required=True)
    flags.DEFINE_bool("with_head", True, "Import: take the head too, if there is one.")
    flags.DEFINE_bool("pair", None, "Import: the task's rows are pairs of texts.")
    flags.DEFINE_integer("max_seq_length", None, "Import: longest row, in tokens.", lower_bound=4)
    flags.DEFINE_string("vocab_file", None, "Import: the BERT's vocab.txt, if it is elsewhere.")
    entry.run(_main)


if __name__ == "__main__":
    main()
