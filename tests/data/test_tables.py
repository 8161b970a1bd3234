"""Tables that people really have: what is read, or the line that refuses them."""

import csv
import gzip
import io
import json
import time
import zipfile

import numpy as np
import pytest

from adapter_bert_tf import UserError
from adapter_bert_tf.data.tables import (
    PLAIN_TSV,
    Layout,
    layout_of,
    read_table,
)

AB = [{"text": "a", "label": "1"}, {"text": "b", "label": "2"}]
EMPTY_COLUMNS = "left out empty columns at the end"
QUOTES = "read with quotes around fields"
MEGABYTE = "x, " * 350_000


def _rows(*pairs: tuple[str, str]) -> list[dict[str, str]]:
    return [{"text": text, "label": label} for text, label in pairs]


def _read(tmp_path, name: str, content: bytes, **layout):
    path = tmp_path / name
    path.write_bytes(content)
    return read_table(str(path), layout_of(str(path), **layout))


def _excel_workbook() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
    return content.getvalue()


READ = {
    # Quotes.
    "quoted CSV": ("a.csv", b'"text","label"\n"a","1"\n"b","2"\n', AB, []),
    "commas in quotes": (
        "a.csv",
        b'text,label\n"a, b",1\n',
        _rows(("a, b", "1")),
        [],
    ),
    "doubled quotes": (
        "a.csv",
        b'text,label\n"a ""b"" c",1\n"""d""",2\n',
        _rows(('a "b" c', "1"), ('"d"', "2")),
        [],
    ),
    "line breaks in quotes": (
        "a.csv",
        b'text,label\n"a\nb\r\nc",1\n"d",2\n',
        _rows(("a\nb\nc", "1"), ("d", "2")),
        [],
    ),
    "empty quoted field": ("a.csv", b'text,label\n"",1\n', _rows(("", "1")), []),
    "quoted TSV with tabs and line breaks": (
        "a.tsv",
        b'text\tlabel\n"a\tx\nb"\tpos\nc\tneg\n',
        _rows(("a\tx\nb", "pos"), ("c", "neg")),
        [QUOTES],
    ),
    "quoted header of a TSV": ("a.tsv", b'"text"\t"label"\na\t1\nb\t2\n', AB, [QUOTES]),
    "inches in a CSV": ("a.csv", b'text,label\n5" pipe,1\n', _rows(('5" pipe', "1")), []),
    "speech in a CSV": (
        "a.csv",
        b'text,label\nHe said "no",1\n"No" he said,2\n',
        _rows(('He said "no"', "1"), ('"No" he said', "2")),
        [],
    ),
    "speech in a quoted TSV": (
        "a.tsv",
        b'text\tlabel\n"a"\t1\n"No" he said\t2\nsay "no"\t3\n',
        _rows(("a", "1"), ('"No" he said', "2"), ('say "no"', "3")),
        [QUOTES],
    ),
    "stray quotes in a TSV": (
        "a.txt",
        b'text\tlabel\n"Open\t1\nsay "no"\t2\n',
        _rows(('"Open', "1"), ('say "no"', "2")),
        [],
    ),
    "texts of a TSV that start and end with quotes": (
        "a.tsv",
        b'text\tlabel\n"Open\t1\nclosed"\t2\n"a"\t3\nsay "no" now\t4\n"Last\t5\n',
        _rows(('"Open', "1"), ('closed"', "2"), ("a", "3"), ('say "no" now', "4"), ('"Last', "5")),
        [QUOTES],
    ),
    "single quotes": ("a.csv", b"text,label\n'a',1\n", _rows(("'a'", "1")), []),
    # Encodings.
    "UTF-8": ("a.csv", "text,label\ncafé 😀,1\n".encode(), _rows(("café 😀", "1")), []),
    "UTF-8 with a mark": ("a.csv", b"\xef\xbb\xbftext,label\na,1\nb,2\n", AB, []),
    "UTF-16 with a mark": (
        "a.csv",
        "text,label\nдa,1\n".encode("utf-16"),
        _rows(("дa", "1")),
        ["read as UTF-16"],
    ),
    "big-endian UTF-16 with a mark": (
        "a.tsv",
        "\ufefftext\tlabel\na\t1\nb\t2\n".encode("utf-16-be"),
        AB,
        ["read as UTF-16"],
    ),
    "UTF-16 without a mark": (
        "a.csv",
        "text,label\n中,1\n".encode("utf-16-le"),
        _rows(("中", "1")),
        ["read as UTF-16-LE"],
    ),
    "big-endian UTF-16 without a mark": (
        "a.csv",
        "text,label\na,1\nb,2\n".encode("utf-16-be"),
        AB,
        ["read as UTF-16-BE"],
    ),
    "UTF-32": ("a.csv", "text,label\na,1\nb,2\n".encode("utf-32"), AB, ["read as UTF-32"]),
    "Latin-1": (
        "a.csv",
        b"text,label\ncaf\xe9,1\n",
        _rows(("café", "1")),
        ["read as CP1252"],
    ),
    "Windows quotes": (
        "a.csv",
        b"text,label\n\x93no\x94,1\n",
        _rows(("“no”", "1")),
        ["read as CP1252"],
    ),
    "Latin-1 that is not cp1252": (
        "a.csv",
        b"text,label\ncaf\xe9\x81,1\n",
        _rows(("café\x81", "1")),
        ["read as LATIN-1"],
    ),
    "UTF-16 JSON lines": (
        "a.jsonl",
        '{"text": "a", "label": 1}\n{"text": "b", "label": 2}'.encode("utf-16"),
        AB,
        ["read as UTF-16"],
    ),
    "NUL": ("a.csv", b"text,label\na\0b,1\n", _rows(("a\0b", "1")), []),
    # Delimiters.
    "semicolons": (
        "a.csv",
        b"text;label\na, b;1\nc;2\n",
        _rows(("a, b", "1"), ("c", "2")),
        ["read with semicolons between columns"],
    ),
    "quoted semicolons": (
        "a.csv",
        b'"text";"label"\n"a; ""b""";1\n',
        _rows(('a; "b"', "1")),
        ["read with semicolons between columns"],
    ),
    "tabs in a CSV": (
        "a.csv",
        b"text\tlabel\na\t1\nb\t2\n",
        AB,
        ["read with tabs between columns"],
    ),
    "bars": ("a.csv", b"text|label\na|1\nb|2\n", AB, ["read with vertical bars between columns"]),
    "one column": ("a.csv", b"text\na;b\nc\n", [{"text": "a;b"}, {"text": "c"}], []),
    "upper-case ending": ("A.CSV", b"text,label\na,1\nb,2\n", AB, []),
    # Line ends.
    "Windows line ends": ("a.csv", b"text,label\r\na,1\r\nb,2\r\n", AB, []),
    "Windows line ends in a TSV": ("a.tsv", b"text\tlabel\r\na\t1\r\nb\t2", AB, []),
    "old Mac line ends": ("a.csv", b"text,label\ra,1\rb,2\r", AB, []),
    "Excel for Mac": (
        "a.csv",
        b'text,label\r"a\nb",1\rc,2',
        _rows(("a\nb", "1"), ("c", "2")),
        [],
    ),
    "carriage return in a text": (
        "a.tsv",
        b"text\tlabel\na\rb\t1\n",
        _rows(("a\rb", "1")),
        [],
    ),
    "other line separators are text": (
        "a.csv",
        "text,label\na\u2028b\x0cc\x85d,1\n".encode(),
        _rows(("a\u2028b\x0cc\x85d", "1")),
        [],
    ),
    "blank lines": ("a.csv", b"\n\ntext,label\n\na,1\n\n\nb,2\n\n", AB, []),
    "lines of spaces": ("a.csv", b"text,label\n  \na,1\n \t \nb,2\n   ", AB, []),
    # Rows and columns.
    "repeated header": (
        "a.csv",
        b"text,label\na,1\ntext,label\nb,2\ntext,label\n",
        AB,
        ["left out 2 rows that repeat the header"],
    ),
    "concatenated files with marks": (
        "a.csv",
        b"\xef\xbb\xbftext,label\r\na,1\r\n\xef\xbb\xbftext,label\r\nb,2\r\n",
        AB,
        ["left out 1 rows that repeat the header"],
    ),
    "pandas index": (
        "a.csv",
        b",text,label\n0,a,1\n1,b,2\n",
        [{"": "0", **AB[0]}, {"": "1", **AB[1]}],
        [],
    ),
    "Excel's empty columns": ("a.csv", b"text,label,,\na,1,,\nb,2,,\n", AB, [EMPTY_COLUMNS]),
    "delimiter at the end of rows": ("a.csv", b"text,label\na,1,\nb,2,\n", AB, [EMPTY_COLUMNS]),
    "delimiter at the end of the header": (
        "a.csv",
        b"text,label,\na,1\nb,2\n",
        AB,
        [EMPTY_COLUMNS],
    ),
    "text in a column without a name": (
        "a.csv",
        b"text,label,\na,1,\nb,2,x\n",
        [{**AB[0], "": ""}, {**AB[1], "": "x"}],
        [],
    ),
    "Excel's empty rows": (
        "a.csv",
        b"text,label\na,1\nb,2\n,\n,\n",
        AB,
        ["left out 2 empty rows"],
    ),
    "numbers as labels": (
        "a.tsv",
        b"text\tlabel\na\t-1.50\nb\t007\n",
        _rows(("a", "-1.50"), ("b", "007")),
        [],
    ),
    "empty text": ("a.csv", b"text,label\n,1\nb,2\n", _rows(("", "1"), ("b", "2")), []),
    "empty texts in one column": ("a.csv", b'text\n""\nb\n', [{"text": ""}, {"text": "b"}], []),
    "a megabyte": (
        "a.csv",
        f'text,label\n"{MEGABYTE}",1\n'.encode(),
        _rows((MEGABYTE, "1")),
        [],
    ),
    # JSON.
    "JSON lines": ("a.jsonl", b'{"text": "a", "label": 1}\n\n{"text": "b", "label": "2"}', AB, []),
    "JSON lines in a .json": (
        "a.json",
        b'{"text":"a","label":1}\r\n{"text":"b","label":2}\r\n',
        AB,
        [],
    ),
    "JSON array": ("a.json", json.dumps(AB, indent=2).encode(), AB, []),
    "JSON null": (
        "a.json",
        b'[{"text": "a", "label": null}, {"text": "b", "label": true}]\n',
        [{"text": "a"}, {"text": "b", "label": "true"}],
        [],
    ),
}


