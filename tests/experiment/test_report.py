"""Reports, made from CSV files alone."""

import csv
import dataclasses
import html.parser
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import xml.etree.ElementTree

import pytest

from adapter_bert_tf.data.additional import ADDITIONAL
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.experiment import about, paper
from adapter_bert_tf.experiment.records import (
    ABLATION,
    COMPLETE,
    FAILED,
    PRUNED,
    RUNNING,
    TRIALS,
    WAITING,
    Record,
    write_records,
)
from adapter_bert_tf.experiment.report import write_report

ROOT = pathlib.Path(__file__).parents[2]
DOCS = sorted(path.parent for path in ROOT.glob("docs/experiments/**/about.json"))

EXPERIMENTS = (
    "glue",
    "additional",
    "tradeoff",
    "squad",
    "ablation",
    "init_scale",
    "learning_rate",
    "size",
    "variants",
    "sweep",
    "baseline",
)
BASE = 1_000_000
NONE, TIMES = "\N{EN DASH}", "\N{MULTIPLICATION SIGN}"
ABOUT = {"commit": "abc123", "bert": "minilm"}


def _trial(task, method, value, trained=BASE, seed=0, test=None, **settings) -> Record:
    total = BASE + trained if method == "adapters" else BASE
    return Record(
        task, method, settings, seed, COMPLETE, "accuracy", value, test, trained, total, 10, 900.0
    )


def _trials(*tasks: str) -> list[Record]:
    """Returns trials that have something for every experiment."""
    trials = []
    for task in tasks:
        for seed in range(2):
            bonus = seed / 100
            trials += [
                _trial(task, "full", 0.8 + bonus, seed=seed, test=0.7 + bonus, learning_rate=1e-4),
                _trial(task, "top_k", 0.75, 500_000, seed, 0.72, top_k=1, learning_rate=1e-4),
                _trial(task, "houlsby", 0.77, 20_000, seed),
                _trial(task, "tanh", 0.76, 20_000, seed),
            ]
            trials += [
                _trial(
                    task,
                    "adapters",
                    0.7 + size / 1000 + bonus,
                    10_000 * size,
                    seed,
                    adapter_size=size,
                    learning_rate=1e-3,
                    adapter_init_scale=10.0**-size,
                )
                for size in (2, 8)
            ]
    return trials


def _write(folder: pathlib.Path, experiment: str, trials) -> dict[str, str]:
    """Makes a report, and returns its files by name."""
    write_records(str(folder), trials)
    write_report(str(folder), experiment, ABOUT)
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


class _Page(html.parser.HTMLParser):
    """The rows of each table by the heading above it, and the names of all elements."""

    def __init__(self, text: str):
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self.paper: list[str] = []
        self.tags: set[str] = set()
        self._text, self._is_paper = "", False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self._text, self._is_paper = "", ("class", "paper") in attrs
        if tag == "tr":
            self.tables[self._heading].append([])

    def handle_data(self, data):
        self._text += data

    def handle_endtag(self, tag):
        if tag == "h2":
            self._heading = self._text
            self.tables[self._heading] = []
        if tag in ("td", "th"):
            self.tables[self._heading][-1].append(self._text)
            if self._is_paper:
                self.paper.append(self._text)


def _table(files: dict[str, str], title: str = "Results") -> dict[str, dict[str, str]]:
    """Returns a table as row -> column -> text."""
    header, *rows = _Page(files["report.html"]).tables[title]
    return {row[0]: dict(zip(header, row, strict=True)) for row in rows}


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_a_report_is_complete_and_made_again_the_same(tmp_path, experiment):
    (tmp_path / ABLATION).write_text("task,first,last,value,full\na,0,0,0.7,0.8\na,0,1,0.4,0.8\n")
    files = _write(tmp_path, experiment, _trials("CoLA", "sms_spam"))
    assert _write(tmp_path, experiment, _trials("CoLA", "sms_spam")) == files
    page = _Page(files["report.html"])
    about = [["commit", "abc123"], ["bert", "minilm"], ["hours of trials", "6.00"]]
    assert page.tables["About"][1:] == about
    drawn = [name for name in files if name.endswith(".svg")]
    assert "figure_ablation.svg" in drawn
    for name in drawn:
        root = xml.etree.ElementTree.fromstring(files[name])
        assert root.tag.endswith("svg")
        assert f"]({name})" in files["report.md"]
        assert len(list(csv.reader(files[name.replace(".svg", ".csv")].splitlines()))) > 1
    assert files["report.html"].count("<svg") == len(drawn)
    assert not page.tags & {"script", "link", "img"}


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_a_report_can_be_made_before_anything_is_complete(tmp_path, experiment):
    for trials in ([], [Record("CoLA", "full", {}, 0)]):
        files = _write(tmp_path, experiment, trials)
        assert not [name for name in files if name.startswith("figure")]
        header, counts = _Page(files["report.html"]).tables["Trials"]
        assert dict(zip(header, counts, strict=True))[WAITING] == str(len(trials))
        assert ("not finished" in files["report.md"]) == bool(trials)


