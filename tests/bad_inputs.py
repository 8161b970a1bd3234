"""A generator of bad inputs for all programs and public functions.

    python -m tests.bad_inputs

prints a table of all of them: what became of each, how long it took, and how much memory.

Most are made of few parts: each value of each file is replaced by values that it can't have, each
flag is given wrong ones, and each file that we read is replaced by what is no such file.
"""

import atexit
import contextlib
import copy
import dataclasses
import functools
import hashlib
import json
import math
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from adapter_bert_tf.errors import UserError

SECONDS, MEGABYTES = 20, 2000
_BEFORE = pathlib.Path(__file__).parent / "serve" / "before"
# More digits than Python reads, and more levels.
_DIGITS, _DEEP = "1" * 5000, "[" * 100_000


@dataclasses.dataclass(frozen=True)
class Case:
    """A bad input.

    Args:
      name: What is wrong, and where.
      give: Hands it to the code; is given an empty folder.
    """

    name: str
    give: Callable[[str], Any]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of a bad input.

    Args:
      problem: What should not have happened; "" if all is well.
      message: The line that was told.
      seconds: How long it took.
      megabytes: The memory that it took; of programs, which are told apart, all that they had.
    """

    problem: str
    message: str
    seconds: float
    megabytes: float


def attempt(case: Case) -> Outcome:
    """Gives a bad input, within limits of time and memory; again if the machine was busy."""
    outcome = _attempt(case)
    return _attempt(case) if outcome.seconds > SECONDS else outcome


def _attempt(case: Case) -> Outcome:
    message, problem = "", ""
    before = _reset_peak()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        try:
            with _deadline():
                case.give(folder)
            problem = "was accepted"
        except UserError as error:
            message = str(error)
            if not message.isprintable() or not 0 < len(message) < 1000:
                problem = f"is not told in a line: {message[:200]!r}"
        except _LateError:
            problem = f"took more than {SECONDS} s"
        except BaseException as error:  # A trace is what is looked for.
            problem = f"{type(error).__name__}: {str(error)[:300]}"
    taken = _peak() - before
    if not problem and taken > MEGABYTES:
        problem = f"took {taken:,.0f} MB"
    return Outcome(problem, message, time.monotonic() - start, taken)


class _LateError(BaseException):
    """A limit that nobody catches by mistake."""


@contextlib.contextmanager
def _deadline() -> Iterator[None]:
    def late(*_: object) -> None:
        raise _LateError

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _reset_peak() -> float:
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    return _peak()


def _peak() -> float:
    """Returns the most memory since the last reset; 0 where a system doesn't say it so."""
    with contextlib.suppress(OSError), open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024
    return 0.0


# Values that are of the wrong type or out of every range, by what is expected.
_WHOLE = (None, -1, 10**9, 10**400, 1.5, "1", True, [], {}, math.nan)
_NUMBER = (None, "1", True, [], math.nan, math.inf)
_BOOLEAN = (None, 0, 1, "yes", [])
_TEXT = (None, 1, True, [], {})
_DIGEST = (None, 1, "", "0" * 63, "G" * 64)
_LIST = (None, 1, {}, "a", [1], [None], ["a", "a"])
_OBJECT = (None, 1, [], "a", {"unknown": 1})

