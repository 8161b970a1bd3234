"""Predicts with a task pack: a few texts, or a whole file.

    python -m adapter_bert_tf.predict --pack=runs/sms/pack --text="WINNER!! Call now"

prints a line for each --text.

    python -m adapter_bert_tf.predict --pack=runs/sms/pack --file=in.csv --output=out.csv

writes the rows of the file with more columns: for classes `label`, `score` and the probability of
each label, for a regression `value`. A column whose name the file already has is written as
`predicted_<name>`. Files are CSV, TSV or JSON, by their endings; JSON is written as an object per
line.
"""

import csv
import json
import os
from collections.abc import Iterable, Sequence
from typing import IO, Any

from absl import flags

from adapter_bert_tf import entry
from adapter_bert_tf.data.decode import decode
from adapter_bert_tf.data.examples import cell
from adapter_bert_tf.data.sources import OwnFiles
from adapter_bert_tf.data.tables import JSON, Table, layout_of, read_table
from adapter_bert_tf.errors import UserError, file_error
from adapter_bert_tf.files import exists, is_remote, new_file, open_bytes
from adapter_bert_tf.heads.kinds import TEXT_LABELS
from adapter_bert_tf.pack.pack import Pack, read_description

_DELIMITERS = {".tsv": "\t", ".txt": "\t"}
_JSON_ENDINGS = (".json", ".jsonl")
_PREFIX = "predicted_"
# Characters of a text that a line shows.
_SHOWN = 60


def _main() -> None:
    values = flags.FLAGS
    pack = _read_pack(values.pack)
    if values.batch_size < 1:
        raise UserError(f"--batch_size={values.batch_size}: expected a number above 0")
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
    )
    answers = task.answers(texts, pairs, values.batch_size)
    columns = task.head.table(answers, task.labels)
    if values.file:
        rows = _add_columns(_rows(table), columns)
        _write(values.output, rows)
        print(f"predicted: {values.output}, {len(rows):,} rows")
    else:
        print(*_lines(columns, texts, pairs), sep="\n")


def _read_pack(folder: str) -> Pack:
    pack = read_description(folder)
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
    if exists(output):
        is_input = path == output or (os.path.exists(path) and os.path.samefile(path, output))
        what = "is the input" if is_input else "exists"
        raise UserError(f"--output={output}: {what}, and is not overwritten")
    folder = os.path.dirname(output) or "."
    if not is_remote(folder) and not os.path.isdir(folder):
        raise UserError(f"--output={output}: no such folder: {folder}")
    if not is_remote(folder) and not os.access(folder, os.W_OK):
        raise UserError(f"--output={output}: can't write to {folder}")


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
    is_pair = bool(pack.inputs.get("pair"))
    if values.text_pair_column and not is_pair:
        raise UserError(f"--text_pair_column: {values.pack} is a task on single texts")
    source = OwnFiles(
        {path: table},
        TEXT_LABELS,
        text_column=values.text_column,
        pair_column=values.text_pair_column,
        kind=pack.kind,
        labels=pack.class_names,
    )
    if is_pair and source.pair is None:
        raise UserError(
            f"{path}: which column is the second text? Name it with --text_pair_column: "
            f"{', '.join(table.columns)}"
        )

    def read(column: str) -> list[str]:
        return [cell(path, line, row, column, may_be_empty=True) for line, row in table.rows]

    return read(source.text), read(source.pair) if is_pair and source.pair else None


def _rows(table: Table) -> Sequence[dict[str, Any]]:
    """Returns the rows of the file; those of JSON with the values that they have there."""
    path, encoding = flags.FLAGS.file, flags.FLAGS.encoding
    if layout_of(path).kind != JSON:
        return [row for _, row in table.rows]
    # `read_table` turns all values into text, and has checked that the file can be read.
    with open_bytes(path) as file:
        text, _ = decode(path, file.read(), encoding)
    if text.lstrip().startswith("["):
        return json.loads(text)
    lines = text.split("\n" if "\n" in text else "\r")
    return [json.loads(line) for line in lines if line.strip()]


def _add_columns(rows: Sequence[dict[str, Any]], columns: dict[str, list]) -> list[dict[str, Any]]:
    """Returns the rows with the columns behind their own."""
    taken = {name for row in rows for name in row}
    renamed = {}
    for name, values in columns.items():
        while name in taken:
            name = _PREFIX + name
        taken.add(name)
        renamed[name] = values
    added = zip(*renamed.values(), strict=True)
    return [
        {**row, **dict(zip(renamed, cells, strict=True))}
        for row, cells in zip(rows, added, strict=True)
    ]


def _write(path: str, rows: list[dict[str, Any]]) -> None:
    ending = os.path.splitext(path)[1].lower()
    try:
        # In JSON, half of a surrogate pair is written as an escape, which is how it was read.
        with (
            new_file(path) as beside,
            open(beside, "w", encoding="utf-8", errors="backslashreplace", newline="") as file,
        ):
            if ending in _JSON_ENDINGS:
                file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            else:
                _write_delimited(file, _DELIMITERS.get(ending, ","), rows)
    except OSError as error:
        raise file_error(path, error) from None


def _write_delimited(file: IO[str], delimiter: str, rows: list[dict[str, Any]]) -> None:
    # Rows of JSON may have different columns.
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([_as_cell(row.get(name)) for name in names] for row in rows)


def _as_cell(value: Any) -> Any:
    """Returns what a cell of a CSV says for a value of a JSON file."""
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list | bool) else value


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


if __name__ == "__main__":
    flags.DEFINE_string("pack", None, "Task: a task pack of run_classifier.py.", required=True)
    flags.DEFINE_string("bert", None, "Base: the BERT, if it is not where the pack says.")
    flags.DEFINE_string(
        "bert_config_file", None, "Base: bert_config.json, if it is not beside the checkpoint."
    )
    flags.DEFINE_string("vocab_file", None, "Base: vocab.txt, if it is not beside the checkpoint.")
    for _name, _help in (
        ("text", "Texts: a text; give the flag once for each text."),
        ("text_pair", "Texts: the second text of each pair, for a task on pairs."),
    ):
        flags.DEFINE_multi_string(_name, None, _help)
        flags.FLAGS[_name].help = _help  # absl adds a second line to it.
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
