"""Data flows one way, so imports do too."""

import ast
import pathlib

PACKAGE = pathlib.Path(__file__).parents[1] / "adapter_bert_tf"

# A stage may import from itself and from what stands before it.
STAGES = [
    "errors",
    "checks",
    "files",
    "options",
    "internals",
    "text",
    "data",
    "squad",
    "encoder",
    "base",
    "heads",
    "tuning",
    "pack",
    "text_task",
    "baseline",
    "adapterhub",
    "task",
    "serve",
    "run",
    "entry",
    "flags",
    "experiment",
    "bulk",
]
# Programs: they parse flags, and nobody imports them. So are the `__main__` of stages.
PROGRAMS = {
    "answer",
    "demo",
    "export",
    "export_adapterhub",
    "glue_submission",
    "import_adapterhub",
    "import_checkpoint",
    "playground",
    "predict",
    "run_classifier",
    "run_squad",
    "score",
    "show",
    "squad_evaluate",
}


# Modules of a stage that read flags.
_READERS = {"__main__", "given"}


def _imports(path: pathlib.Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found.update(name.split(".", 2)[1] for name in names if name.startswith(PACKAGE.name))
    return found


def _stage(path: pathlib.Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def test_no_stage_imports_a_later_one():
    for path in PACKAGE.rglob("*.py"):
        stage = _stage(path)
        if stage in PROGRAMS or stage == "__init__" or path.stem == "__main__":
            continue
        earlier = STAGES[: STAGES.index(stage) + 1]
        assert _imports(path) <= set(earlier), f"{path} imports {_imports(path) - set(earlier)}"


def test_only_programs_know_flags():
    for path in PACKAGE.rglob("*.py"):
        if _stage(path) not in {*PROGRAMS, "entry", "flags"} and path.stem not in _READERS:
            assert "flags.FLAGS" not in path.read_text(), path


def test_every_test_stands_beside_its_code():
    tests = pathlib.Path(__file__).parent
    for path in tests.rglob("test_*.py"):
        place = path.parent.relative_to(tests)
        code = PACKAGE / place / path.name.removeprefix("test_")
        not_one_module = {
            "reference",
            "test_bad_inputs.py",
            "test_client.py",
            "test_docker_compose.py",
            "test_install.py",
            "test_kills.py",
            "test_layout.py",
            "test_model_garden.py",
            "test_remote.py",
        }
        assert not_one_module & set(path.relative_to(tests).parts) or code.exists(), path