def test_states_are_counted_and_failures_have_reasons(tmp_path):
    states = [COMPLETE, COMPLETE, RUNNING, WAITING, PRUNED, FAILED]
    trials = [
        Record("a", "full", {"top_k": 3}, i, state, value=0.5, reason=f"because {i}")
        for i, state in enumerate(states)
    ]
    files = _write(tmp_path, "sweep", trials)
    assert _table(files, "Trials")["2"] == {
        COMPLETE: "2",
        RUNNING: "1",
        WAITING: "1",
        PRUNED: "1",
        FAILED: "1",
    }
    (failure,) = _table(files, "Failed trials").values()
    assert failure["reason"] == "because 5"
    assert failure["settings"] == "top_k=3"


HOSTILE = "<script>alert('1')</script> & | ` [x](y) $ \\"


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_names_and_reasons_are_only_text(tmp_path, experiment):
    trials = [
        *_trials(HOSTILE),
        Record(HOSTILE, HOSTILE, {HOSTILE: HOSTILE}, 0, FAILED, reason=HOSTILE + "\n# Heading"),
    ]
    files = _write(tmp_path, experiment, trials)
    page = _Page(files["report.html"])
    assert "script" not in page.tags
    assert page.tables["Failed trials"][1][0] == HOSTILE
    assert "<script" not in files["report.md"]
    assert "\n# Heading" not in files["report.md"]
    for table in re.findall(r"(?:^\|.*\n)+", files["report.md"], re.MULTILINE):
        lines = [re.sub(r"\\.", "", line) for line in table.splitlines()]
        assert len({line.count("|") for line in lines}) == 1


@pytest.mark.parametrize("experiment", ["glue", "additional"])
def test_the_papers_numbers_are_marked(tmp_path, experiment):
    files = _write(tmp_path, experiment, [])
    page = _Page(files["report.html"])
    header, *rows = page.tables["Results"]
    theirs = [i for i, name in enumerate(header) if name.startswith("Paper: ")]
    assert len(page.paper) == len(theirs) * (1 + len(rows))
    numbers = [cell for row in rows for i, cell in enumerate(row) if i not in theirs and i]
    assert not any(character.isdigit() for cell in numbers for character in cell)
    assert paper.SOURCE in files["report.html"]
    assert paper.SOURCE in files["report.md"]


@pytest.mark.parametrize("experiment", list(paper.FACTS))
def test_the_papers_facts_are_marked(tmp_path, experiment):
    page = _Page(_write(tmp_path, experiment, [])["report.html"])
    header, *rows = page.tables["The paper's numbers"]
    assert all(name.startswith("Paper: ") for name in header)
    assert {cell for row in rows for cell in row} <= set(page.paper)


def test_glue_beside_the_papers(tmp_path):
    trials = _trials("CoLA", "RTE")
    trials += [
        _trial("CoLA", "adapters", value, 50_000, seed, adapter_size=64)
        for seed, value in enumerate((0.5, 0.6))
    ]
    table = _table(_write(tmp_path, "glue", trials))
    assert list(table)[:9] == list(paper.GLUE_TASKS)
    cola = table["CoLA"]
    assert cola["full"] == "80.5 ± 0.5"
    assert cola["adapters"] == "71.3 ± 0.5"
    assert cola["adapters of 64"] == "55.0 ± 5.0"
    assert (cola["metric"], cola["Paper: metric"]) == ("accuracy", "matthews")
    assert (cola["Paper: full"], cola["Paper: adapters of 64"]) == ("60.5", "56.9")
    assert table["RTE"]["adapters of 64"] == NONE
    mean = table["mean of 1 tasks"]
    assert (mean["full"], mean["Paper: full"]) == ("80.5", "60.5")


