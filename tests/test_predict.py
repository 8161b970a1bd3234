"""python -m adapter_bert_tf.predict as a user starts it."""

import csv
import json

import numpy as np
import pytest

from adapter_bert_tf.data.tables import layout_of, read_table
from adapter_bert_tf.task import load_task
from tests.programs import run_quickly, run_without_tensorflow
from tests.serve.tasks import make_pack

PROGRAM = "adapter_bert_tf.predict"
# What files stumble over, and a text that is longer than the tiny BERT takes.
TEXTS = ["w1 w2", 'w3, "w4"\n\tw5', "", "w6;w7\u2028é", "w8 " * 50, "'w9' \\n w1"]


@pytest.fixture(scope="module")
def packs(bert, tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("packs")
    designs = {"classes": {"classes": 3}, "value": {"classes": None, "pair": True}}
    return {
        name: make_pack(bert, folder / name, name, seed=i, max_seq_length=24, **design)
        for i, (name, design) in enumerate(designs.items())
    }


def _predict(*flags: str) -> str:
    done = run_quickly(PROGRAM, *flags)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _rows(path) -> list[dict[str, str]]:
    return [row for _, row in read_table(str(path), layout_of(str(path))).rows]


def test_texts_are_predicted_a_line_each(packs):
    printed = _predict(f"--pack={packs['classes']}", "--text=w1 w2", f"--text={'w3 ' * 40}")
    task = load_task(packs["classes"])
    for line, wanted in zip(printed.splitlines(), task.predict(["w1 w2", "w3 " * 40]), strict=True):
        label, score, text = line.split(maxsplit=2)
        assert (label, score) == (wanted.label, f"{wanted.score:.1%}")
        assert text == "w1 w2" or (text.startswith("w3 w3") and text.endswith("…"))


def test_pairs_are_predicted(packs):
    flags = ["--text=w1", "--text_pair=w2 w3", "--text=w4", "--text_pair=w5"]
    printed = _predict(f"--pack={packs['value']}", *flags)
    wanted = load_task(packs["value"]).predict(["w1", "w4"], ["w2 w3", "w5"])
    assert printed.splitlines() == [
        f"{each.value:.4f}  {text}"
        for each, text in zip(wanted, ["w1 | w2 w3", "w4 | w5"], strict=True)
    ]


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl"])
def test_a_file_keeps_its_columns_and_gets_those_of_the_predictions(packs, tmp_path, ending):
    path, output = tmp_path / "in.csv", tmp_path / f"out.{ending}"
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["label", "text", "id"])
        writer.writerows([f"gold {i}", text, i] for i, text in enumerate(TEXTS))
    printed = _predict(
        f"--pack={packs['classes']}", f"--file={path}", f"--output={output}", "--batch_size=2"
    )
    assert printed.endswith(f"predicted: {output}, {len(TEXTS)} rows\n")
    before, after = _rows(path), _rows(output)
    task = load_task(packs["classes"])
    names = ["predicted_label", "score", *(f"probability_{label}" for label in task.labels)]
    wanted = task.predict([row["text"] for row in before])
    for old, new, predicted in zip(before, after, wanted, strict=True):
        assert list(new) == ["label", "text", "id", *names]
        assert {name: new[name] for name in old} == old
        assert new["predicted_label"] == predicted.label
        found = [float(new[name]) for name in names[1:]]
        np.testing.assert_allclose(found, [predicted.score, *predicted.probabilities], atol=1e-6)
    assert [row["text"] for row in after] == TEXTS


def test_json_keeps_its_values_and_rows_of_different_columns(packs, tmp_path):
    rows = [
        {"sentence1": "w1", "sentence2": "w2", "id": 7, "tags": ["a", "é"], "value": None},
        {"sentence2": "w4", "sentence1": "w3", "more": {"half": "\ud800"}},
    ]
    path, output, table = tmp_path / "in.jsonl", tmp_path / "out.jsonl", tmp_path / "out.csv"
    path.write_text("".join(json.dumps(row) + "\n\n" for row in rows))
    for each in (output, table):
        _predict(f"--pack={packs['value']}", f"--file={path}", f"--output={each}")
    wanted = load_task(packs["value"]).predict(["w1", "w3"], ["w2", "w4"])
    found = [json.loads(line) for line in output.read_text().splitlines()]
    for row, new, predicted in zip(rows, found, wanted, strict=True):
        assert new.pop("predicted_value") == pytest.approx(predicted.value, abs=1e-6)
        assert new == row
    assert list(_rows(table)[1].values())[:5] == ["w3", "w4", "", "", ""]
    assert json.loads(_rows(table)[0]["tags"]) == ["a", "é"]


