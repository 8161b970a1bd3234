import collections
import csv
import json
import os

import pytest

pytest.importorskip("apache_beam", reason="Apache Beam is not installed: extra beam")

from adapter_bert_tf import UserError, load_task
from adapter_bert_tf.bulk.form import form_of
from adapter_bert_tf.bulk.pipeline import Counts, Job, check_options, prepare_job, run_job
from adapter_bert_tf.bulk.rows import Reader
from adapter_bert_tf.pack.pack import read_pack
from adapter_bert_tf.serve.export import export
from tests.serve.tasks import make_pack

pytestmark = pytest.mark.slow
TWO_WORKERS = ["direct_num_workers=2", "direct_running_mode=multi_processing"]
ROWS = 9000  # More than a worker holds together.


@pytest.fixture(scope="module")
def pack(bert, tmp_path_factory) -> str:
    return make_pack(bert, tmp_path_factory.mktemp("pack"), "a", classes=3, max_seq_length=24)


@pytest.fixture(scope="module")
def version(bert, pack, tmp_path_factory) -> str:
    return export([pack], str(tmp_path_factory.mktemp("models") / "bert"), bert=bert)


@pytest.fixture
def job(version, pack, tmp_path) -> Job:
    texts = [f"w{i % 40} " * (i % 7) for i in range(ROWS)]
    (tmp_path / "empty.csv").write_text("")
    for part in range(3):
        lines = [f"{i},{texts[i]}" for i in range(part, ROWS, 3)]
        (tmp_path / f"in{part}.csv").write_text("\n".join(["label,text", *lines, "bad", ""]))
    return Job(
        input=str(tmp_path / "*.csv"),
        output=str(tmp_path / "out" / "scored"),
        ending=".csv",
        form=form_of("scored.csv"),
        reader=Reader(read_pack(pack)),
        export_dir=version,
        task="a",
        num_shards=2,
    )


def _rows(job: Job, folder) -> dict[str, dict[str, str]]:
    names = sorted(path.name for path in (folder / "out").iterdir())
    shards = [f"scored-0000{i}-of-00002{job.ending}" for i in range(2)]
    assert names == [*shards, "scored-bad.jsonl"]
    rows = []
    for name in shards:
        with open(folder / "out" / name, newline="") as file:
            read = csv.DictReader(file) if job.ending == ".csv" else map(json.loads, file)
            rows += list(read)
    assert max(collections.Counter(row["label"] for row in rows).values()) == 1
    return {row["label"]: row for row in rows}


@pytest.mark.parametrize("options", [[], TWO_WORKERS], ids=["one", "two"])
def test_every_row_is_scored_once_as_by_the_pack(job, bert, pack, tmp_path, options):
    # What a killed job has left, and what another one is writing.
    left = tmp_path / "out" / f"beam-temp-scored-{'0' * 32}"
    other = tmp_path / "out" / f"beam-temp-scored-other-{'0' * 32}"
    for folder in (left, other):
        folder.mkdir(parents=True)
    job = prepare_job(job)
    assert run_job(job, check_options("DirectRunner", options)) == Counts(ROWS, 4)
    other.rmdir()
    rows = _rows(job, tmp_path)
    assert sorted(map(int, rows)) == list(range(ROWS))
    some = [rows[str(number)] for number in range(0, ROWS, 97)]
    wanted = load_task(pack, bert).predict([row["text"] for row in some])
    assert [row["predicted_label"] for row in some] == [each.label for each in wanted]
    bad = [json.loads(line) for line in open(job.bad_file)]
    found = collections.Counter((each["line"], each["problem"]) for each in bad)
    assert found == {(None, "the file is empty"): 1, (ROWS // 3 + 2, "1 columns, expected 2"): 3}
    with pytest.raises(UserError, match=r"scored-0000\d-of-00002.csv exists"):
        prepare_job(job)


def test_a_job_that_fails_says_so_and_leaves_nothing(job, tmp_path):
    (tmp_path / "no").mkdir()
    failing = Job(**{**vars(prepare_job(job)), "export_dir": str(tmp_path / "no")})
    with pytest.raises(UserError, match="Beam: .*the same command starts again"):
        run_job(failing, check_options("DirectRunner", []))
    assert list((tmp_path / "out").iterdir()) == []


def test_wrong_options_inputs_and_outputs_are_told(job, tmp_path):
    for given, told in (
        (["direct_num_worker=2"], "unknown to Beam; expected direct_num_workers"),
        (["direct_num_workers"], "unknown to Beam"),
        (["direct_num_workers=x"], "direct_num_workers=x: a value that Beam does not take"),
        (["streaming=yes"], "expected true or false"),
    ):
        with pytest.raises(UserError, match=told):
            check_options("DirectRunner", given)
    switches = check_options("DirectRunner", ["streaming=true", "pipeline_type_check=false"])
    assert switches[1:] == ["--streaming", "--no_pipeline_type_check"]
    with pytest.raises(UserError, match="--runner=NoRunner: "):
        check_options("NoRunner", [])
    for pattern, told in (("*.tsv", "no such file"), ("empty*", "all files are empty")):
        with pytest.raises(UserError, match=told):
            prepare_job(Job(**{**vars(job), "input": str(tmp_path / pattern)}))


def test_a_pipe_or_device_among_the_files_is_a_bad_one(job, tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "endless.csv").symlink_to("/dev/zero")
    job = prepare_job(job)
    assert run_job(job, check_options("DirectRunner", [])) == Counts(ROWS, 6)
    bad = [json.loads(line) for line in open(job.bad_file)]
    told = [each["file"] for each in bad if "expected a file, not a pipe" in each["problem"]]
    assert sorted(map(os.path.basename, told)) == ["endless.csv", "pipe.csv"]