def test_what_a_suite_costs(tmp_path):
    table = _table(_write(tmp_path, "glue", _trials(*paper.GLUE_TASKS)))
    suite = table["all tasks, beside one BERT"]
    assert (suite["full"], suite["adapters"]) == (f"9{TIMES} (9 tasks)", f"1.72{TIMES} (9 tasks)")
    assert (suite["Paper: full"], suite["Paper: adapters"]) == (f"9{TIMES}", f"1.3{TIMES}")
    assert table["trained a task"]["adapters"] == "8 %"


def test_additional_shows_test_scores_of_what_is_best_on_validation(tmp_path):
    trials = [
        _trial("sms_spam", "full", 0.9, test=0.5, learning_rate=1e-5),
        _trial("sms_spam", "full", 0.8, test=0.99, learning_rate=1e-4),
        _trial("sms_spam", "adapters", 0.8, adapter_size=8),
    ]
    table = _table(_write(tmp_path, "additional", trials))
    assert table["sms_spam"]["full"] == "50.0"
    assert table["sms_spam"]["adapters"] == NONE
    assert table["sms_spam"]["Paper: adapters"] == "95.1 ± 2.2"
    assert "no BERT" not in table["sms_spam"]


def test_additional_shows_the_trade_off_on_the_validation_sets(tmp_path):
    files = _write(tmp_path, "additional", _trials("sms_spam", "airline"))
    rows = list(csv.DictReader(files["figure_tradeoff.csv"].splitlines()))
    medians = {row["x"]: float(row["y"]) for row in rows if row["line"].endswith("50th percentile")}
    assert medians == pytest.approx({"20000.0": -9.8, "80000.0": -9.2, "500000.0": -5.5})


def test_scores_by_size_and_task(tmp_path):
    files = _write(tmp_path, "tradeoff", _trials("CoLA", "RTE"))
    header, *rows = _Page(files["report.html"]).tables["Scores"]
    assert header[3:] == ["CoLA (accuracy)", "RTE (accuracy)"]
    assert [row[:4] for row in rows] == [
        ["adapters", "8", "80,000", "71.3 ± 0.5"],
        ["adapters", "2", "20,000", "70.7 ± 0.5"],
        ["top_k", "1", "500,000", "75.0 ± 0.0"],
        ["full", NONE, "1,000,000", "80.5 ± 0.5"],
    ]


def test_a_model_without_bert_is_a_column_but_costs_no_bert(tmp_path):
    trials = [*_trials("sms_spam"), _trial("sms_spam", "no_bert", 0.9, 10, test=0.6)]
    trials[-1] = dataclasses.replace(trials[-1], total=10)
    table = _table(_write(tmp_path, "additional", trials))
    assert table["sms_spam"]["no BERT"] == "60.0"
    assert table["all tasks, beside one BERT"]["no BERT"] == NONE
    assert table["trained a task"]["top_k"] == "50 %"


def test_sizes_are_compared_over_tasks_that_have_all(tmp_path):
    values = {("a", 8): 0.6, ("a", 64): 0.9, ("b", 8): 0.8, ("b", 64): 0.7, ("c", 8): 0.1}
    trials = [
        _trial(task, "adapters", value, adapter_size=m) for (task, m), value in values.items()
    ]
    trials.append(_trial("a", "adapters", 0.2, adapter_size=64, learning_rate=1.0))
    files = _write(tmp_path, "size", trials)
    table = _table(files)
    assert [table[size]["mean"] for size in ("8", "64")] == ["70.0", "80.0"]
    assert table["64"]["c"] == NONE
    choice = _table(files, "One size for all tasks")
    assert choice["one size for all tasks: 64"]["mean"] == "80.0"
    assert choice["the best size for each task"]["mean"] == "85.0"


def test_variants_are_differences_to_the_papers_adapter(tmp_path):
    trials = [_trial("a", "tanh", 0.5), _trial("a", "houlsby", 0.52), _trial("b", "tanh", 0.5)]
    table = _table(_write(tmp_path, "variants", trials))
    assert table["houlsby: score"]["a"] == "52.0"
    assert [table["tanh"][name] for name in ("a", "b", "mean")] == ["-2.0", NONE, "-2.0"]


