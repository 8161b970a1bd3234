"""The experiment program, as a user starts it."""

import collections
import glob
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import pytest
from optuna.trial import TrialState

from adapter_bert_tf.experiment.records import read_records
from adapter_bert_tf.experiment.storage import JOURNAL, open_storage
from tests.programs import run_quickly, run_without_tensorflow

PROGRAM = "adapter_bert_tf.experiment"


@pytest.fixture(scope="module")
def files(tmp_path_factory, bert) -> list[str]:
    folder = tmp_path_factory.mktemp("sweep")
    generator = random.Random(0)
    for name, rows in (("train", 64), ("dev", 24)):
        lines = ["text,label"]
        for i in range(rows):
            label = i % 2
            words = generator.choices(range(20 * label, 20 * label + 20), k=5)
            lines.append(f"{' '.join(f'w{word}' for word in words)},{label}")
        (folder / f"{name}.csv").write_text("\n".join(lines))
    return [
        f"--train_file={folder}/train.csv",
        f"--dev_file={folder}/dev.csv",
        f"--bert={bert}",
        "--max_seq_length=16",
        "--train_batch_size=8",
        "--num_train_epochs=1",
        "--deterministic=true",
        f"--cache_dir={folder}/cache",
    ]


GRID = ["--adapter_size=2,4", "--learning_rate=1e-3,3e-3", "--tuning=adapters,full"]


@pytest.fixture(scope="module")
def swept(files, tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("swept") / "out"
    done = run_quickly(PROGRAM, "sweep", *files, *GRID, f"--output_dir={folder}")
    assert done.returncode == 0, done.stderr
    assert f"report: {folder}/report.html" in done.stdout
    return folder


def test_a_sweep_tries_each_value_with_each(swept):
    records = read_records(str(swept))
    found = {
        (each.method, each.settings.get("adapter_size"), each.settings["learning_rate"])
        for each in records
    }
    rates = (1e-3, 3e-3)
    wanted = {("adapters", size, rate) for size in (2, 4) for rate in rates}
    assert found == wanted | {("full", None, rate) for rate in rates}
    assert {each.state for each in records} == {"complete"}
    assert "adapters" in (swept / "report.html").read_text()


def test_the_report_is_made_again_from_the_tables(swept):
    before = (swept / "report.html").read_text()
    (swept / "report.html").unlink()
    done = run_without_tensorflow(PROGRAM, "report", f"--output_dir={swept}")
    assert done.returncode == 0, done.stderr
    assert (swept / "report.html").read_text() == before


def test_a_report_can_be_made_while_trials_are_left(swept, tmp_path):
    for name in ("about.json", "trials.csv"):
        shutil.copy(swept / name, tmp_path)
    text = (tmp_path / "trials.csv").read_text().replace("complete", "waiting", 2)
    (tmp_path / "trials.csv").write_text(text)
    done = run_without_tensorflow(PROGRAM, "report", f"--output_dir={tmp_path}")
    assert done.returncode == 0, done.stderr
    assert "not finished" in (tmp_path / "report.md").read_text()


def test_the_same_command_trains_nothing_again(swept, files):
    before = (swept / "trials.csv").read_text()
    done = run_quickly(PROGRAM, "sweep", *files, *GRID, f"--output_dir={swept}")
    assert done.returncode == 0, done.stderr
    assert (swept / "trials.csv").read_text() == before


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["ablation", "--train_file=a.csv"], "ablation: expected --dev_file"),
        (["ablation", "--task=SQuAD"], "--task=SQuAD v1.1: ablation is for tasks with classes"),
        (["additional", "--task=squad"], "--task=SQuAD v1.1: additional is for tasks with"),
        (["glue", "--train_file=a.csv", "--task=CoLA"], "--task=CoLA: expected either --task"),
        (["sweep", "--task=CoLA", "--learning_rate="], "--learning_rate=: expected a value"),
        (["sweep", "--task=CoLA", "--tuning=full", "--top_k=3"], "--top_k=3: none of the methods"),
    ],
)
def test_what_can_not_be_tried_is_told(tmp_path, arguments, told):
    done = run_without_tensorflow(PROGRAM, *arguments, f"--output_dir={tmp_path}/out")
    assert done.returncode == 1
    assert told in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ("--dev_file={train}", "data is dev_file=dev.csv"),
        ("--bert=minilm", "base is "),
        ("--deterministic=false", "settings of all trials is deterministic=True"),
    ],
)
def test_the_folder_of_another_experiment_is_refused(swept, files, changed, told):
    before = {path: path.read_bytes() for path in swept.iterdir() if path.is_file()}
    given = [*files, changed.format(train=files[0].removeprefix("--train_file="))]
    done = run_without_tensorflow(PROGRAM, "sweep", *given, *GRID, f"--output_dir={swept}")
    assert done.returncode == 1
    assert f"has trials of another experiment, whose {told}" in done.stderr
    assert done.stderr.count("\n") == 1
    assert before == {path: path.read_bytes() for path in swept.iterdir() if path.is_file()}


