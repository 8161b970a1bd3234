"""Predicts with a task pack: a few texts, or a whole file.

    python -m adapter_bert_tf.predict --pack=runs/sms/pack --text="WINNER!! Call now"

prints a line for each --text.

    python -m adapter_bert_tf.predict --pack=runs/sms/pack --file=in.csv --output=out.csv

writes the rows of the file with more columns: for classes `label`, `score` and the probability of
each label, for a regression `value`. A column whose name the file already has is written as
`predicted_<name>`. Files are CSV, TSV or JSON, by their endings; JSON is written as an object per
line.
"""

import os
from collections.abc import Iterable, Sequence
from typing import Any

from absl import flags

from adapter_bert_tf import entry
from adapter_bert_tf.bulk.columns import add_columns, find_text_columns, original_rows
from adapter_bert_tf.bulk.form import form_of
from adapter_bert_tf.checks import BATCH_SIZE
from adapter_bert_tf.data.examples import cell
from adapter_bert_tf.data.tables import Table, layout_of, read_table
from adapter_bert_tf.errors import UserError, file_error
from adapter_bert_tf.files import exists, is_remote, new_file, read_bytes, refuse_existing
from adapter_bert_tf.heads.kinds import TEXT_LABELS
from adapter_bert_tf.pack.pack import Pack, read_pack

# Characters of a text that a line shows.
_SHOWN = 60


def _main() -> None:
    values = flags.FLAGS
    pack = _read_text_pack(values.pack)
    BATCH_SIZE(values.batch_size, "--batch_size")
    if bool(values.text) == bool(values.file):
        raise UserError("expected either --text or --file")
    # All mistakes in flags and files are found before TensorFlow is loaded.
    if values.file:
        _check_output(values.file, values.output)
        table = _read_table(values.file)
        texts, pairs = _columns(table, pack)
    else:
        texts, pairs = _decoded(values.text), _pairs(pack)

    from adapter_bert_tf.task import load_task

    task = load_task(
        values.pack,
        values.bert,
        bert_config_file=values.bert_config_file,
        vocab_file=values.vocab_file,
        trust_module=values.trust_module,
    )
    answers = task.answers(texts, pairs, values.batch_size)
    columns = task.head.table(answers, task.labels)
    if values.file:
        rows = add_columns(_rows(table), columns)
        _write(values.output, rows)
        print(f"predicted: {values.output}, {len(rows):,} rows")
    else:
        print(*_lines(columns, texts, pairs), sep="\n")


def _read_text_pack(folder: str) -> Pack:
    pack = read_pack(folder)
    if pack.kind not in TEXT_LABELS:
        raise UserError(
            f"{folder}: answers questions about a text; use python -m adapter_bert_tf.answer"
        )
    return pack


def _pairs(pack: Pack) -> list[str] | None:
    """Returns the second texts that were given with --text_pair."""
    values = flags.FLAGS
    for name in ("output", "text_column", "text_pair_column", "encoding", "delimiter"):
        if getattr(values, name) is not None:
            raise UserError(f"--{name}: goes with --file, not with --text")
    given, needed = len(values.text_pair or ()), len(values.text)
    if not pack.inputs.get("pair"):
        if given:
            raise UserError(f"--text_pair: {values.pack} is a task on single texts")
        return None
    if given != needed:
        raise UserError(
            f"--text_pair: {values.pack} is a task on pairs; expected {needed} second texts, "
            f"not {given}"
        )
    return _decoded(values.text_pair)


def _decoded(texts: Sequence[str]) -> list[str]:
    """Replaces bytes of the command line that are not UTF-8, which Python has as surrogates."""
    return [text.encode(errors="surrogateescape").decode(errors="replace") for text in texts]


def _check_output(path: str, output: str | None) -> None:
    if flags.FLAGS.text_pair:
        raise UserError("--text_pair: goes with --text; with --file, give --text_pair_column")
    if not output:
        raise UserError("--output: expected the file to write")
    if path == output or (exists(output) and _is_same(path, output)):
        raise UserError(f"--output={output}: is the input, and is not overwritten")
    refuse_existing(output, "--output")
    folder = os.path.dirname(output) or "."
    if not is_remote(folder) and not os.path.isdir(folder):
        raise UserError(f"--output={output}: no such folder: {folder}")
    if not is_remote(folder) and not os.access(folder, os.W_OK):
        raise UserError(f"--output={output}: can't write to {folder}")


