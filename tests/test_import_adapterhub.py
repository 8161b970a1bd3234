"""python -m adapter_bert_tf.import_adapterhub, and files that were made to do harm."""

import io
import json
import os
import pathlib
import struct
import subprocess
import sys
import time
import tracemalloc
import zipfile

import numpy as np
import pytest
import safetensors.numpy

from adapter_bert_tf import UserError, import_adapterhub, load_task, read_pack
from tests import tiny, torch_bytes
from tests.adapterhub import hub
from tests.programs import ROOT, run_quickly

PROGRAM = "adapter_bert_tf.import_adapterhub"


def test_a_folder_becomes_a_pack(bert, tmp_path):
    whole = hub.config("my task", **hub.SEQUENTIAL)
    head = hub.head_config("my task", label2id={"c": 2, "b": 1, "a": 0})
    folder = hub.write(tmp_path / "adapter", whole, head=head)
    output = tmp_path / "packs" / "mine"
    flags = [f"--adapter={folder}", f"--bert={bert}", f"--output_dir={output}"]
    done = subprocess.run(
        [sys.executable, "-m", PROGRAM, *flags, "--pair", "--max_seq_length=20"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"pack: {output}\n"
    pack = read_pack(output)
    assert (pack.task, pack.kind, pack.labels) == ("my task", "classification", ["a", "b", "c"])
    assert pack.inputs == {"pair": True, "max_seq_length": 20}
    task = load_task(output, bert)
    answers = task.answers(["w1 w2", "w4"], ["w3", "w5 w6"])
    ids = np.array([[2, 5, 6, 3, 7, 3], [2, 8, 3, 9, 10, 3]])
    inputs = {
        "input_word_ids": ids,
        "input_mask": np.ones_like(ids),
        "input_type_ids": np.array([[0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 1]]),
    }
    tokens = hub.hidden_states(whole, hub.tensors(whole), inputs)
    logits = hub.logits(head, hub.head_tensors(head), tokens)
    wanted = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(answers["probabilities"], wanted, atol=1e-5)


def test_a_mistake_ends_with_one_line_and_code_1(bert, tmp_path):
    folder = hub.write(tmp_path / "adapter", hub.config(use_gating=True))
    output = tmp_path / "pack"
    flags = [f"--adapter={folder}", f"--bert={bert}", f"--output_dir={output}"]
    done = subprocess.run(
        [sys.executable, "-m", PROGRAM, *flags], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{folder}: use_gating=True: gates can't be held" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not output.exists()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"adapter": "nowhere"}, "nowhere: no such folder or zip file"),
        ({"bert": "nowhere"}, "nowhere: no such folder, checkpoint or preset"),
        ({"output_dir": "adapter"}, "adapter: exists already, and is not overwritten"),
        ({"vocab_file": "nowhere.txt"}, "nowhere.txt"),
    ],
    ids=str,
)
def test_wrong_flags_end_with_one_line_and_write_nothing(bert, tmp_path, changes, told):
    hub.write(tmp_path / "adapter", hub.config())
    before = sorted(os.listdir(tmp_path))
    flags = {"adapter": "adapter", "bert": bert, "output_dir": "pack"} | changes
    done = run_quickly(PROGRAM, *(f"--{key}={each}" for key, each in flags.items()), cwd=tmp_path)
    assert done.returncode == 1
    assert told in done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(os.listdir(tmp_path)) == before


# Hostile files. Each function changes a folder that could be imported, and may return another path
# to import instead of it.


def _json(name: str, text: str | bytes):
    """Replaces a file."""
    return lambda folder: (folder / name).write_bytes(
        text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    )


def _adapter(**fields):
    return _json("adapter_config.json", json.dumps(hub.config(**fields)))


def _whole(**changes):
    return _json("adapter_config.json", json.dumps({**hub.config(), **changes}))


def _head(**fields):
    return _json("head_config.json", json.dumps({**hub.head_config(), "config": _fields(fields)}))


def _fields(fields):
    return {**hub.head_config()["config"], **fields}


def _bin(content: bytes):
    def change(folder):
        (folder / "adapter.safetensors").unlink()
        (folder / "pytorch_adapter.bin").write_bytes(content)

    return change


def _attack(folder_of_canary: str) -> bytes:
    """A call that makes the canary."""
    command = f"touch {folder_of_canary}/canary"
    return b"cos\nsystem\n(" + torch_bytes.value(command) + b"tR"


def _bin_with_attack(legacy: bool):
    def change(folder):
        call = torch_bytes.dictionary({"x": _attack(folder.parent)})
        make = torch_bytes.legacy_file if legacy else torch_bytes.zip_file
        _bin(make(call))(folder)

    return change


def _safe(content: bytes):
    return lambda folder: (folder / "adapter.safetensors").write_bytes(content)


def _tensors(fields=(), **changes):
    """Replaces tensors of one bottleneck."""

    def change(folder):
        whole = hub.config(**dict(fields))
        tensors = hub.tensors(whole)
        for name, array in changes.items():
            stem = (
                "bert.shared_parameters.task." if name == "phm_rule" else hub.place(0, "attention")
            )
            tensors[f"{stem}{name.replace('__', '.')}"] = np.asarray(array)
        hub.write(folder, whole, tensors)

    return change


def _head_tensors(**changes):
    def change(folder):
        tensors = hub.head_tensors(hub.head_config())
        tensors |= {f"heads.task.{name.replace('__', '.')}": each for name, each in changes.items()}
        safetensors.numpy.save_file(tensors, folder / "model_head.safetensors")

    return change


def _zip(change=lambda content: content, compression=zipfile.ZIP_DEFLATED, **more):
    """Packs the folder, with entries in addition to its own."""

    def make(folder):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", compression) as archive:
            for path in sorted(folder.iterdir()):
                if path.name not in more:
                    archive.write(path, path.name)
            for name, content in more.items():
                archive.writestr(name, content)
        path = folder.parent / "adapter.zip"
        path.write_bytes(change(file.getvalue()))
        return path

    return make


def _zip_twice(folder):
    path = folder.parent / "adapter.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for inside in ("a", "b"):
            archive.write(folder / "adapter_config.json", f"{inside}/adapter_config.json")
    return path


def _zip_outside(folder):
    """Files that would be written beside the folder that is unpacked to, and none that is asked."""
    path = folder.parent / "adapter.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in (
            "../canary",
            f"{folder.parent}/canary",
            "../../canary",
            "adapter_config.json/x",
        ):
            archive.writestr(name, "x")
    return path


