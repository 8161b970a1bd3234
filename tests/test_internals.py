"""Private attributes of other libraries are touched in internals.py only."""

import ast
import pathlib
import random

import numpy as np
import pytest
import tf_keras

from adapter_bert_tf import internals

PACKAGE = pathlib.Path(__file__).parents[1] / "adapter_bert_tf"
MODULES = [path for path in PACKAGE.rglob("*.py") if path.name != "internals.py"]


# What Python documents of named tuples.
DOCUMENTED = {"_asdict", "_fields", "_replace"}


def _is_private(name: str) -> bool:
    if name in DOCUMENTED:
        return False
    return name.startswith("_") and not name.startswith("__")


def _ours(tree: ast.AST) -> set[str]:
    """Names that a module defines itself: functions, and attributes that it sets or declares."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_internals_touches_private_attributes_of_others(path):
    tree = ast.parse(path.read_text())
    touched = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and _is_private(node.attr)
    }
    assert touched <= _ours(tree)


def test_every_function_of_internals_says_what_it_is_for():
    tree = ast.parse((PACKAGE / "internals.py").read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert functions
    assert all(ast.get_docstring(node) for node in functions)


def test_keras_is_seeded_as_by_itself():
    drawn = []
    for seed in (tf_keras.utils.set_random_seed, internals.seed_keras):
        seed(3)
        made = tf_keras.initializers.TruncatedNormal()([4])
        drawn.append((random.random(), np.random.random(), *made.numpy()))
    assert drawn[0] == drawn[1]
