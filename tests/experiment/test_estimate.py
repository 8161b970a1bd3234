import dataclasses

import pytest

from adapter_bert_tf import AdapterConfig, ClassificationHead, TaskModel, Tuning, load_encoder
from adapter_bert_tf.experiment.estimate import (
    Cost,
    Rows,
    Sizes,
    describe,
    estimate_seconds,
    rows_of_files,
    sizes_of,
)
from adapter_bert_tf.experiment.places import Places
from adapter_bert_tf.experiment.table import PAPER, SQUAD, Arm, Experiment
from tests import tiny


@pytest.mark.parametrize(
    ("values", "adapter", "tuning"),
    [
        ({"adapter_size": 8}, AdapterConfig(size=8), Tuning()),
        (
            {"adapter_sites": ("attention",), "adapter_layers": (1, 4), "adapter_layer_norm": True},
            AdapterConfig(sites=("attention",), layers=(1, 4), layer_norm=True),
            Tuning(),
        ),
        ({"adapter_size": 4, "adapter_drop": 2}, AdapterConfig(size=4), Tuning(adapter_drop=2)),
        ({"tuning": "full"}, None, Tuning("full")),
        ({"tuning": "layer_norm"}, None, Tuning("layer_norm")),
        ({"tuning": "top_k", "top_k": 2}, None, Tuning("top_k", k=2)),
        ({"tuning": "head"}, None, Tuning("head")),
    ],
    ids=str,
)
def test_what_is_trained_is_counted_as_the_model_counts_it(values, adapter, tuning):
    model = TaskModel(load_encoder("minilm", adapter), ClassificationHead(2), tuning)
    trained, _ = model.tuning.count(model.variables_by_path())
    head = 2 * 384 + 2
    assert sizes_of("minilm").trained(values) + head == trained


def test_sizes_are_those_of_the_preset_or_of_the_files(tmp_path):
    assert sizes_of("bert-large-uncased") == Sizes(24, 1024)
    bert = tiny.write_google_bert(tmp_path)
    rows = tiny.WORDS + tiny.LENGTH + 2
    assert sizes_of(bert) == Sizes(tiny.LAYERS, tiny.WIDTH, rows, tiny.INNER)


def _seconds(task: str = "CoLA", step: float = 0.0, unit: float = 0.0, **fixed) -> float:
    experiment = Experiment("", (task,), "minilm", (Arm("adapters", fixed=fixed),))
    return estimate_seconds(experiment, dict.fromkeys(("adapters", "full"), Cost(step, unit)))


def test_twice_the_epochs_take_twice_the_time():
    both = {"step": 1.0, "unit": 1.0}
    assert _seconds(num_train_epochs=4.0, **both) == 2 * _seconds(num_train_epochs=2.0, **both) > 0


def test_smaller_batches_are_more_steps_of_the_same_work():
    small, large = {"train_batch_size": 8}, {"train_batch_size": 32}
    assert _seconds(unit=1.0, **small) == _seconds(unit=1.0, **large)
    three_seeds = 3
    assert _seconds(step=1.0, num_train_epochs=1.0, **small) == three_seeds * -(-8551 // 8)
    assert _seconds(step=1.0, num_train_epochs=1.0, **large) == three_seeds * -(-8551 // 32)


@pytest.mark.parametrize(("task", "tokens"), [(SQUAD, 180), ("20newsgroups", 128), ("CoLA", 11)])
def test_rows_are_as_long_as_the_task_and_its_program_let_them(task, tokens):
    shorter = _seconds(task, unit=1.0, max_seq_length=5)
    assert _seconds(task, unit=1.0) == pytest.approx(shorter * tokens / 5)


def test_all_trials_are_described():
    lines = describe(PAPER["squad"])
    assert lines[-1] == "122 trials in all"
    assert [line.split()[2:4] for line in lines[2:-1]] == [
        ["full", "11"],
        ["top_k", "55"],
        ["adapters", "56"],
    ]


def test_one_s_own_files_are_counted(tmp_path):
    lines = ["text,label", *(f"one two three four,{row % 2}" for row in range(30))]
    (tmp_path / "train.csv").write_text("\n".join(lines))
    (tmp_path / "dev.csv").write_text("\n".join(lines[:11]))
    experiment = Experiment("", ("own files",), "minilm", (Arm("adapters"),), seeds=(0,))
    files = {"train_file": f"{tmp_path}/train.csv", "dev_file": f"{tmp_path}/dev.csv"}
    rows = rows_of_files(experiment, Places(str(tmp_path), values=files))
    assert rows == Rows(30, 10, 7)
    costs = dict.fromkeys(("adapters", "full"), Cost(1.0, 0.0))
    # Three epochs of a single batch.
    assert estimate_seconds(experiment, costs, rows) == 3
    # Without files nothing is looked for, and with searches alone there is nothing to count.
    of_a_task = dataclasses.replace(experiment, tasks=("CoLA",))
    assert rows_of_files(of_a_task, Places(str(tmp_path), "/nowhere")) is None
    searched = dataclasses.replace(experiment, arms=())
    assert rows_of_files(searched, Places(str(tmp_path), values=files)) is None
