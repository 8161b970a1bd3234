"""Trials as rows of a CSV file."""

import pytest

from adapter_bert_tf.errors import UserError
from adapter_bert_tf.experiment.records import (
    COMPLETE,
    FAILED,
    TRIALS,
    Record,
    read_records,
    write_records,
)

RECORDS = [
    Record(
        task="MNLI",
        method="adapters",
        settings={"learning_rate": 3e-4, "adapter_size": 64, "adapter_sites": ["attention"]},
        seed=3,
        state=COMPLETE,
        metric="accuracy",
        value=0.1 + 0.2,
        test=0.0,
        trained=2_419_202,
        total=111_901_442,
        steps=12,
        seconds=1.5,
        folder="runs/a, b",
    ),
    Record("x", "full", {}, 0, FAILED, reason='out of "memory",\nsecond line'),
    Record("naïve\ttask", "full", {}, 0),
]


def test_what_is_written_is_read_again(tmp_path):
    write_records(str(tmp_path), RECORDS)
    assert read_records(str(tmp_path)) == RECORDS


def test_no_trials_are_a_table_as_well(tmp_path):
    write_records(str(tmp_path), [])
    assert read_records(str(tmp_path)) == []


def test_only_what_is_trained_to_its_end_is_complete():
    assert [each.is_complete for each in RECORDS] == [True, False, False]


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match=TRIALS):
        read_records(str(tmp_path))


@pytest.mark.parametrize(
    "text", ["task,method\na,b\n", "task,method,settings,seed\na,b,not json,1\n", "a\n1\n"]
)
def test_another_table_is_refused(tmp_path, text):
    (tmp_path / TRIALS).write_text(text)
    with pytest.raises(UserError, match="not a table of trials"):
        read_records(str(tmp_path))