# The places in a file, and what they can't be.
Wrong = dict[str, Sequence[Any]]
_CONFIG: Wrong = {
    **dict.fromkeys(
        [
            *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads"),
            *("intermediate_size", "max_position_embeddings", "type_vocab_size"),
        ],
        (*_WHOLE, 0),
    ),
    **dict.fromkeys(
        ["hidden_dropout_prob", "attention_probs_dropout_prob", "layer_norm_eps"],
        (*_NUMBER, -0.1, 1),
    ),
    "hidden_act": [*_TEXT, "step"],
}
_PACK: Wrong = {
    "format": [None, 0, 2, "1", 10**400],
    "base": _OBJECT,
    "base.origin": _TEXT,
    "base.fingerprint": _DIGEST,
    "base.layer_norm_fingerprint": _DIGEST,
    "adapter": [1, [], "a", {"unknown": 1}],
    **dict.fromkeys(["adapter.size", "adapter.hidden_layers"], (*_WHOLE, 0)),
    "adapter.init_scale": [*_NUMBER, -1, 1e300],
    "adapter.activation": [*_TEXT, "step"],
    "adapter.sites": [1, [], [1], ["pooler"], "pooler"],
    "adapter.layers": [[-1], [10**9], ["1"], [1.5], "all", -1],
    **dict.fromkeys(["adapter.parallel", "adapter.layer_norm", "adapter.multiplicative"], _BOOLEAN),
    "adapter.design": [*_TEXT, "odd"],
    "adapter.scaling": ["1", True, [], math.nan, math.inf, 1e300],
    "adapter.epsilon": [*_NUMBER, -1],
    "tuning": _OBJECT,
    "tuning.method": [*_TEXT, "lora"],
    "tuning.k": [*_WHOLE, 0],
    "tuning.layer_norms": _BOOLEAN,
    "tuning.from_layer": _WHOLE,
    "head": _OBJECT,
    "head.kind": [*_TEXT, "poet"],
    "head.settings": _OBJECT,
    "head.settings.classes": [*_WHOLE, 0, 2, 4],
    "head.settings.dropout": [*_NUMBER, -1, 1],
    "head.settings.pooler": _BOOLEAN,
    "head.settings.hidden_layers": _WHOLE,
    "head.settings.activation": [*_TEXT, "step"],
    "head.settings.name": [1, "head"],
    "task": [1, True, [], {}],
    "labels": [*_LIST, ["\ud800", "b", "c"], ["a", "b"], ["a", "b", "b"], ["a"] * 4],
    "metrics": [None, 1, [], "a", {"\ud800": 1.0}],
    "metrics.f1": _NUMBER,
    "vocabulary": [1, [], "a", {}],
    "vocabulary.size": [*_WHOLE, 0],
    "vocabulary.sha256": _DIGEST,
    "vocabulary.lower_case": _BOOLEAN,
    "inputs": [None, 1, [], "a"],
    **dict.fromkeys(
        [
            *("inputs.max_seq_length", "inputs.doc_stride", "inputs.max_query_length"),
            *("inputs.n_best_size", "inputs.max_answer_length"),
        ],
        (*_WHOLE, 0),
    ),
    "inputs.null_threshold": _NUMBER,
    **dict.fromkeys(["inputs.pair", "inputs.with_negative"], _BOOLEAN),
    "variables": _LIST,
    "weights": [*_TEXT, "", "..", "../x", "/etc/passwd", "a\0b"],
    "sha256": _DIGEST,
    "unknown": [1],
}
_EXPORT: Wrong = {
    "origin": _TEXT,
    "config": _OBJECT,
    "config.hidden_size": [*_WHOLE, 0],
    "config.num_layers": [*_WHOLE, 0],
    "config.norm_epsilon": _NUMBER,
    "config.inner_activation": [*_TEXT, "step"],
    "base": _LIST,
    "values": [None, 1, [], "a", {}],
    "values.paths": _LIST,
    "values.numbers": [None, 1, {}, "a", [1], [[-1]], [["1"]], [[1.5]]],
    "values.shapes": [None, 1, {}, "a", [1], [[-1]], [["1"]], [[10**20]]],
    "tasks": [None, 1, {}, "a", [], [1], [{}], [{"name": 1, "pack": {}}]],
    "lower_case": _BOOLEAN,
    "tokens": [None, 1, {}, "a", [1], ["a"] * 100],
    "signatures": [1, [], {"a": 1}, {"a": {"inputs": 1, "outputs": []}}],
}


def _with(valid: dict[str, Any], place: str, value: Any) -> dict[str, Any]:
    """Returns a copy of a JSON object with another value at a place."""
    changed = copy.deepcopy(valid)
    *parents, name = place.split(".")
    inner = changed
    for parent in parents:
        inner = inner[parent]
    inner[name] = value
    return changed