@pytest.mark.parametrize(("name", "content", "rows", "notes"), READ.values(), ids=READ)
def test_what_is_read(tmp_path, name, content, rows, notes):
    table = _read(tmp_path, name, content)
    assert [row for _, row in table.rows] == rows
    assert table.notes == notes
    assert set(table.columns) == {column for row in rows for column in row}


DEEP = b"[" * 100_000
REFUSED = {
    "empty": ("a.csv", b"", "a.csv: the file is empty"),
    "blank": ("a.csv", b"\n \n", "a.csv: the file is empty"),
    "byte-order mark only": ("a.csv", b"\xef\xbb\xbf", "a.csv: the file is empty"),
    "header only": ("a.csv", b"text,label\n", "a.csv: no rows below the header"),
    "header twice": ("a.csv", b"text,label\ntext,label\n", "no rows below the header"),
    "unclosed quote": ("a.csv", b'text,label\na,1\n"b,2\nc,3\n', "a.csv:3: the quote that opens"),
    "unclosed quote in a second field": (
        "a.csv",
        b'text,label\n"a\nb","1\nc,2\n',
        "a.csv:3: the quote that opens here is not closed",
    ),
    "quote closed in a later field": (
        "a.csv",
        b'text,label\n"a,1\n"b",2\n',
        "a.csv:2: the quote that opens here is not closed",
    ),
    "unclosed quote in a quoted TSV": (
        "a.tsv",
        b'text\tlabel\n"a"\t1\n"b\t2\n',
        "a.tsv:3: the quote that opens here is not closed",
    ),
    "too few columns": ("a.csv", b"text,label\na,1\nb\n", "a.csv:3: 1 columns, expected 2"),
    "too many columns": ("a.csv", b"text,label\na, b,1\n", "a.csv:2: 3 columns, expected 2"),
    "line after a line break in quotes": (
        "a.csv",
        b'text,label\n"a\nb\nc",1\nd\n',
        "a.csv:5: 1 columns, expected 2",
    ),
    "the same name twice": ("a.csv", b"text,label,text\na,1,b\n", "a.csv:1: two columns have the"),
    "damaged UTF-8": (
        "a.csv",
        "text,label\ncafé,1\nthé,2\n".encode() + b"na\xefve,3\n",
        "a.csv:4: not UTF-8 at byte 28",
    ),
    "cut UTF-16": ("a.csv", "text,label\na,1".encode("utf-16")[:-1], "a.csv:2: not UTF-16 at byte"),
    "PNG": ("a.csv", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "a.csv: is not a text file"),
    "gzip": ("a.csv", gzip.compress(b"text,label\na,1\n"), "a.csv: is compressed with gzip"),
    "workbook": ("a.csv", _excel_workbook(), "a.csv: is an Excel workbook"),
    "broken JSON line": ("a.jsonl", b'{"text": "a"}\n{"text": \n', "a.jsonl:2: not JSON"),
    "two objects on a line": ("a.jsonl", b'{"text": "a"} {"text": "b"}\n', "a.jsonl:1: not JSON"),
    "JSON line without an object": ("a.jsonl", b'"a"\n', "a.jsonl:1: expected a JSON object"),
    "item without an object": (
        "a.json",
        b'[{"text": "a"},\n 3]',
        "a.json:2: expected a JSON object",
    ),
    "broken item": ("a.json", b'[\n{"text": "a"},\n{"text" "b"}]', "a.json:3: not JSON: Expecting"),
    "array without an end": ("a.json", b'[{"text": "a"}\n', "a.json:1: not JSON: the array is not"),
    "text after the array": ("a.json", b'[{"text": "a"}]\n]', "a.json:1: not JSON: text after"),
    "one object over several lines": (
        "a.json",
        b'{\n"data": []\n}',
        "a.json:1: not JSON: .*array of",
    ),
    "empty array": ("a.json", b"[]", "a.json: no rows"),
    "deep JSON array": ("a.json", DEEP, "a.json:1: not JSON: nested too deeply"),
    "deep JSON line": ("a.jsonl", b'{"text":' + DEEP, "a.jsonl:1: not JSON: nested too deeply"),
    "number of too many digits": ("a.jsonl", b'{"a": ' + b"1" * 9999 + b"}", "a.jsonl:1: not JSON"),
    "Excel ending": ("a.xlsx", b"text,label\na,1\n", "a.xlsx: expected a name that ends in .csv"),
    "compressed ending": ("a.csv.gz", b"", "a.csv.gz: expected a name that ends in .csv"),
    "no ending": ("data", b"text,label\na,1\n", "data: expected a name that ends in .csv"),
}


