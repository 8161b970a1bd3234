"""run_classifier.py as a user starts it."""

import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from adapter_bert_tf import AdapterConfig, ClassificationHead, TaskModel, load_encoder, load_task
from adapter_bert_tf.base.checkpoint import write_checkpoint
from adapter_bert_tf.text.inputs import encode, pad
from tests import tiny
from tests.kills import start_two
from tests.programs import run_quickly, run_with_mock_data

SCRIPT = pathlib.Path(__file__).parents[1] / "run_classifier.py"


@pytest.fixture(scope="module")
def files(tmp_path_factory, bert) -> list[str]:
    """The flags that adapter-bert's README gives for MRPC, with a tiny BERT."""
    folder = tmp_path_factory.mktemp("classifier")
    return [
        "--task_name=MRPC",
        "--do_train=true",
        "--do_eval=true",
        f"--data_dir={tiny.write_mrpc(folder / 'MRPC')}",
        f"--vocab_file={bert}/vocab.txt",
        f"--bert_config_file={bert}/bert_config.json",
        f"--init_checkpoint={bert}/bert_model.ckpt",
        "--max_seq_length=32",
        "--train_batch_size=8",
        "--learning_rate=3e-3",
        f"--cache_dir={folder / 'cache'}",
    ]


def _start(flags: list[str], **environment: str) -> subprocess.Popen:
    # As a user has it: the tests' own settings keep TensorFlow quiet.
    users = {name: value for name, value in os.environ.items() if name[:3] != "TF_"}
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), *flags],
        env={**users, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _run(*flags: str) -> subprocess.CompletedProcess:
    process = _start(list(flags))
    out, err = process.communicate(timeout=300)
    return subprocess.CompletedProcess(flags, process.returncode, out, err)


# Twelve steps an epoch, so that a checkpoint falls on the end of one as well.
_WHOLE = ("--num_train_epochs=6", "--do_predict", "--deterministic", "--save_checkpoints_steps=3")


@pytest.fixture(scope="module")
def run(tmp_path_factory, files) -> tuple[pathlib.Path, str]:
    """The folder of a finished run, and what it printed."""
    folder = tmp_path_factory.mktemp("run") / "output"
    done = _run(*files, *_WHOLE, f"--output_dir={folder}")
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return folder, done.stdout


@pytest.fixture(scope="module")
def exported(tmp_path_factory, run, files) -> pathlib.Path:
    """The export of the finished run."""
    model = tmp_path_factory.mktemp("models") / "mrpc"
    flags = [*files, *_WHOLE, f"--output_dir={run[0]}", f"--export_dir={model}"]
    done = run_quickly("run_classifier.py", *flags)
    assert done.returncode == 0, done.stderr
    assert f"exported: {model / '1'}" in done.stdout
    return model / "1"


def test_the_originals_command_line_tunes_and_scores(run):
    folder, _ = run
    results = json.loads((folder / "eval_results.json").read_text())
    assert results["metrics"]["accuracy"] > 0.8
    assert results["trained_parameters"] < results["total_parameters"]
    assert results["steps"] == 6 * 12
    lines = (folder / "eval_results.txt").read_text().splitlines()
    text = dict(line.split(" = ") for line in lines)
    assert float(text["accuracy"]) == results["metrics"]["accuracy"]
    assert float(text["f1"]) == results["metrics"]["f1"]


# What a run prints, line by line, and Keras's progress bar, which is drawn over itself.
_LINES = re.compile(
    r"tokenising MRPC (train|dev|test): \d+ examples"
    r"|(base|task|classes|dev|tokens|tuning|steps|devices|folder)  +\S.*"
    r"|Epoch \d/6"
    r"|.*\d+/\d+ \[[=>.]+\] - .*"
    r"|accuracy \d\.\d{4}  f1 \d\.\d{4}  macro_f1 \d\.\d{4}"
    r"|warning: all 24 rows are predicted as [01]"
    r"|(accuracy|f1|macro_f1) = \d\.\d{4}"
    r"|predicted( +\d)+"
    r"|[01]( +\d+){2}"
    r"|predictions: .*"
)


def test_a_run_prints_our_lines_and_kerass_bar_and_nothing_else(run):
    folder, printed = run
    lines = [line for line in re.split("[\r\n\b]+", printed) if line.strip()]
    assert not [line for line in lines if not _LINES.fullmatch(line)]
    for line in ("base ", "task ", "tuning ", "steps ", "devices "):
        assert line in printed
    assert f"folder   {folder}" in printed
    assert [f"Epoch {i}/6" in printed for i in range(1, 7)] == [True] * 6


def test_predictions_are_written_as_the_original_and_glue_want_them(run):
    folder, _ = run
    probabilities = np.loadtxt(folder / "test_results.tsv")
    assert probabilities.shape == (10, 2)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    lines = (folder / "MRPC.tsv").read_text().splitlines()
    assert lines[0] == "index\tprediction"
    assert lines[1:] == [f"{i}\t{label}" for i, label in enumerate(probabilities.argmax(axis=1))]


def test_a_finished_run_says_so_and_only_predicts(run, files):
    folder, _ = run
    before = (folder / "eval_results.json").stat().st_mtime_ns
    predicted = (folder / "test_results.tsv").read_text()
    (folder / "test_results.tsv").unlink()
    done = run_quickly("run_classifier.py", *files, *_WHOLE, f"--output_dir={folder}")
    assert done.returncode == 0
    assert "finished" in done.stdout
    assert (folder / "eval_results.json").stat().st_mtime_ns == before
    assert (folder / "test_results.tsv").read_text() == predicted


@pytest.mark.parametrize("size", [1, 7, 10])
def test_what_is_exported_answers_texts_as_the_run_did(run, exported, files, size):
    data = next(flag.removeprefix("--data_dir=") for flag in files if "data_dir" in flag)
    lines = pathlib.Path(data, "test.tsv").read_text().splitlines()[1:]
    texts, pairs = zip(*(line.split("\t")[-2:] for line in lines), strict=True)
    signature = tf.saved_model.load(str(exported)).signatures["serving_default"]
    found = [
        signature(text=tf.constant(texts[i : i + size]), text_pair=tf.constant(pairs[i : i + size]))
        for i in range(0, len(texts), size)
    ]
    probabilities = np.concatenate([each["probabilities"] for each in found])
    wanted = np.loadtxt(run[0] / "test_results.tsv")
    np.testing.assert_allclose(probabilities, wanted, atol=1e-5)


def test_a_pack_is_evaluated_again_with_the_same_result(run, files, tmp_path):
    folder, _ = run
    flags = [flag for flag in files if "do_train" not in flag]
    flags += ["--nodo_train", f"--pack={folder / 'pack'}", f"--output_dir={tmp_path}"]
    done = run_quickly("run_classifier.py", *flags)
    assert done.returncode == 0, done.stderr
    again = json.loads((tmp_path / "eval_results.json").read_text())["metrics"]
    assert again == json.loads((folder / "eval_results.json").read_text())["metrics"]


@pytest.fixture
def trained_there(tmp_path, files) -> tuple[list[str], dict[str, np.ndarray]]:
    """The original's flags for a checkpoint that it has trained, and what is in it."""
    folder = tiny.write_google_bert(tmp_path / "original")
    tensors = tiny.original_tensors(classes=2)
    write_checkpoint(f"{folder}/model.ckpt-343", tensors)
    flags = [flag for flag in files if "do_" not in flag and "init_checkpoint" not in flag]
    flags += [f"--init_checkpoint={folder}/model.ckpt-343", f"--output_dir={tmp_path / 'out'}"]
    return flags, tensors


def _asked(flags: list[str], split: str, model: TaskModel) -> tuple[np.ndarray, np.ndarray]:
    """Returns the labels of a file, and the probabilities that a model gives its pairs."""
    data = next(flag.removeprefix("--data_dir=") for flag in flags if "data_dir" in flag)
    rows = [line.split("\t") for line in pathlib.Path(data, f"{split}.tsv").read_text().split("\n")]
    rows = [row for row in rows[1:] if len(row) > 1]
    columns = encode(
        model.encoder.base.tokenizer, [row[3] for row in rows], [row[4] for row in rows], 32
    )
    probabilities = tf.nn.softmax(model(pad(columns))).numpy()
    return np.array([int(row[0]) for row in rows]), probabilities


def _original(flags: list[str], tensors: dict[str, np.ndarray]) -> TaskModel:
    checkpoint = next(flag.split("=")[1] for flag in flags if "init_checkpoint" in flag)
    encoder = load_encoder(checkpoint, AdapterConfig(size=tiny.ADAPTER))
    model = TaskModel(encoder, ClassificationHead(2))
    model.head.output_layer.set_weights([tensors["output_weights"].T, tensors["output_bias"]])
    return model


def test_a_checkpoint_of_the_original_is_evaluated(trained_there, tmp_path):
    flags, tensors = trained_there
    done = run_quickly("run_classifier.py", *flags, "--do_eval=true")
    assert done.returncode == 0, done.stderr
    labels, probabilities = _asked(flags, "dev", _original(flags, tensors))
    accuracy = (probabilities.argmax(axis=1) == labels).mean()
    assert f"accuracy = {accuracy:.4f}" in done.stdout
    assert f"accuracy = {accuracy}\n" in (tmp_path / "out" / "eval_results.txt").read_text()
    assert not {"pack", "checkpoints", "test_results.tsv"} & set(os.listdir(tmp_path / "out"))


def test_a_checkpoint_of_the_original_predicts(trained_there, tmp_path):
    flags, tensors = trained_there
    done = run_quickly("run_classifier.py", *flags, "--do_predict=true")
    assert done.returncode == 0, done.stderr
    _, probabilities = _asked(flags, "test", _original(flags, tensors))
    found = np.loadtxt(tmp_path / "out" / "test_results.tsv")
    np.testing.assert_allclose(found, probabilities, atol=1e-6)
    written = set(os.listdir(tmp_path / "out"))
    assert not {"pack", "checkpoints", "eval_results.txt", "eval_results.json"} & written


@pytest.mark.slow
def test_training_goes_on_from_a_checkpoint_of_the_original(trained_there, tmp_path):
    flags, tensors = trained_there
    flags += ["--do_train=true", "--do_predict=true", "--learning_rate=1e-12"]
    done = run_quickly("run_classifier.py", *flags)
    assert done.returncode == 0, done.stderr
    _, probabilities = _asked(flags, "test", _original(flags, tensors))
    found = np.loadtxt(tmp_path / "out" / "test_results.tsv")
    np.testing.assert_allclose(found, probabilities, atol=1e-5)


def test_a_bert_that_was_not_tuned_is_not_evaluated(files, tmp_path):
    flags = [flag for flag in files if "do_" not in flag]
    done = run_quickly("run_classifier.py", *flags, "--do_eval", f"--output_dir={tmp_path / 'out'}")
    assert done.returncode == 1
    assert "nothing is trained" in done.stderr
    assert "is not a checkpoint of a tuned task" in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_the_command_as_it_is_typed(tmp_path):
    command = ["run_classifier.py", "--task=CoLA", "--adapter_size=64"]
    done = run_with_mock_data(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    folder = re.search(r"^folder +(runs/cola-adapters-64-\w+)$", done.stdout, re.MULTILINE)[1]
    assert json.loads((tmp_path / folder / "eval_results.json").read_text())["steps"] == 3
    assert load_task(tmp_path / folder / "pack").predict(["w1"])
    assert os.listdir(tmp_path) == ["runs"]


@pytest.mark.slow
def test_the_command_as_it_is_typed_for_a_tpu_that_is_not_there(tmp_path):
    command = ["run_classifier.py", "--task=CoLA", "--adapter_size=64", "--use_tpu"]
    done = run_with_mock_data(*command, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == (
        "error: --use_tpu: no TPU on this machine; name another one with --tpu_name\n"
    )
    assert not os.listdir(tmp_path)


def _weights(folder: pathlib.Path) -> str:
    return json.loads((folder / "pack" / "pack.json").read_text())["sha256"]


@pytest.mark.slow
def test_stopped_five_times_it_ends_with_the_same_bits(files, tmp_path):
    left_alone, killed = tmp_path / "left_alone", tmp_path / "killed"
    flags = [*files, *_WHOLE, "--num_train_epochs=40"]
    done = _run(*flags, f"--output_dir={left_alone}")
    assert done.returncode == 0, done.stderr
    kinds = [signal.SIGKILL, signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGKILL]
    _stop_and_go_on(flags, kinds, killed)
    assert _weights(killed) == _weights(left_alone)
    # Losses and metrics too: an epoch that was resumed in its middle counts as a whole.
    histories = [(folder / "history.json").read_text() for folder in (killed, left_alone)]
    assert histories[0] == histories[1]


def _stop_and_go_on(flags: list[str], kinds: list[signal.Signals], killed: pathlib.Path) -> None:
    """Stops a run at random moments in these ways, and then lets it finish."""
    generator = random.Random(1)
    for kind in kinds:
        process = _start([*flags, f"--output_dir={killed}"])
        before = _checkpoints(killed)
        _wait_for(lambda before=before: _checkpoints(killed) - before)
        time.sleep(generator.random() / 2)
        process.send_signal(kind)
        process.communicate(timeout=30)
        # At SIGTERM and Ctrl-C it saves and says so, unless it is just evaluating.
        codes = {signal.SIGTERM: [143, -kind], signal.SIGINT: [143, 130]}
        assert process.returncode in codes.get(kind, [-kind])
    assert not (killed / "eval_results.json").exists()
    done = _run(*flags, f"--output_dir={killed}")
    assert done.returncode == 0, done.stderr


def _checkpoints(folder: pathlib.Path) -> set[str]:
    return {path.name for path in (folder / "checkpoints").glob("*.index")}


def _wait_for(condition, seconds: float = 600) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.2)


@pytest.mark.slow
def test_a_second_process_on_a_run_is_refused_while_the_first_lives(files, tmp_path):
    flags = [*files, *_WHOLE, f"--output_dir={tmp_path / 'run'}"]
    first = _start(flags)
    _wait_for(lambda: _checkpoints(tmp_path / "run"))
    first.send_signal(signal.SIGSTOP)  # Or it might be finished first.
    second = _run(*flags)
    assert second.returncode == 1
    assert second.stderr == (
        f"error: --output_dir={tmp_path / 'run'}: another process is at work on this run; wait for "
        "it, or give another folder\n"
    )
    first.kill()
    first.communicate()
    assert _run(*flags).returncode == 0


@pytest.mark.slow
def test_another_seed_gives_another_pack(files, run, tmp_path):
    done = _run(*files, *_WHOLE, "--seed=1", f"--output_dir={tmp_path / 'other'}")
    assert done.returncode == 0, done.stderr
    assert _weights(tmp_path / "other") != _weights(run[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stopped", "kind"), [(0, signal.SIGTERM), (1, signal.SIGTERM), (1, signal.SIGKILL)]
)
def test_a_signal_to_one_worker_stops_both_and_they_go_on_with_the_same_bits(
    files, tmp_path, stopped, kind
):
    flags = [*files, "--num_train_epochs=3", "--deterministic", "--save_checkpoints_steps=3"]
    folders = [tmp_path / "whole", tmp_path / "stopped"]
    for worker in start_two([*flags, f"--output_dir={folders[0]}"]):
        _, errors = worker.communicate(timeout=300)
        assert worker.returncode == 0, errors
    workers = start_two([*flags, f"--output_dir={folders[1]}"])
    _wait_for(lambda: _checkpoints(folders[1]))
    workers[stopped].send_signal(kind)
    ends = [worker.communicate(timeout=300) for worker in workers]
    codes = [worker.returncode for worker in workers]
    if kind == signal.SIGTERM:
        assert codes == [143, 143], ends
        assert all("; the same command resumes it" in out for out, _ in ends)
    else:
        assert codes == [1, -signal.SIGKILL], ends
        assert ends[0][1].endswith("resumes the run\n")
        assert ends[0][1].count("error: ") == 1
    for worker in start_two([*flags, f"--output_dir={folders[1]}"]):
        out, errors = worker.communicate(timeout=300)
        assert worker.returncode == 0, errors
        assert "resumed at step" in out
    assert _weights(folders[0]) == _weights(folders[1])
    histories = [(folder / "history.json").read_text() for folder in folders]
    assert histories[0] == histories[1]
    assert not [name for name in os.listdir(folders[1]) if name.startswith(".")]


@pytest.mark.slow
def test_two_workers_train_as_one_does(files, tmp_path):
    bert = tiny.write_google_bert(
        tmp_path / "bert", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    flags = [flag for flag in files if "bert" not in flag]
    flags += [f"--bert={bert}", "--num_train_epochs=2", "--deterministic"]
    alone = _run(*flags, f"--output_dir={tmp_path / 'one'}")
    assert alone.returncode == 0, alone.stderr
    for worker in start_two([*flags, f"--output_dir={tmp_path / 'two'}"]):
        _, errors = worker.communicate(timeout=200)
        assert worker.returncode == 0, errors
    one, two = (
        json.loads((tmp_path / name / "history.json").read_text())["epochs"]
        for name in ("one", "two")
    )
    losses = [[epoch["train"]["loss"] for epoch in epochs] for epochs in (one, two)]
    np.testing.assert_allclose(*losses, atol=1e-4)
    weights = [
        safetensors.numpy.load_file(next((tmp_path / name / "pack").glob("*.safetensors")))
        for name in ("one", "two")
    ]
    for path, value in weights[0].items():
        np.testing.assert_allclose(weights[1][path], value, atol=1e-4, err_msg=path)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--task=CoLLA"], "--task=CoLLA: no such task; did you mean CoLA"),
        (["--data_dir=/nowhere"], "--data_dir=/nowhere: no such folder"),
        (["--max_seq_length=64"], "--max_seq_length=64: the base takes 32 at most"),
        (["--train_batch_size=0"], "--train_batch_size=0: expected a whole number from 1"),
        (["--adapter_size=0"], "--adapter_size=0: expected a whole number from 1"),
        (["--adapter_layers=1,9"], "layers must be from 0 to 2"),
        (["--adapter_layers=top"], "--adapter_layers=top: expected numbers"),
        (["--tuning=top_k", "--top_k=7"], "k is beyond the 3 layers"),
        (["--init_checkpoint=/nowhere"], "/nowhere"),
        (["--use_tpu"], "--use_tpu: no TPU"),
        (["stray"], "stray: unexpected argument"),
    ],
)
def test_wrong_input_ends_with_one_line(files, tmp_path, flags, told):
    folder = tmp_path / "run"
    done = run_quickly("run_classifier.py", *files, *_WHOLE, f"--output_dir={folder}", *flags)
    assert done.returncode == 1
    assert told in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert not folder.exists()


def test_another_run_is_refused_and_this_one_left_alone(files, run):
    folder, _ = run
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    flags = [*files, *_WHOLE, f"--output_dir={folder}", "--seed=5"]
    done = run_quickly("run_classifier.py", *flags)
    assert done.returncode == 1
    assert "belongs to a run with seed=0, not 5" in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


@pytest.mark.parametrize(
    ("flag", "told"), [("--task=CoLLA", "no such task"), ("--max_seq_length=64", "takes 32")]
)
def test_nothing_stands_in_front_of_the_line(files, tmp_path, flag, told):
    process = _start([*files, f"--output_dir={tmp_path}/run", flag])
    _, told_in = process.communicate(timeout=300)
    assert process.returncode == 1
    assert told_in.startswith("error: ")
    assert told in told_in
    assert told_in.count("\n") == 1, told_in