def test_an_array_and_columns_of_other_names(packs, tmp_path):
    path, output = tmp_path / "in.json", tmp_path / "out.tsv"
    path.write_text(json.dumps([{"a": "w1", "b": 3}, {"a": "w2", "b": 4}], indent=2))
    pack = f"--pack={packs['classes']}"
    _predict(pack, f"--file={path}", f"--output={output}", "--text_column=a")
    wanted = load_task(packs["classes"]).predict(["w1", "w2"])
    assert [row["label"] for row in _rows(output)] == [each.label for each in wanted]


@pytest.fixture
def files(tmp_path, packs):
    """Files for wrong commands, and the folder that must stay as it is."""
    (tmp_path / "in.csv").write_text("text,other\nw1,w2\n")
    (tmp_path / "odd.csv").write_text("one,two\nw1,w2\n")
    (tmp_path / "short.csv").write_text("text,other\nw1\n")
    span = json.loads(open(f"{packs['classes']}/pack.json").read())
    span |= {"head": {"kind": "span", "settings": {}}, "labels": []}
    (tmp_path / "span").mkdir()
    (tmp_path / "span" / "pack.json").write_text(json.dumps(span))
    return tmp_path


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ("--pack=/nowhere --text=w1", "/nowhere/pack.json: No such file"),
        ("--pack=span --text=w1", "use python -m adapter_bert_tf.answer"),
        ("--pack=CLASSES", "expected either --text or --file"),
        ("--pack=CLASSES --text=w1 --file=in.csv", "expected either --text or --file"),
        ("--pack=CLASSES --text=w1 --output=out.csv", "--output: goes with --file"),
        ("--pack=CLASSES --text=w1 --text_pair=w2", "--text_pair: CLASSES is a task on single"),
        ("--pack=VALUE --text=w1", "expected 1 second texts, not 0"),
        ("--pack=CLASSES --text=w1 --batch_size=0", "--batch_size: expected a whole number from 1"),
        ("--pack=CLASSES --file=in.csv", "--output: expected the file"),
        ("--pack=CLASSES --file=in.csv --output=in.csv", "in.csv: is the input, and is not"),
        ("--pack=CLASSES --file=in.csv --output=odd.csv", "odd.csv: exists, and is not"),
        ("--pack=CLASSES --file=in.csv --output=no/out.csv", "no such folder: no"),
        ("--pack=CLASSES --file=no.csv --output=out.csv", "no.csv: No such file"),
        ("--pack=CLASSES --file=span --output=out.csv", "span: expected a name that ends in"),
        ("--pack=CLASSES --file=odd.csv --output=out.csv", "odd.csv: which column is the text?"),
        ("--pack=CLASSES --file=short.csv --output=out.csv", "short.csv:2: 1 columns, expected 2"),
        ("--pack=CLASSES --file=in.csv --output=out.csv --text_column=x", "--text_column=x: no"),
        (
            "--pack=CLASSES --file=in.csv --output=out.csv --text_pair_column=other",
            "--text_pair_column: CLASSES is a task on single texts",
        ),
        ("--pack=VALUE --file=in.csv --output=out.csv", "which column is the second text?"),
        ("--pack=CLASSES --file=in.csv --output=out.csv --encoding=x", "x"),
    ],
)
def test_mistakes_are_told_in_a_line_before_tensorflow_is_loaded(packs, files, flags, told):
    def fill(text: str) -> str:
        return text.replace("CLASSES", packs["classes"]).replace("VALUE", packs["value"])

    before = {path.name: path.read_bytes() for path in files.iterdir() if path.is_file()}
    done = run_without_tensorflow(PROGRAM, *fill(flags).split(), cwd=files)
    assert done.returncode == 1
    assert fill(told) in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert {path.name: path.read_bytes() for path in files.iterdir() if path.is_file()} == before