def _zip_link(folder):
    """A link to a file of the system, in the place of the configuration."""
    path = folder.parent / "adapter.zip"
    entry = zipfile.ZipInfo("adapter_config.json")
    entry.external_attr = 0o120777 << 16
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(entry, "/etc/passwd")
    return path


def _encrypted(content: bytes) -> bytes:
    at = content.index(b"PK\1\2")
    return content[: at + 8] + b"\1" + content[at + 9 :]


def _damaged(content: bytes) -> bytes:
    """Changes bytes of what is compressed."""
    at = content.index(b"adapter.safetensors") + 30
    return content[:at] + b"\xff" * 60 + content[at + 60 :]


def _of_another_name(content: bytes) -> bytes:
    """The name before a file is longer than that in the list; the message has both."""
    return content[:26] + struct.pack("<H", 3000) + content[28:]


def _larger_than_said(content: bytes) -> bytes:
    """The list of entries says that the first one has three bytes."""
    at = content.index(b"PK\1\2")
    return content[: at + 24] + struct.pack("<I", 3) + content[at + 28 :]


def _many_entries(content: bytes) -> bytes:
    entry = struct.pack("<4s42x", b"PK\1\2")
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, len(entry) * 60_000, 4, 0)
    return b"PK\3\4" + entry * 60_000 + end


