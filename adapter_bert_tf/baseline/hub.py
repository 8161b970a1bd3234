"""Text modules of TF-Hub: of its first format, and SavedModels of TensorFlow 2."""

import glob
import hashlib
import os
from typing import Any

import tensorflow as tf

from adapter_bert_tf.base.checkpoint import UNREADABLE
from adapter_bert_tf.base.hub import import_hub
from adapter_bert_tf.baseline.modules import HUB_MODULES
from adapter_bert_tf.baseline.text_module import TextModule
from adapter_bert_tf.errors import UserError, first_line, quiet

_SIGNATURE, _OUTPUT = "default", "default"
_EXAMPLES = ("A text to start with.", "")


class HubModule(TextModule):
    """A module that takes a batch of strings and returns a vector for each.

    Args:
      name: A short name, a handle, or the folder of a SavedModel.
    """

    def __init__(self, name: str):
        super().__init__(name)
        self._folder, self._loaded = _load(name, HUB_MODULES.get(name, name))
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
        digest = hashlib.sha256()
        for part in ("saved_model.pb", "variables/variables.data*"):
            for path in sorted(glob.glob(os.path.join(glob.escape(self._folder), part))):
                with open(path, "rb") as file:
                    digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()

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


def _load(name: str, handle: str) -> tuple[str, Any]:
    """Returns the folder of a module, and the module."""
    hub = import_hub()
    try:
        # Of the first format it takes the graph without dropout, which can be trained as well.
        with quiet():
            return hub.resolve(handle), hub.load(handle)
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