def _is_same(path: str, other: str) -> bool:
    return all(map(os.path.exists, (path, other))) and os.path.samefile(path, other)


def _read_table(path: str) -> Table:
    table = read_table(path, layout_of(path, flags.FLAGS.encoding, flags.FLAGS.delimiter))
    if list(table.columns).count("") > 1:
        raise UserError(f"{path}: several columns have no name; give them names")
    for note in table.notes:
        print(f"{path}: {note}")
    return table


def _columns(table: Table, pack: Pack) -> tuple[list[str], list[str] | None]:
    """Returns the texts of a table, and the second texts for a task on pairs."""
    values, path = flags.FLAGS, flags.FLAGS.file
    if values.text_pair_column and not pack.inputs.get("pair"):
        raise UserError(f"--text_pair_column: {values.pack} is a task on single texts")
    names = find_text_columns(path, table, pack, values.text_column, values.text_pair_column)

    def read(column: str) -> list[str]:
        return [cell(path, line, row, column, may_be_empty=True) for line, row in table.rows]

    texts, *pairs = map(read, names)
    return texts, pairs[0] if pairs else None


def _rows(table: Table) -> list[dict[str, Any]]:
    """Returns the rows of the file, which `read_table` has read before."""
    path = flags.FLAGS.file
    return original_rows(path, read_bytes(path), table, flags.FLAGS.encoding)


def _write(path: str, rows: list[dict[str, Any]]) -> None:
    # Rows of JSON may have different columns.
    names = list(dict.fromkeys(name for row in rows for name in row))
    try:
        with (
            new_file(path) as beside,
            open(beside, "w", encoding="utf-8", newline="") as file,
        ):
            file.writelines(f"{line}\n" for line in form_of(path).lines(names, rows))
    except OSError as error:
        raise file_error(path, error) from None


def _lines(
    columns: dict[str, list], texts: Sequence[str], pairs: Sequence[str] | None
) -> Iterable[str]:
    """Yields a line for each text: what was predicted, aligned, and the text."""
    shown = [
        [_as_text(name, value) for value in values]
        for name, values in columns.items()
        if not name.startswith("probability_")
    ]
    widths = [max(map(len, values)) for values in shown]
    for number, predicted in enumerate(zip(*shown, strict=True)):
        text = texts[number] if pairs is None else f"{texts[number]} | {pairs[number]}"
        text = " ".join(text.split())
        text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
        yield "  ".join(
            [*(f"{each:<{width}}" for each, width in zip(predicted, widths, strict=True)), text]
        )


def _as_text(name: str, value: Any) -> str:
    if isinstance(value, float):
        return f"{value:6.1%}" if name == "score" else f"{value:.4f}"
    return str(value)


def main() -> None:
    """Runs the program."""
    flags.DEFINE_string("pack", None, "Task: a task pack of run_classifier.py.", required=True)
    flags.DEFINE_string("bert", None, "Base: the BERT, if it is not where the pack says.")
    flags.DEFINE_string(
        "bert_config_file", None, "Base: bert_config.json, if it is not beside the checkpoint."
    )
    flags.DEFINE_string("vocab_file", None, "Base: vocab.txt, if it is not beside the checkpoint.")
    flags.DEFINE_boolean(
        "trust_module", False, "Base: load a baseline's own SavedModel, which runs code."
    )
    for name, text in (
        ("text", "Texts: a text; give the flag once for each text."),
        ("text_pair", "Texts: the second text of each pair, for a task on pairs."),
    ):
        flags.DEFINE_multi_string(name, None, text)
        flags.FLAGS[name].help = text  # absl adds a second line to it.
    flags.DEFINE_string("file", None, "File: a CSV, TSV or JSON file with a column of texts.")
    flags.DEFINE_string("output", None, "File: the file to write: .csv, .tsv or .jsonl.")
    flags.DEFINE_string("text_column", None, "File: column of the text, if it can't be guessed.")
    flags.DEFINE_string("text_pair_column", None, "File: column of the second text.")
    flags.DEFINE_string("encoding", None, "File: its encoding; by default it is recognized.")
    flags.DEFINE_string(
        "delimiter", None, "File: what separates columns; by default it is recognized."
    )
    flags.DEFINE_integer("batch_size", 64, "Run: texts that are computed together.")
    entry.run(_main)


if __name__ == "__main__":
    main()
