"""Text modules of TF-Hub: of its first format, and SavedModels of TensorFlow 2."""

import hashlib
import os
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from adapter_bert_tf.base.checkpoint import UNREADABLE
from adapter_bert_tf.base.hub import import_hub
from adapter_bert_tf.base.presets import refuse_http
from adapter_bert_tf.baseline.modules import HUB_MODULES
from adapter_bert_tf.baseline.text_module import TextModule
from adapter_bert_tf.errors import UserError, first_line, quiet
from adapter_bert_tf.files import exists, file_digest, list_folder

_SIGNATURE, _OUTPUT = "default", "default"
_EXAMPLES = ("A text to start with.", "")


class HubModule(TextModule):
    """A module that takes a batch of strings and returns a vector for each.

    Args:
      name: A short name, a handle, or the folder of a SavedModel.
    """

    def __init__(self, name: str):
        super().__init__(name)
        self._folder = _folder_of(name)
        # Of the first format it takes the graph without dropout, which can be trained as well.
        self._loaded = _call_hub(name, import_hub().load, self._folder)
        self._function = _function_of(self._loaded, name)
        try:
            example = self.embed(tf.constant(_EXAMPLES))
        except (TypeError, ValueError, tf.errors.OpError) as error:
            raise _no_text_module(name, first_line(error)) from None
        if example.shape.rank != 2 or not example.dtype.is_floating:
            raise _no_text_module(name, f"it returns {example.dtype.name} {example.shape}")
        self.width = int(example.shape[1])

    @property
    def fingerprint(self) -> str:
        return _digest(self._folder)

    def tracked(self) -> list:
        return [self._loaded]

    def embed(self, texts: tf.Tensor) -> tf.Tensor:
        output = self._function(texts)
        if isinstance(output, dict):
            output = output.get(_OUTPUT, next(iter(output.values())))
        return tf.convert_to_tensor(output)

    def tuned(self) -> list[tf.Variable]:
        found = [each for each in _variables_of(self._loaded) if each.dtype.is_floating]
        if not found:
            raise UserError(
                f"{self.origin}: can't be fine-tuned: TensorFlow 2 can't train the variables of "
                "its format; narrow the space with fine_tune=no"
            )
        return found


def fingerprint_of(name: str) -> str:
    """Identifies a module by its files, without loading it: that would run its graph."""
    return _digest(_folder_of(name))


def _folder_of(name: str) -> str:
    """Returns the folder of a module, which is fetched if it is not on this machine."""
    refuse_http(name)
    return _call_hub(name, import_hub().resolve, HUB_MODULES.get(name, name))


def _digest(folder: str) -> str:
    variables = os.path.join(folder, "variables")
    data = [each for each in list_folder(variables) if each.startswith("variables.data")]
    paths = (
        os.path.join(folder, "saved_model.pb"),
        *(os.path.join(variables, each) for each in data),
    )
    digest = hashlib.sha256()
    for path in filter(exists, paths):
        digest.update(bytes.fromhex(file_digest(path)))
    return digest.hexdigest()


def _call_hub(name: str, call: Callable[[str], Any], handle: str) -> Any:
    try:
        with quiet():
            return call(handle)
    except UNREADABLE as error:
        raise UserError(f"{name}: can't be loaded from TF-Hub: {first_line(error)}") from None


def _variables_of(loaded) -> list[tf.Variable]:
    """Returns the variables that a module lists, those that are trained if it says them."""
    # First-format modules don't mark those that are trained, and plain SavedModels list none.
    for each in ("trainable_variables", "variables"):
        if hasattr(loaded, each):
            return list(getattr(loaded, each))
    return list(loaded.__call__.concrete_functions[0].variables)


def _function_of(loaded, name: str):
    if callable(loaded):
        return loaded
    signatures = getattr(loaded, "signatures", {})
    for each in (_SIGNATURE, "serving_default"):
        if each in signatures:
            return signatures[each]
    raise _no_text_module(name, "it has no signature called default")


def _no_text_module(name: str, reason: str) -> UserError:
    return UserError(
        f"{name}: no text module, which takes strings and returns a vector for each: {reason}"
    )
