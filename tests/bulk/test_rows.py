import itertools

import pytest

from adapter_bert_tf.bulk.rows import Bad, Reader, Row, by_length
from adapter_bert_tf.pack.pack import Pack, read_pack
from tests.serve import tasks


@pytest.fixture(scope="module")
def packs(bert, tmp_path_factory) -> dict[str, Pack]:
    folder = tmp_path_factory.mktemp("packs")
    single = tasks.make_pack(bert, folder / "single", "single", max_seq_length=24)
    pair = tasks.make_pack(bert, folder / "pair", "pair", pair=True, max_seq_length=24)
    return {"single": read_pack(single), "pair": read_pack(pair)}


def _split(found):
    found = list(found)
    good = [each for each in found if isinstance(each, Row)]
    return good, [each for each in found if isinstance(each, Bad)]


def test_bad_rows_of_a_csv_are_told_and_the_others_are_read(packs):
    content = b'id,text\n1,w1\n2\n3,"w2\nw3"\n4,w4,w5\n5,\n'
    good, bad = _split(Reader(packs["single"]).read("a.csv", content))
    assert [row.values for row in good] == [
        {"id": "1", "text": "w1"},
        {"id": "3", "text": "w2\nw3"},
        {"id": "5", "text": ""},
    ]
    assert [row.text for row in good] == ["w1", "w2\nw3", ""]
    assert bad == [
        Bad("a.csv", 3, "1 columns, expected 2", ["2"]),
        Bad("a.csv", 6, "3 columns, expected 2", ["4", "w4", "w5"]),
    ]


def test_bad_lines_of_json_are_told_and_values_are_kept(packs):
    lines = [
        '{"text": "w1", "id": 7}',
        "{",
        "[1]",
        '{"text": null}',
        '{"text": "w2"} x',
        "",
        '{"text": 3}',
    ]
    good, bad = _split(Reader(packs["single"]).read("a.jsonl", "\n".join(lines).encode()))
    assert [(row.text, row.values) for row in good] == [
        ("w1", {"text": "w1", "id": 7}),
        ("3", {"text": 3}),
    ]
    assert {each.line for each in bad} == {2, 3, 4, 5}
    told = {each.line: each for each in bad}
    assert told[2].problem.startswith("not JSON: ")
    assert told[2].row == "{"
    assert told[3].row == [1]
    assert told[4] == Bad("a.jsonl", 4, "'text' is missing", {"text": None})
    assert "text after the object" in told[5].problem


@pytest.mark.parametrize(
    ("path", "content", "problem"),
    [
        ("a.csv", b"", "the file is empty"),
        ("a.csv", b"one,two\nw1,w2\n", "which column is the text?"),
        ("a.csv", b'text\n"w1\n', "the quote that opens here is not closed"),
        ("a.csv.gz", b"\x1f\x8b", "expected a name that ends in"),
        ("a.jsonl", b"{\n", "no row can be read"),
        ("a.json", b'[{"text": "w1"}, {', "not JSON"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_bad_one(packs, path, content, problem):
    good, bad = _split(Reader(packs["single"]).read(path, content))
    assert good == []
    assert [each.line for each in bad] == [None]
    assert problem in bad[0].problem


def test_pairs_are_found_and_columns_can_be_named(packs):
    content = b"a,b,sentence1,sentence2\nw1,w2,w3,w4\n"
    ((row,), bad) = _split(Reader(packs["pair"]).read("a.csv", content))
    assert (row.text, row.pair, bad) == ("w3", "w4", [])
    named = Reader(packs["pair"], text_column="b", pair_column="a")
    ((row,), _) = _split(named.read("a.csv", content))
    assert (row.text, row.pair) == ("w2", "w1")
    _, (bad,) = _split(Reader(packs["pair"]).read("a.csv", b"text\nw1\n"))
    assert "which column is the second text?" in bad.problem


def test_files_of_other_columns_are_refused_if_all_must_be_alike(packs):
    reader = Reader(packs["single"], columns=("id", "text"))
    assert _split(reader.read("a.csv", b"text,id\nw1,1\n"))[1] == []
    good, (bad,) = _split(reader.read("a.csv", b"text,name\nw1,1\n"))
    assert good == []
    assert "the columns are name, text, expected those of the other files: id, text" in bad.problem


def test_batches_have_similar_lengths_and_every_row_once():
    rows = [Row({"id": i}, "x" * (i * 37 % 100), "y" * (i % 3)) for i in range(25)]
    batches = list(by_length(rows, 4))
    assert [len(batch) for batch in batches] == [4] * 6 + [1]
    lengths = [[row.length for row in batch] for batch in batches]
    assert all(max(one) <= min(two) for one, two in itertools.pairwise(lengths))
    assert sorted(row.values["id"] for batch in batches for row in batch) == list(range(25))