def _in_file(title: str, valid: dict, wrong: Wrong, read: Callable[[str, str], Any], name: str):
    """Yields a case for each wrong value of each place in a file."""
    for place, values in wrong.items():
        for value in values:

            def give(folder: str, place: str = place, value: Any = value) -> None:
                path = os.path.join(folder, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w") as file:
                    json.dump(_with(valid, place, value), file)
                read(folder, path)

            yield Case(f"{title}: {place}={str(value)[:30]}", give)


def _json_cases() -> Iterator[Case]:
    from adapter_bert_tf.base.config import read_google_config, read_hugging_face_config
    from adapter_bert_tf.pack.pack import read_pack
    from adapter_bert_tf.serve import DESCRIPTION_FILE
    from adapter_bert_tf.serve.description import read_description
    from tests import tiny

    pack = json.loads((_BEFORE / "pack" / "pack.json").read_text())
    export = json.loads((_BEFORE / "export" / DESCRIPTION_FILE).read_text())
    yield from _in_file("pack", pack, _PACK, lambda folder, _: read_pack(folder), "pack.json")
    yield from _in_file(
        "export", export, _EXPORT, lambda folder, _: read_description(folder), DESCRIPTION_FILE
    )
    for title, read in (("google", read_google_config), ("hugging face", read_hugging_face_config)):
        yield from _in_file(
            title, tiny.CONFIG, _CONFIG, lambda _, path, read=read: read(path), "config.json"
        )


# Flags.

_BY_TYPE = {
    int: ["x", 1.5, True, -1, 10**30, [], math.nan],
    float: ["x", True, [], math.nan, math.inf, 10**400],
    str: [1, True, []],
    bool: [1, "yes", []],
}


def _flag_cases() -> Iterator[Case]:
    from adapter_bert_tf.options import options_of
    from adapter_bert_tf.run.settings import (
        ClassifierSettings,
        SquadSettings,
        make_settings,
        option_sets,
    )

    for kind, needed in ((ClassifierSettings, {"task": "CoLA"}), (SquadSettings, {})):
        for owner, prefix in option_sets(kind):
            for name, option in options_of(owner, prefix).items():
                for value in _BY_TYPE[option.type]:
                    given = {**needed, name: [value] if option.many else value}
                    yield Case(
                        f"{kind.__name__}: --{name}={str(value)[:30]}",
                        lambda _, kind=kind, given=given: make_settings(kind, given),
                    )


# Files.


def _write(content: bytes | str) -> Callable[[str], None]:
    data = content.encode() if isinstance(content, str) else content
    return lambda path: pathlib.Path(path).write_bytes(data)


# What stands where a file is expected.
_NO_FILES: dict[str, Callable[[str], Any]] = {
    "nothing": lambda path: None,
    "a folder": os.mkdir,
    "a pipe": os.mkfifo,
    "a device": lambda path: os.symlink("/dev/zero", path),
    "a link to itself": lambda path: os.symlink(path, path),
    "no bytes": _write(b""),
    "a terabyte": lambda path: (_write(b"")(path), os.truncate(path, 10**12)),
    "bytes": _write(bytes(range(256)) * 20),
}
_NO_JSON = {
    "a cut object": _write('{"a": '),
    "a deep list": _write(_DEEP),
    "a deep object": _write('{"a":' * 100_000),
    "a number of 5,000 digits": _write('{"a": ' + _DIGITS + "}"),
    "a list": _write("[1, 2]"),
    "a number": _write("NaN"),
    "an empty object": _write("{}"),
    "two objects": _write("{} {}"),
    "UTF-16": _write('{"a": 1}'.encode("utf-16")),
}


def _readers() -> Iterator[tuple[str, Callable[[str], Any], bool]]:
    """Yields the name of each file that is read, what reads it, and whether it is JSON."""
    from adapter_bert_tf import answer, squad_evaluate
    from adapter_bert_tf.adapterhub.files import read_files
    from adapter_bert_tf.base.checkpoint import TfCheckpoint, find_checkpoint
    from adapter_bert_tf.base.config import read_google_config, read_hugging_face_config
    from adapter_bert_tf.base.hub import SavedEncoder
    from adapter_bert_tf.base.hugging_face import read_hugging_face_base
    from adapter_bert_tf.base.torch_file import read_torch_file
    from adapter_bert_tf.checks import text
    from adapter_bert_tf.data.records import read_records as read_tfrecords
    from adapter_bert_tf.data.sources import OwnFiles
    from adapter_bert_tf.experiment import about
    from adapter_bert_tf.experiment.records import read_records
    from adapter_bert_tf.heads.kinds import TEXT_LABELS
    from adapter_bert_tf.pack.pack import parse_pack, read_pack, read_shapes, read_tensors
    from adapter_bert_tf.run.folder import RunFolder
    from adapter_bert_tf.serve import DESCRIPTION_FILE
    from adapter_bert_tf.serve.description import read_description
    from adapter_bert_tf.squad.questions import read_squad
    from adapter_bert_tf.text.tokenizer import Tokenizer, read_vocabulary
    from tests import tiny

    described = json.loads((_BEFORE / "pack" / "pack.json").read_text())

    def beside_config(path: str) -> Any:
        tiny.write_config(os.path.dirname(path))
        os.rename(
            f"{os.path.dirname(path)}/bert_config.json", f"{os.path.dirname(path)}/config.json"
        )
        return dict(read_hugging_face_base(os.path.dirname(path)).read())

    def beside_checkpoints(path: str) -> Any:
        for name in ("a.index", "b.index"):
            pathlib.Path(path).with_name(name).touch()
        return find_checkpoint(os.path.dirname(path))

    def in_pack(read: Callable) -> Callable[[str], Any]:
        pack = parse_pack({**described, "weights": "w.safetensors"}, "pack.json")
        return lambda path: read(os.path.dirname(path), pack)

    def folder_of(read: Callable[[str], Any]) -> Callable[[str], Any]:
        return lambda path: read(os.path.dirname(path))

    yield "pack.json", folder_of(read_pack), True
    yield DESCRIPTION_FILE, lambda path: read_description(path[: -len(DESCRIPTION_FILE)]), True
    yield "bert_config.json", read_google_config, True
    yield "config.json", read_hugging_face_config, True
    yield "train-v1.1.json", read_squad, True
    yield "rows.jsonl", lambda path: OwnFiles({"train": path}, TEXT_LABELS).read("train"), True
    yield "rows.json", lambda path: OwnFiles({"train": path}, TEXT_LABELS).read("train"), True
    yield "adapter_config.json", folder_of(lambda folder: read_files(folder, True)), True
    yield "about.json", folder_of(about.read), True
    yield "rows.csv", lambda path: OwnFiles({"train": path}, TEXT_LABELS).read("train"), False
    yield "rows.tsv", lambda path: OwnFiles({"train": path}, TEXT_LABELS).read("train"), False
    yield "trials.csv", folder_of(read_records), False
    yield "vocab.txt", lambda path: Tokenizer(read_vocabulary(path)), False
    yield "context.txt", answer._read, False
    yield "predictions.json", lambda path: squad_evaluate._read(path, text)["q"], False
    yield "rows.tfrecord", read_tfrecords, False
    yield "checkpoint", beside_checkpoints, False
    yield "model.ckpt.index", lambda path: TfCheckpoint(path.removesuffix(".index")), False
    yield "w.safetensors", in_pack(read_tensors), False
    yield "w.safetensors", in_pack(read_shapes), False
    yield "model.safetensors", beside_config, False
    yield "pytorch_model.bin", read_torch_file, False
    yield "saved_model.pb", folder_of(SavedEncoder), False

    def in_run(read: Callable[[RunFolder], Any]) -> Callable[[str], Any]:
        def give(path: str) -> None:
            if not read(RunFolder(os.path.dirname(path))):
                raise UserError(f"{path}: what is not there yet, or empty, says nothing")

        return give

    yield "settings.json", in_run(RunFolder.asked), True
    yield "history.json", in_run(RunFolder.history), True
    yield "eval_results.json", in_run(RunFolder.results), True


def _file_cases() -> Iterator[Case]:
    for number, (name, read, is_json) in enumerate(_readers()):
        for title, make in {**_NO_FILES, **(_NO_JSON if is_json else {})}.items():

            def give(folder: str, name: str = name, read=read, make=make) -> None:
                path = os.path.join(folder, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                make(path)
                read(path)

            yield Case(f"{name} ({number}): {title}", give)


# Records.

_RECORD = {"input_ids": [2, 5, 3], "input_mask": [1] * 3, "segment_ids": [0] * 3, "label_ids": [1]}
_RECORDS: Wrong = {
    "input_ids": [[], [2, -1, 3], [2, 50, 3], [2, 2**32 + 5, 3], [0.5] * 3, [b"x"], [2] * 17, None],
    "input_mask": [[], [0] * 3, [1, 1], [1] * 4, [0.5] * 3, None],
    "segment_ids": [[], [0, 0], [0, 2, 0], [-1] * 3, [2**32] * 3, [b"x"], None],
    "label_ids": [[-1], [3], [10**12], [0.5], [b"x"], [1, 2], [], None],
    "is_real_example": [[0], [0.5], [1, 1]],
}
_SPANS: Wrong = {
    "start_positions": [[-1], [3], [10**12], [0.5], [b"x"], [1, 2], [], None],
    "end_positions": [[-1], [3], [2**63 - 1], None],
}


def _record_cases() -> Iterator[Case]:
    import types

    import tensorflow as tf

    from adapter_bert_tf.data.records import LABELS, check_labels, count_classes, read_records
    from adapter_bert_tf.run.common import check_rows
    from adapter_bert_tf.squad.records import read_span_records

    def feature(values: list) -> tf.train.Feature:
        kinds = {
            bytes: ("bytes_list", tf.train.BytesList),
            float: ("float_list", tf.train.FloatList),
        }
        name, kind = kinds.get(type(next(iter(values), 0)), ("int64_list", tf.train.Int64List))
        return tf.train.Feature(**{name: kind(value=values)})

    def write(path: str, *rows: dict[str, list | None]) -> None:
        with tf.io.TFRecordWriter(path) as writer:
            for row in rows:
                held = {name: feature(values) for name, values in row.items() if values is not None}
                example = tf.train.Example(features=tf.train.Features(feature=held))
                writer.write(example.SerializeToString())

    base: Any = types.SimpleNamespace(
        config=types.SimpleNamespace(vocab_size=50, type_vocab_size=2)
    )

    def read(path: str) -> None:
        columns = read_records(path)
        check_rows(path, columns, 16, base)
        if LABELS not in columns or columns[LABELS].shape.rank != 1:
            raise UserError(f"{path}: has no labels")
        check_labels(path, columns[LABELS], 3)

    spans = {**_RECORD, "start_positions": [1], "end_positions": [2]}
    for valid, wrong, reads in ((_RECORD, _RECORDS, read), (spans, _SPANS, read_span_records)):
        for place, values in wrong.items():
            for value in values:

                def give(folder: str, valid=valid, place=place, value=value, reads=reads) -> None:
                    write(f"{folder}/a.tfrecord", {**valid, place: value})
                    reads(f"{folder}/a.tfrecord")

                yield Case(f"record: {place}={str(value)[:30]}", give)

    def unequal(folder: str) -> None:
        write(
            f"{folder}/a.tfrecord", {**_RECORD, "label_ids": [1, 2]}, {**_RECORD, "label_ids": []}
        )
        read_records(f"{folder}/a.tfrecord")

    def long(folder: str) -> None:
        pathlib.Path(folder, "a.tfrecord").write_bytes((2**40).to_bytes(8, "little") + bytes(68))
        read_records(f"{folder}/a.tfrecord")

    def many(folder: str) -> None:
        write(f"{folder}/a.tfrecord", {**_RECORD, "label_ids": [10**9]})
        count_classes(f"{folder}/a.tfrecord")

    yield Case("record: two labels in a row, none in the next", unequal)
    yield Case("record: a billion classes", many)
    yield Case("record: a terabyte in 76 bytes", long)


# Models and public functions.


@functools.cache
def _tiny() -> tuple[str, str]:
    """Returns the folders of a tiny BERT, and of a pack on it."""
    import adapter_bert_tf as ab
    from tests import tiny

    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    bert = tiny.write_google_bert(os.path.join(folder, "bert"))
    model = ab.TaskModel(ab.load_encoder(bert, ab.AdapterConfig(size=4)), ab.ClassificationHead(3))
    pack = os.path.join(folder, "pack")
    ab.save_pack(model, pack, labels=["a", "b", "c"], inputs={"max_seq_length": 8, "pair": False})
    return bert, pack


def _changed_config(**changes: Any) -> Callable[[str], Any]:
    """Loads a BERT whose configuration says something else than its weights."""

    def give(folder: str) -> None:
        import adapter_bert_tf as ab
        from tests import tiny

        shutil.copytree(_tiny()[0], folder, dirs_exist_ok=True)
        ab.load_encoder(folder, config_file=tiny.write_config(folder, **changes))

    return give


def _changed_pack(value: float = 0.0, **changes: Any) -> Callable[[str], Any]:
    """Loads a pack with another value in its weights, or another description."""

    def give(folder: str) -> None:
        import numpy as np
        import safetensors.numpy

        import adapter_bert_tf as ab

        bert, pack = _tiny()
        shutil.copytree(pack, folder, dirs_exist_ok=True)
        raw = json.loads(pathlib.Path(folder, "pack.json").read_text())
        path = os.path.join(folder, raw["weights"])
        tensors = safetensors.numpy.load_file(path)
        tensors["head/output/bias"][:] = value
        safetensors.numpy.save_file(tensors, path)
        raw["sha256"] = hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
        for place, changed in changes.items():
            raw = _with(raw, place.replace("__", "."), changed)
        pathlib.Path(folder, "pack.json").write_text(json.dumps(raw))
        assert np.isnan(value) or value or changes
        ab.load_task(folder, bert)

    return give


def _call(name: str, *values: Any, **named: Any) -> Callable[[str], Any]:
    def give(folder: str) -> None:
        import adapter_bert_tf as ab

        paths = {"FOLDER": folder, "BERT": _tiny()[0], "PACK": _tiny()[1]}

        def placed(value: Any) -> Any:
            return paths.get(value, value) if isinstance(value, str) else value

        given = {key: placed(value) for key, value in named.items()}
        getattr(ab, name)(*map(placed, values), **given)

    return give


def _predict(*values: Any) -> Callable[[str], Any]:
    def give(folder: str) -> None:
        import adapter_bert_tf as ab

        ab.load_task(_tiny()[1], _tiny()[0]).predict(*values)

    return give


def _model_cases() -> Iterator[Case]:
    rows = [("w1", "a"), ("w2", "b")] * 10
    run = {"bert": "BERT", "output_dir": "FOLDER"}
    given: dict[str, Callable[[str], Any]] = {
        "1000 layers": _changed_config(num_hidden_layers=1000),
        "16,384 wide": _changed_config(hidden_size=16_384),
        "65,536 inside": _changed_config(intermediate_size=65_536),
        "5,000,000 words": _changed_config(vocab_size=5_000_000),
        "65,536 positions": _changed_config(max_position_embeddings=65_536),
        "1000 segments": _changed_config(type_vocab_size=1000),
        "8 heads of 16 wide for 4": _changed_config(num_attention_heads=5),
        "nan in a pack": _changed_pack(math.nan),
        "inf in a pack": _changed_pack(math.inf),
        "a pack's layers beyond the base": _changed_pack(adapter__layers=[99]),
        "a pack's adapters of 4096": _changed_pack(adapter__size=4096),
        "a pack's adapters of 64 layers": _changed_pack(adapter__hidden_layers=64),
        "a pack's adapters of 64 large layers": _changed_pack(
            adapter={"size": 4096, "hidden_layers": 64}
        ),
        "a pack's rows beyond the base": _changed_pack(inputs__max_seq_length=65_536),
        "a pack of another base": _changed_pack(base__fingerprint="0" * 64),
        "a pack of another vocabulary": _changed_pack(vocabulary__size=7),
        "a pack's head of more classes": _changed_pack(labels=[], head__settings__classes=100_000),
        "a pack's other tensors": _changed_pack(variables=["x"]),
        "load_task: nothing": _call("load_task", "/nowhere"),
        "load_task: no text": _call("load_task", "PACK", "/nowhere"),
        "load_task: a preset of http": _call("load_task", "PACK", "http://example.com/bert"),
        "load_encoder: an empty name": _call("load_encoder", ""),
        "load_encoder: NUL": _call("load_encoder", "a\0b"),
        "load_encoder: a long name": _call("load_encoder", "x" * 10_000),
        "load_encoder: http": _call("load_encoder", "http://example.com/bert.tar.gz"),
        "load_encoder: no configuration": _call("load_encoder", "BERT", config_file="/nowhere"),
        "predict: a text": _predict("w1"),
        "predict: numbers": _predict([1, 2]),
        "predict: pairs": _predict(["w1"], ["w2"]),
        "predict: no text": _predict([None]),
        "export: nothing": _call("export", [], "FOLDER"),
        "export: no pack": _call("export", ["/nowhere"], "FOLDER", bert="BERT"),
        "export: a file": _call("export", ["PACK"], "/dev/null", bert="BERT"),
        "tune: nothing": _call("tune"),
        "tune: rows of one": _call("tune", [("w1",)] * 20, **run),
        "tune: no rows": _call("tune", [], **run),
        "tune: one class": _call("tune", [("w1", "a")] * 20, **run),
        "tune: numbers for texts": _call("tune", 17, **run),
        "tune: few rows": _call("tune", rows[:4], **run),
        "tune: an unknown setting": _call("tune", rows, colour="red", **run),
        "tune: a seed beyond": _call("tune", rows, seed=2**31, **run),
        "tune: rows beyond the base": _call("tune", rows, max_seq_length=1000, **run),
        "tune: adapters in no layer": _call("tune", rows, adapter_layers=[9], **run),
        "tune: a large adapter": _call("tune", rows, adapter_size=10**9, **run),
        "tune: on no BERT": _call("tune", rows, bert="bert-bas", output_dir="FOLDER"),
        "save_pack: labels twice": lambda folder: _save(folder, labels=["a", "a", "b"]),
        "save_pack: nan as a metric": lambda folder: _save(folder, metrics={"f1": math.nan}),
        "save_pack: no such length": lambda folder: _save(folder, inputs={"max_seq_length": -1}),
        "import_adapterhub: nothing": _call(
            "import_adapterhub", "/nowhere", bert="BERT", output_dir="FOLDER"
        ),
        "export_adapterhub: nothing": _call("export_adapterhub", "/nowhere", output_dir="FOLDER"),
        "suite_cost: nothing": _call("suite_cost", ["/nowhere"]),
    }
    for name, give in given.items():
        yield Case(f"model: {name}", give)


def _save(folder: str, **named: Any) -> None:
    import adapter_bert_tf as ab

    bert, pack = _tiny()
    model = ab.load_pack(ab.load_encoder(bert, ab.AdapterConfig(size=4)), pack)
    ab.save_pack(model, folder, **named)


# Programs.

_FLAGS = {
    "run_classifier.py": [
        *("--task=CoLA --seed=99999999999999999999", "--task=CoLA --seed=-1", "--task=poem"),
        *("--task=CoLA --adapter_init_scale=nan", "--task=CoLA --learning_rate=inf"),
        *("--task=CoLA --train_batch_size=x", "--task=CoLA --adapter_layers=a,b", "--task="),
        *("--task=CoLA --bert=http://example.com", "--task=CoLA --bert=/nowhere"),
        *("--task=CoLA --adapter_size=1000000000", "--task=CoLA --num_train_epochs=1e308"),
        *("--train_file=/dev/zero", "--train_file=/nowhere.csv", "--task=CoLA --data_dir=/nowhere"),
    ],
    "run_squad.py": [
        *("--train_file=/dev/zero", "--train_file=/nowhere.json", "--doc_stride=0"),
        *("--n_best_size=1000000000", "--null_score_diff_threshold=nan", "--max_query_length=384"),
    ],
    "adapter_bert_tf.predict": ["--pack=/nowhere --text=a", "--pack=PACK"],
    "adapter_bert_tf.answer": ["--pack=/nowhere --context=/dev/zero who", "--pack=PACK who"],
    "adapter_bert_tf.export": ["--packs=", "--packs=/nowhere --export_dir=x", "--packs=PACK"],
    "adapter_bert_tf.show": ["/nowhere", "/dev/zero", "PACK/weights"],
    "adapter_bert_tf.glue_submission": ["--runs=", "--runs=/nowhere", "--runs=PACK"],
    "adapter_bert_tf.squad_evaluate": ["/nowhere /nowhere", "/dev/zero /dev/zero"],
    "adapter_bert_tf.import_checkpoint": [
        "--checkpoint=/nowhere --bert_config_file=/nowhere --output_dir=/nowhere/x"
    ],
    "adapter_bert_tf.import_adapterhub": [
        "--adapter=/nowhere --bert=minilm --output_dir=/nowhere/x"
    ],
    "adapter_bert_tf.export_adapterhub": ["--pack=/nowhere --output_dir=/nowhere/x"],
    "adapter_bert_tf.experiment": [
        *("poem --output_dir=/nowhere/x", "sweep", "report --output_dir=/nowhere"),
        *("sweep --output_dir=/nowhere/x --task=CoLA --seed=x", "glue --output_dir=/dev/null/x"),
        *("sweep --output_dir=/nowhere/x --task=CoLA --metric=f1,accuracy", "size --trials=3"),
        *("squad --output_dir=x --train_file=/nowhere.json", "additional --trials=0"),
    ],
    "adapter_bert_tf.baseline": [
        *("--task=poem --output_dir=x", "--task=CoLA", "--output_dir=x", "--task=CoLA --trials=x"),
        *("--train_file=/dev/zero --output_dir=x", "--train_file=/nowhere.csv --output_dir=x"),
        *("--task=CoLA --output_dir=gs://x", "--task=CoLA --output_dir=x --space=filters=-1"),
        *(
            "--task=CoLA --output_dir=x --space=module=http://example.com/1",
            "--task=CoLA --trials=",
        ),
        "--task=CoLA --output_dir=x --sampler=grid",
    ],
    "adapter_bert_tf.score": [
        *(
            "--export_dir=/nowhere --input=* --output=x.csv",
            "--export_dir=PACK --input=* --output=x",
        ),
        *("--export_dir=PACK --input=* --output=x.csv", "--export_dir=x --input=* --output=.csv"),
        "--export_dir=/dev/zero --input=/dev/zero --output=x.csv",
    ],
    "adapter_bert_tf.playground": [
        *("--export_dir=/nowhere", "--export_dir=PACK", "--server=localhost", "--port=99999"),
        *("--server=http://localhost:1 --port=-1", "--server=http://[ --port=0"),
    ],
}


def _program_cases() -> Iterator[Case]:
    from tests.programs import run_quickly

    for program, lines in _FLAGS.items():
        for line in ("", "--unknown=1", "a b c d", "--seed", *lines):

            def give(folder: str, program: str = program, line: str = line) -> None:
                flags = [each.replace("PACK", _tiny()[1]) for each in line.split()]
                done = run_quickly(program, *flags, cwd=folder)
                told = done.stderr.strip()
                if done.megabytes > MEGABYTES:
                    raise AssertionError(f"took {done.megabytes:,.0f} MB")
                if done.returncode != 1 or not told.startswith("error: ") or done.stdout:
                    raise AssertionError(f"{done.returncode}: {done.stdout[-200:]} {told[-300:]}")
                raise _Told(told)

            yield Case(f"{program} {line}", give)


class _Told(UserError):  # noqa: N818
    """What a program has told, as it is."""

    def __init__(self, message: str):
        ValueError.__init__(self, message)


def cases(loading: bool = True) -> Iterator[Case]:
    """Yields all bad inputs; if not `loading`, those that take milliseconds."""
    yield from _json_cases()
    yield from _flag_cases()
    yield from _file_cases()
    yield from _record_cases()
    if loading:
        yield from _model_cases()
        yield from _program_cases()


def _main() -> None:
    found = [(case, attempt(case)) for case in cases()]
    for case, outcome in found:
        print(
            f"{outcome.seconds:5.1f} s {outcome.megabytes:6,.0f} MB  {case.name}  ->  "
            f"{'!! ' + outcome.problem if outcome.problem else outcome.message[:100]}"
        )
    odd = [case.name for case, outcome in found if outcome.problem]
    slowest = max(outcome.seconds for _, outcome in found)
    print(f"{len(found)} bad inputs, {len(odd)} problems, {slowest:.1f} s at most")
    sys.exit(bool(odd))


if __name__ == "__main__":
    _main()