@pytest.mark.parametrize(("name", "content", "told"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_with_one_line(tmp_path, name, content, told):
    with pytest.raises(UserError, match=told) as error:
        _read(tmp_path, name, content)
    assert "\n" not in str(error.value)


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(UserError, match="a.csv: No such file"):
        read_table(str(tmp_path / "a.csv"), Layout("csv"))
    with pytest.raises(UserError, match="Is a directory"):
        read_table(str(tmp_path), Layout("csv"))


def test_rows_have_the_line_that_they_start_on(tmp_path):
    table = _read(tmp_path, "a.csv", b'\ntext,label\r\n"a\r\nb",1\r\n\r\nc,2\r\n')
    assert [line for line, _ in table.rows] == [3, 6]
    table = _read(tmp_path, "a.json", b'[\n{"text":\n"a"},\n{"text": "b"}\n]')
    assert [line for line, _ in table.rows] == [2, 4]


def test_a_given_encoding_is_obeyed(tmp_path):
    content = "text,label\nжизнь,1\n".encode("cp1251")
    table = _read(tmp_path, "a.csv", content, encoding="cp1251")
    assert (table.rows[0][1]["text"], table.notes) == ("жизнь", [])
    with pytest.raises(UserError, match="a.csv:2: not UTF-8 at byte 11"):
        _read(tmp_path, "a.csv", content, encoding="utf-8")
    for unknown in ("utf-9", "hex", "a\0b", ""):
        with pytest.raises(UserError, match="a.csv: encoding .* is unknown"):
            _read(tmp_path, "a.csv", content, encoding=unknown)


@pytest.mark.parametrize(
    ("delimiter", "content"),
    [
        ("tab", b"text\tlabel\na, b\t1\n"),
        ("\\t", b"text\tlabel\na, b\t1\n"),
        ("\t", b"text\tlabel\na, b\t1\n"),
        ("^", b'text^label\n"a, b"^1\n'),
        ("]", b"text]label\na, b]1\n"),
        (";", b"text;label\na, b;1\n"),
    ],
)
def test_a_given_delimiter_is_obeyed(tmp_path, delimiter, content):
    table = _read(tmp_path, "a.csv", content, delimiter=delimiter)
    assert [row for _, row in table.rows] == _rows(("a, b", "1"))
    assert table.notes == []


@pytest.mark.parametrize("delimiter", ["", ";;", '"', "\n"])
def test_a_wrong_delimiter_is_told(tmp_path, delimiter):
    with pytest.raises(UserError, match="expected a single character or 'tab'"):
        _read(tmp_path, "a.csv", b"text,label\na,1\n", delimiter=delimiter)


def test_json_takes_no_delimiter(tmp_path):
    with pytest.raises(UserError, match="a.json: is JSON, which has no delimiter ';'"):
        _read(tmp_path, "a.json", b'[{"text": "a"}]', delimiter=";")


def test_quotes_are_text_in_official_files(tmp_path):
    path = tmp_path / "dev.tsv"
    path.write_bytes(b'text\tlabel\n"a"\t1\n"b\t2\n""c""\t3\n')
    table = read_table(str(path), PLAIN_TSV)
    assert [row["text"] for _, row in table.rows] == ['"a"', '"b', '""c""']


def test_short_lines_are_left_out_where_they_are_known(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_bytes(b"text\tlabel\na\t1\ncut\nb\t2\nc\td\te\n")
    table = read_table(str(path), Layout(skips_short_lines=True))
    assert [row for _, row in table.rows] == AB
    assert table.short_lines == 2
    assert table.notes == ["left out 2 lines with missing or additional columns"]


@pytest.mark.parametrize("row", [b"some text of a row,x,1\n", b'"some ""text"", of a row","x",1\n'])
def test_many_rows_are_quick(tmp_path, row):
    start = time.perf_counter()
    table = _read(tmp_path, "a.csv", b"text,name,label\n" + row * 100_000)
    assert len(table.rows) == 100_000
    # It takes a third of a second; slow machines are not the test's matter.
    assert time.perf_counter() - start < 10


@pytest.mark.parametrize("quotes", ['"No" he said', '""', '"""a"""', 'a" "" b', '"' * 100])
def test_many_quotes_are_quick(tmp_path, quotes):
    table = _read(tmp_path, "a.tsv", b"text\tlabel\n" + f"{quotes}\t1\n".encode() * 50_000)
    assert len(table.rows) == 50_000


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
def test_what_pythons_writer_writes_is_read_back(tmp_path, name, quoting):
    random = np.random.default_rng(0)
    cells = [
        "".join(random.choice(list('ab",;\t\n '), size=n)) for n in random.integers(9, size=600)
    ]
    rows = [(f"x{first}", second) for first, second in zip(cells[::2], cells[1::2], strict=True)]
    content = io.StringIO()
    delimiter = "," if name.endswith("csv") else "\t"
    writer = csv.writer(content, delimiter=delimiter, quoting=quoting, lineterminator="\n")
    writer.writerows([("text", "label"), *rows])
    table = _read(tmp_path, name, content.getvalue().encode())
    assert [row for _, row in table.rows] == _rows(*rows)


@pytest.mark.parametrize(
    "name", ["MRPC/train.tsv", "MRPC/dev.tsv", "STS-B/train.tsv", "RTE/dev.tsv"]
)
def test_glues_files_can_be_read_as_ones_own(data, name):
    path = str(data / "glue" / name)
    found, official = (read_table(path, each) for each in (layout_of(path), PLAIN_TSV))
    assert found.rows == official.rows