def test_squad_is_in_percent_already(tmp_path):
    trials = [
        _trial("SQuAD v1.1", "full", f1, learning_rate=rate)
        for f1, rate in ((88.0, 1e-5), (90.7, 1e-4))
    ]
    files = _write(tmp_path, "squad", trials)
    assert _table(files, "Chosen settings")["SQuAD v1.1"]["validation"] == "90.7"
    assert "full,,90.7,0.0" in files["figure_parameters.csv"]
    rows = _Page(files["report.html"]).tables["All settings, best first"]
    assert [row[5] for row in rows[1:]] == ["90.7", "88.0"]


def test_a_sweep_lists_all_settings_best_first(tmp_path):
    trials = [_trial("a", "full", value, learning_rate=value) for value in (0.1, 0.3, 0.2)]
    files = _write(tmp_path, "sweep", trials)
    rows = _Page(files["report.html"]).tables["All settings, best first"]
    assert [row[5] for row in rows[1:]] == ["30.0", "20.0", "10.0"]
    assert "figure_parameters.svg" not in files


def test_what_was_chosen_comes_before_a_long_list_of_all(tmp_path):
    count = 70
    trials = [_trial("a", "full", i / 100, learning_rate=i / 100) for i in range(1, count + 1)]
    page = _write(tmp_path, "sweep", trials)["report.md"]
    assert page.index("Chosen settings") < page.index("All settings")
    assert f"The best 50 of {count}" in page
    assert "learning_rate=0.7 " in page
    assert "learning_rate=0.01 " not in page


def test_the_task_pack_of_what_was_chosen_is_named_where_it_is(tmp_path):
    trials = [
        dataclasses.replace(_trial("a", method, 0.5), folder=f"trials/{method}")
        for method in ("full", "adapters")
    ]
    assert "task pack" not in _write(tmp_path, "sweep", trials)["report.md"]
    (tmp_path / "trials" / "full" / "pack").mkdir(parents=True)
    rows = _Page(_write(tmp_path, "sweep", trials)["report.html"]).tables["Chosen settings"]
    assert [row[-1] for row in rows] == ["task pack", "trials/full/pack", "\u2013"]


def test_a_baseline_is_shown_beside_the_papers(tmp_path):
    trials = [
        _trial("sms_spam", "no_bert", value, 10, test=test, module="glove", hidden_layers=layers)
        for value, test, layers in ((0.9, 0.8, 0), (0.7, None, 1))
    ]
    row = _table(_write(tmp_path, "baseline", trials))["sms_spam"]
    assert (row["validation"], row["test"], row["module"]) == ("90.0", "80.0", "glove")
    assert row["trials"] == "2"
    assert row["Paper: no BERT"] == "98.5"


def test_another_ablation_table_is_refused(tmp_path):
    (tmp_path / ABLATION).write_text("task,first\na,b\n")
    with pytest.raises(UserError, match=ABLATION):
        _write(tmp_path, "ablation", [])


def test_the_papers_tables_are_whole():
    assert set(paper.ADDITIONAL) == {task.name for task in ADDITIONAL}
    for method, mean in paper.ADDITIONAL_MEAN.items():
        scores = [row[method].mean for row in paper.ADDITIONAL.values()]
        # Both are rounded to a tenth.
        assert statistics.fmean(scores) == pytest.approx(mean, abs=0.1)


@pytest.mark.parametrize("kept", DOCS, ids=lambda folder: str(folder.relative_to(ROOT)))
def test_reports_of_docs_are_what_their_tables_make(tmp_path, kept):
    for name in (TRIALS, ABLATION, about.ABOUT):
        if (kept / name).exists():
            shutil.copy(kept / name, tmp_path)
    described = about.read(str(tmp_path))
    write_report(str(tmp_path), described["experiment"], described)
    # Another matplotlib may draw the same points a little differently.
    for made in [*tmp_path.glob("*.md"), *tmp_path.glob("*.csv")]:
        assert made.read_text() == (kept / made.name).read_text(), made.name
    assert {path.name for path in tmp_path.glob("*.svg")} == {
        path.name for path in kept.glob("*.svg")
    }


def test_it_takes_no_tensorflow(tmp_path):
    write_records(str(tmp_path), _trials("a"))
    code = (
        "import sys; sys.modules['tensorflow'] = None\n"
        "from adapter_bert_tf.experiment.report import write_report\n"
        "write_report(sys.argv[1], 'tradeoff', {})"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    assert (tmp_path / "report.html").exists()