def _replaced(name: str, make):
    """Puts something else in the place of a file."""

    def change(folder):
        (folder / name).unlink()
        make(folder / name)

    return change


def _sparse(size: int):
    """A file that says to be large, and takes no room."""

    def make(path):
        path.touch()
        os.truncate(path, size)

    return make


def _loop(path):
    path.symlink_to(path.name)


def _pipe_alone(folder):
    path = folder.parent / "pipe"
    os.mkfifo(path)
    return path


def _loop_alone(folder):
    path = folder.parent / "loop"
    _loop(path)
    return path


def _cache(main):
    """A repository in the Hub's cache whose commit is read from something odd."""

    def make(folder):
        top = folder.parent / "models--a--b"
        (top / "snapshots").mkdir(parents=True)
        (top / "refs").mkdir()
        main(top / "refs" / "main")
        return top

    return make


def _device(path):
    path.symlink_to("/dev/zero")


DEEP = 100_000
STATE = torch_bytes.state_file(hub.tensors(hub.config()))
SAFE = safetensors.numpy.save(hub.tensors(hub.config()))
SHORT = np.zeros(3, np.float32)
CONFIG, WEIGHTS, HEAD = "adapter_config.json", "adapter.safetensors", "head_config.json"
LEARNED, PHM = {"scaling": "learned"}, hub.PHM