@pytest.mark.slow
def test_two_processes_give_the_numbers_of_one(swept, files, tmp_path):
    command = [sys.executable, "-m", PROGRAM, "sweep", *files, *GRID, "--workers=2"]
    subprocess.run([*command, f"--output_dir={tmp_path}/two"], check=True, capture_output=True)

    def values(folder) -> dict:
        return {(each.method, str(each.settings)): each.value for each in read_records(str(folder))}

    assert values(tmp_path / "two") == values(swept)


@pytest.fixture
def database(tmp_path) -> Iterator[str]:
    """The URL of a PostgreSQL that runs as long as the test does."""
    programs = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    if not programs or not shutil.which("runuser"):
        pytest.skip("no PostgreSQL on this machine (Debian: apt-get install postgresql)")
    folder = tempfile.mkdtemp(dir="/tmp")  # It has to be reachable for another user.
    shutil.chown(folder, "postgres")
    port = _free_port()

    def run(program: str, *arguments: str) -> None:
        command = ["runuser", "-u", "postgres", "--", f"{programs[-1]}/{program}", *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/tmp")

    run("initdb", "-D", f"{folder}/data", "--auth=trust")
    options = f"-p {port} -k {folder} -h 127.0.0.1"
    run("pg_ctl", "-D", f"{folder}/data", "-w", "-l", f"{folder}/log", "-o", options, "start")
    try:
        yield f"postgresql://postgres@127.0.0.1:{port}/postgres"
    finally:
        run("pg_ctl", "-D", f"{folder}/data", "-m", "immediate", "stop")
        shutil.rmtree(folder)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


MANY = ["--adapter_size=2,3,4", "--learning_rate=1e-3,3e-3", "--seed=0,1,2,3"]


def _values(folder) -> dict:
    return {
        (each.method, str(each.settings), each.seed): each.value
        for each in read_records(str(folder))
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["database", "journal"])
def test_workers_that_are_killed_lose_and_repeat_nothing(kind, files, tmp_path, request):
    command = [sys.executable, "-m", PROGRAM, "sweep", *files, *MANY]
    subprocess.run([*command, f"--output_dir={tmp_path}/one"], check=True, capture_output=True)
    url = request.getfixturevalue("database") if kind == "database" else None
    # Machines that share a database have folders, and locks, of their own.
    folders = [tmp_path / (f"shared{i}" if url else "shared") for i in range(4 if url else 3)]
    generator = random.Random(0)

    def start(folder) -> subprocess.Popen:
        shared = [f"--output_dir={folder}", *([f"--storage={url}"] if url else [])]
        return subprocess.Popen(
            [*command, *shared], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    first, *killed = [start(folder) for folder in folders[:-1]]
    for worker in killed:
        next(line for line in worker.stdout if line.startswith("["))  # It has begun a trial.
        time.sleep(generator.random())
        worker.kill()
        worker.communicate()
    later = start(folders[-1])
    for worker in (first, later):
        out, _ = worker.communicate(timeout=500)
        assert worker.returncode == 0, out
    assert len(_values(tmp_path / "one")) == 24
    assert _values(folders[0]) == _values(tmp_path / "one")
    states = _states(open_storage(url, str(folders[0] / JOURNAL)))
    assert [each.count(TrialState.COMPLETE) for each in states.values()] == [1] * 24
    assert any(len(each) > 1 for each in states.values())  # Killed, and done again.


def _states(storage) -> dict[str, list[TrialState]]:
    """Returns what the storage says of each trial, however often it was begun."""
    found = collections.defaultdict(list)
    (study,) = storage.get_all_studies()
    for frozen in storage.get_all_trials(study._study_id):
        found[frozen.user_attrs["digest"]].append(frozen.state)
    return found


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["poems"], "poems: no such experiment; expected one of glue, additional"),
        (["sweep"], "expected either --task, or files of your own"),
        (["sweep", "--task=CoLLA"], "--task=CoLLA: no such task"),
        (["sweep", "--task=CoLA", "--tuning=lora"], "--tuning=lora: expected one of adapters"),
        (["sweep", "--task=CoLA", "--adapter_size=big"], "--adapter_size=big: expected a number"),
        (
            ["sweep", "--task=CoLA", "--adapter_size=0"],
            "--adapter_size=0: expected",
        ),
        (["sweep", "--task=CoLA", "--train_batch_size=0"], "--train_batch_size=0: expected"),
        (["sweep", "--task=CoLA", "--data_dir=/nowhere"], "no folder for CoLA in it"),
        (["sweep", "--task=CoLA", "--deterministic=true,false"], "it can't be varied"),
        (["sweep", "--task=CoLA", "--metric=accuracy,f1"], "it can't be varied"),
        (["sweep", "--task=CoLA", "--trials=3"], "--trials: expected with the method no_bert"),
        (["additional", "--space=hidden_layers=9"], "hidden_layers=9: expected one of 0, 1"),
        (["squad", "--train_file=a.json"], "expected --predict_file"),
        (["sweep", "--task=CoLA", "--adapter_layers=0+one"], "--adapter_layers=0+one: expected"),
        (["glue", "--tuning=head"], "--tuning=head: glue has the methods full, adapters"),
        (["variants", "--tuning=relu,lora"], "--tuning=lora: variants has the methods houlsby, "),
        (["sweep", "--task=CoLA", "--workers=1000000"], "--workers=1000000: 1000000 is not"),
        (["report"], "about.json: No such file"),
        ([], "expected on the command line: NAME"),
    ],
)
def test_mistakes_are_one_line_before_tensorflow_is_loaded(arguments, told, tmp_path):
    done = run_without_tensorflow(PROGRAM, *arguments, f"--output_dir={tmp_path}/out")
    assert done.returncode == 1
    assert told in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_dry_run_says_what_would_be_done(tmp_path):
    flags = ["--profile=paper", "--dry_run", f"--output_dir={tmp_path}/out"]
    done = run_quickly(PROGRAM, "glue", *flags)
    assert done.returncode == 0, done.stderr
    assert "945 trials in all" in done.stdout
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["CoLA", "adapters", "90"] in [line[:3] for line in lines]
    # Adapters of 8 to 256 in BERT-large, with its LayerNorms, as the paper's formula says.
    smallest = 2 * 24 * (2 * 1024 * 8 + 1024 + 8) + 49 * 2 * 1024
    assert f"{smallest:,} to" in done.stdout
    assert "hours of training on this machine" in done.stdout
    done = run_quickly(PROGRAM, "variants", "--tuning=relu,pfeiffer", *flags)
    methods = {line.split()[1] for line in done.stdout.splitlines() if line.startswith("CoLA")}
    assert methods == {"relu", "pfeiffer"}
    assert not (tmp_path / "out").exists()