# What is done to the folder, and a part of the message.
HOSTILE = {
    # Pickles
    "os.system": (_bin_with_attack(legacy=False), "asks for os.system; only tensors are read"),
    "os.system in an old file": (_bin_with_attack(legacy=True), "asks for os.system;"),
    "empty bin": (_bin(b""), "not a readable PyTorch file"),
    "a pointer of git": (_bin(b"version https://git-lfs.github.com/spec/v1\n"), "not a readable"),
    "half a bin": (_bin(STATE[: len(STATE) // 2]), "not a readable PyTorch file"),
    "a bin with a changed byte": (
        _bin(STATE[:3000] + b"\xff" + STATE[3001:]),
        "pytorch_adapter.bin: ",
    ),
    "a billion elements": (
        _bin(
            torch_bytes.zip_file(torch_bytes.dictionary({"x": torch_bytes.tensor(size=(10**9, 1))}))
        ),
        "beyond its storage",
    ),
    "a billion times the same": (
        _bin(
            torch_bytes.zip_file(
                torch_bytes.dictionary({"x": torch_bytes.tensor(size=(10**9,), stride=(0,))})
            )
        ),
        "its tensors take more than 4 times the file's bytes",
    ),
    "a dict in a dict": (
        _bin(torch_bytes.zip_file(torch_bytes.dictionary({"x": torch_bytes.dictionary({})}))),
        "x is not a tensor",
    ),
    "a bin of integers": (
        _bin(torch_bytes.state_file({"x": np.zeros(3, np.int64)})),
        "x has int64 numbers; expected floats",
    ),
    "a bin with other names": (
        _bin(torch_bytes.state_file({"a" * 300: SHORT, "b": SHORT})),
        "missing tensors: encoder.layer.0.attention.output.adapters.task.adapter_down.0.weight",
    ),
    "a name of a million letters": (
        _bin(torch_bytes.state_file({"a" * 10**6: SHORT})),
        "aaa' is not a tensor's name",
    ),
    "10,000 unknown tensors": (
        _tensors(**{f"x{i}": np.zeros(1, np.float32) for i in range(10_000)}),
        "and 9995 more",
    ),
    # safetensors
    "empty safetensors": (_safe(b""), "not a readable safetensors file"),
    "half a safetensors file": (_safe(SAFE[: len(SAFE) // 2]), "not a readable safetensors file"),
    "only its list": (_safe(SAFE[:9]), "not a readable safetensors file"),
    "a list of exabytes": (_safe(b"\xff" * 8 + SAFE[8:]), "its list of tensors has 18,446,744,073"),
    "a list of 50 MB": (_safe((50 << 20).to_bytes(8, "little")), "has 52,428,800 bytes, which is"),
    "a list that is deep": (
        _safe((2 * DEEP).to_bytes(8, "little") + b"[" * DEEP + b"]" * DEEP),
        "not a readable safetensors file",
    ),
    "a tensor beyond the file": (
        _safe(hub.safetensors_file("x", b"1234", shape=[10**9], data_offsets=[0, 4 * 10**9])),
        "not a readable safetensors file",
    ),
    "a tensor beyond the file, of odd names": (
        _safe(hub.safetensors_file("a\x1b[2J\nb" * 1000, b"1234", data_offsets=[4, 8])),
        "not a readable safetensors file",
    ),
    "a tensor smaller than its shape": (
        _safe(hub.safetensors_file("x", b"1234", shape=[2])),
        "not a readable safetensors file",
    ),
    "a huge tensor without elements": (
        _safe(hub.safetensors_file("x", b"", shape=[0, 2**62, 2**62])),
        "adapter.safetensors: x has an odd shape",
    ),
    "safetensors of integers": (
        _safe(hub.safetensors_file("x", b"1234", dtype="I32")),
        "x has I32 numbers; expected floats",
    ),
    "a name of lines": (_safe(hub.safetensors_file("a\nb", b"1234")), r"'a\nb' is not a tensor's"),
    "a name of lines for integers": (
        _safe(hub.safetensors_file("a\nb", b"1234", dtype="I32")),
        r"'a\nb' is not a tensor's name",
    ),
    "a million dimensions": (
        _safe(hub.safetensors_file("x", b"1234", shape=[1] * 10**6)),
        "x has an odd shape",
    ),
    "a long name": (_safe(hub.safetensors_file("a" * 10**6, b"1234")), "aaa' is not a tensor's"),
    # Tensors
    "not a number": (_tensors(adapter_up__bias=np.full(16, np.nan, np.float32)), "not finite"),
    "infinite as float32": (_tensors(adapter_up__bias=np.full(16, 1e300)), "not finite"),
    "a vector": (_tensors(adapter_up__weight=SHORT), "up/kernel is [3], the base wants"),
    "a scalar": (_tensors(adapter_down__0__weight=np.float32(1)), "down/kernel is [], the base"),
    "a cube": (_tensors(adapter_up__weight=np.zeros([1, 16, 4], np.float32)), "is [4, 16, 1], the"),
    "no elements": (
        _tensors(adapter_down__0__weight=np.zeros([0, 16], np.float32)),
        "down/kernel is [16, 0], the base wants",
    ),
    "a scaling that makes a tensor huge": (
        _tensors(LEARNED, scaling=np.ones([10**5, 1, 1], np.float32)),
        "scaling is [100000, 1, 1], expected a number",
    ),
    "factors of a huge kernel": (
        _tensors(PHM, adapter_up__W_left=np.ones([4, 10**6, 1], np.float32)),
        "W has factors [4, 1000000, 1]",
    ),
    "a rule of a huge kernel": (
        _tensors(PHM, phm_rule=np.ones([4, 4, 10**5], np.float32)),
        "the base wants a kernel for its width of 16",
    ),
    # adapter_config.json
    "empty": (_json(CONFIG, ""), "adapter_config.json: not JSON"),
    "deep": (_json(CONFIG, "[" * DEEP + "]" * DEEP), "not JSON: nested too deeply"),
    "deep objects": (_json(CONFIG, '{"config":' * DEEP), "not JSON: nested too deeply"),
    "nearly too deep": (_whole(model_type=json.loads("[" * 900 + "]" * 900)), "model_type="),
    "not UTF-8": (_json(CONFIG, b"\xff\xfe{}"), "not UTF-8 at byte 0"),
    "a list": (_json(CONFIG, "[]"), "expected a JSON object, not list"),
    "a long number": (
        _json(CONFIG, '{"name": ' + "9" * 10**5 + "}"),
        "adapter_config.json: not JSON",
    ),
    "two megabytes": (
        _json(CONFIG, " " * (2 << 20)),
        "2,097,152 bytes; expected 1,048,576 at most",
    ),
    "leave_out of a million": (_adapter(leave_out=[0] * 10**6), "expected 1,048,576 at most"),
    "leave_out of 300,000": (
        _adapter(leave_out=[0] * 300_000),
        "nothing is known of: encoder.layer.0",
    ),
    "leave_out of negative layers": (_adapter(leave_out=[-1, 10**9, 1]), "of: encoder.layer.1"),
    "leave_out of lists": (_adapter(leave_out=[[0]]), "leave_out=[[0]]: expected a list of layers"),
    "scaling NaN": (_adapter(scaling=float("nan")), "scaling=nan: expected a number"),
    "scaling Infinity": (_adapter(scaling=float("inf")), "scaling=inf: expected a number"),
    "scaling of 400 digits": (_adapter(scaling=10**400), "scaling=1000"),
    "scaling a list": (_adapter(scaling=[1.0]), "scaling=[1.0]: expected a number"),
    "activation a list": (_adapter(non_linearity=["relu"]), "non_linearity=['relu']: expected"),
    "activation a list, old": (
        _json(CONFIG, json.dumps({"name": "task", "config": {**hub.FIELDS, "non_linearity": []}})),
        "non_linearity=[]: expected",
    ),
    "config a list": (_whole(config=[]), "config=[]: expected an object"),
    "config a text": (_whole(config="a" * 10**5), "aaa...: expected one of seq_bn"),
    "config a program": (
        _whole(config="seq_bn[scaling=__import__('os').system('touch canary')]"),
        "expected fields with values",
    ),
    "config a deep text": (_whole(config="seq_bn[a=" + "(" * DEEP + "]"), "expected fields with"),
    "config missing": (_json(CONFIG, '{"name": "task"}'), "config: the field is missing"),
    "name a number": (_whole(name=3), "name=3: expected the adapter's name"),
    "name missing": (_whole(name=None), "name=None: expected the adapter's name"),
    "name of lines": (_whole(name="a\nb\x1b[2J"), r"name='a\nb\x1b[2J': expected"),
    "name of half a character": (_whole(name="\ud800"), r"name='\ud800': expected"),
    "name outside of the folder": (_whole(name="../../task"), "missing tensors: encoder.layer.0"),
    "long name": (_whole(name="a" * 10**5), "aaa...: expected the adapter's name"),
    "model_type a list": (_whole(model_type=[]), "model_type=[]: expected bert"),
    # The head
    "a billion labels": (_head(num_labels=10**9), "num_labels=1000000000: expected 1 to 100000"),
    "a million layers": (_head(layers=10**6), "layers=1000000: expected 1 to 8"),
    "labels with the same number": (_head(label2id={"a": 0, "b": 1, "c": 1}), "label2id={'a': 0"),
    "labels with other numbers": (_head(label2id={"a": 0, "b": 1, "c": 7}), "label2id={'a': 0"),
    "labels of an infinite number": (
        _head(label2id={"a": 0, "b": 1, "c": float("inf")}),
        "label2id=",
    ),
    "labels of half characters": (
        _head(label2id={"a": 0, "b": 1, "\ud800": 2}),
        "names in Unicode",
    ),
    "labels a list": (
        _head(label2id=[0, 1, 2]),
        "label2id=[0, 1, 2]: expected a name for each of 3",
    ),
    "50,000 labels": (_head(label2id={str(i): i for i in range(50_000)}), "label2id={'0': 0, "),
    "head of a list": (_json(HEAD, "[]"), "expected a JSON object, not list"),
    "head's config a list": (
        _json(HEAD, json.dumps({**hub.head_config(), "config": [1]})),
        "config=[1]: expected an object",
    ),
    "head's type a list": (_head(head_type=["classification"]), "head_type=['classification']: "),
    "head's class a list": (_json(HEAD, '{"config": null, "model_class": []}'), "model_class=[]: "),
    "head's activation a list": (_head(activation_function=[1]), "activation_function=[1]: "),
    "head's dropout NaN": (_head(dropout_prob=float("nan")), "dropout_prob=nan: "),
    "head's name of lines": (
        _json(HEAD, json.dumps(hub.head_config("a\nb"))),
        r"name='a\nb': expected",
    ),
    "head of another shape": (_head_tensors(**{"4__weight": SHORT}), "4.weight is [3], expected"),
    "head of cubes": (
        _head_tensors(**{"4__weight": np.zeros([3, 16, 1], np.float32)}),
        "4.weight is [3, 16, 1], expected",
    ),
    "head of NaN": (_head_tensors(**{"4__bias": np.full(3, np.nan, np.float32)}), "not finite"),
    # What is not a file
    "pipe as configuration": (_replaced(CONFIG, os.mkfifo), "adapter_config.json: not a file"),
    "pipe as weights": (_replaced(WEIGHTS, os.mkfifo), "adapter.safetensors: not a file"),
    "pipe as head": (_replaced(HEAD, os.mkfifo), "head_config.json: not a file"),
    "pipe": (_pipe_alone, "pipe: no such folder or zip file"),
    "pipe as commit": (_cache(os.mkfifo), "refs/main: not a file"),
    "device as commit": (_cache(_device), "refs/main: not a file"),
    "huge commit": (_cache(_sparse(1 << 40)), "refs/main: 1,099,511,627,776 bytes; expected 100"),
    "device as configuration": (_replaced(CONFIG, _device), "adapter_config.json: not a file"),
    "device as weights": (_replaced(WEIGHTS, _device), "adapter.safetensors: not a file"),
    "device": (lambda _: pathlib.Path("/dev/zero"), "/dev/zero: no such folder or zip file"),
    "loop as configuration": (_replaced(CONFIG, _loop), "Too many levels of symbolic links"),
    "loop as weights": (_replaced(WEIGHTS, _loop), "Too many levels of symbolic links"),
    "loop as head": (_replaced(HEAD, _loop), "Too many levels of symbolic links"),
    "loop": (_loop_alone, "loop: no such folder or zip file"),
    "folder as configuration": (_replaced(CONFIG, os.mkdir), "adapter_config.json: not a file"),
    "folder as weights": (_replaced(WEIGHTS, os.mkdir), "adapter.safetensors: not a file"),
    "a terabyte of weights": (_replaced(WEIGHTS, _sparse(1 << 40)), "1,099,511,627,776 bytes; exp"),
    "900 MB of nothing": (
        _replaced(WEIGHTS, _sparse(900 << 20)),
        "not a readable safetensors file",
    ),
    "900 MB of nothing as bin": (
        lambda folder: (_bin(b"")(folder), _sparse(900 << 20)(folder / "pytorch_adapter.bin"))[1],
        "pytorch_adapter.bin: ",
    ),
    "a terabyte of configuration": (_replaced(CONFIG, _sparse(1 << 40)), "expected 1,048,576 at"),
    # Zip files
    "zip bomb": (
        _zip(**{"pytorch_adapter.bin": bytes(100_000_000)}),
        "adapter.zip: pytorch_adapter.bin would take 100,000,000 bytes",
    ),
    "zip bomb of a configuration": (
        _zip(**{CONFIG: " " * (2 << 20)}),
        "adapter.zip: adapter_config.json would take 2,097,152 bytes",
    ),
    "zip with paths outside": (_zip_outside, "adapter.zip/adapter_config.json: No such file"),
    "zip with a link": (_zip_link, "adapter.zip/adapter_config.json: not JSON"),
    "zip with a file twice": (_zip_twice, "adapter.zip: holds adapter_config.json twice"),
    "zip that is encrypted": (_zip(_encrypted), "adapter.zip: not a readable zip file: "),
    "zip that is damaged": (_zip(_damaged), "adapter.zip: not a readable zip file: "),
    "zip of two names": (_zip(_of_another_name), "adapter.zip: not a readable zip file: File name"),
    "zip with a file larger than said": (
        _zip(_larger_than_said),
        "adapter.zip: not a readable zip",
    ),
    "half a zip": (_zip(lambda content: content[: len(content) // 2]), "not a readable zip file"),
    "zip without its first half": (
        _zip(lambda content: content[len(content) // 2 :]),
        "adapter.zip: ",
    ),
    "zip of LZMA": (_zip(compression=zipfile.ZIP_LZMA), "is compressed in an unusual way"),
    "zip of 60,000 files": (_zip(_many_entries), "zip file: its list of files is too long"),
    "zip with os.system": (
        lambda folder: (_bin_with_attack(legacy=False)(folder), _zip()(folder))[1],
        "adapter.zip/pytorch_adapter.bin: asks for os.system;",
    ),
    "a text": (lambda folder: folder / CONFIG, "adapter_config.json: not a readable zip file"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused_in_one_line(name, bert, tmp_path):
    change, told = HOSTILE[name]
    folder = hub.write(tmp_path / "adapter", hub.config(), head=hub.head_config())
    changed = change(folder)
    path = changed if isinstance(changed, pathlib.Path) else folder
    before = sorted(os.listdir(tmp_path))
    start = time.process_time()
    tracemalloc.start()
    try:
        with pytest.raises(UserError) as error:
            import_adapterhub(path, bert=bert, output_dir=tmp_path / "pack")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 200e6
    assert time.process_time() - start < 5
    message = str(error.value)
    assert message.startswith(f"{path}")
    assert told in message
    assert message.isprintable()
    assert len(message) < 800 + len(str(path))
    # Nothing is written, and nothing was executed.
    assert sorted(os.listdir(tmp_path)) == before
    assert not {"pack", "canary"} & set(before)


def test_there_is_a_file_that_is_not_hostile(bert, tmp_path):
    """What the hostile ones are made of is imported, so that nothing else is wrong with them."""
    folder = hub.write(tmp_path / "adapter", hub.config(), head=hub.head_config())
    import_adapterhub(folder, bert=bert, output_dir=tmp_path / "a")
    _bin(STATE)(folder)
    import_adapterhub(_zip()(folder), bert=bert, output_dir=tmp_path / "b")
    assert read_pack(tmp_path / "a").sha256 == read_pack(tmp_path / "b").sha256


@pytest.mark.parametrize("fields", [{"reduction_factor": 10**9}, {"phm_dim": 10**9}], ids=str)
def test_sizes_are_those_of_the_tensors_whatever_the_configuration_says(bert, tmp_path, fields):
    tensors = hub.tensors(hub.config())
    folder = hub.write(tmp_path / "adapter", hub.config(**fields), tensors)
    import_adapterhub(folder, bert=bert, output_dir=tmp_path / "pack")
    assert read_pack(tmp_path / "pack").adapter.size == tiny.WIDTH // 4


def test_a_name_that_is_a_path_is_only_a_name(bert, tmp_path):
    folder = hub.write(tmp_path / "in" / "adapter", hub.config("../../evil"))
    import_adapterhub(folder, bert=bert, output_dir=tmp_path / "in" / "pack")
    assert read_pack(tmp_path / "in" / "pack").task == "../../evil"
    assert os.listdir(tmp_path) == ["in"]
    assert sorted(os.listdir(tmp_path / "in")) == ["adapter", "pack"]
