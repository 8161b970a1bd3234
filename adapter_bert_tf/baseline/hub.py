"""Text modules of TF-Hub: of its first format, and SavedModels of TensorFlow 2."""

import hashlib

import tensorflow as tf

from adapter_bert_tf.base.checkpoint import UNREADABLE
from adapter_bert_tf.baseline.modules import HUB_MODULES
from adapter_bert_tf.baseline.text_module import TextModule
from adapter_bert_tf.errors import UserError, first_line

_SIGNATURE, _OUTPUT = "default", "default"
_EXAMPLES = ("A text to start with.", "")


class HubModule(TextModule):
    """A module that takes a batch of strings and returns a vector for each.

    Args:
      name: A short name, a handle, or the folder of a SavedModel.
    """

    def __init__(self, name: str):
        super().__init__(name)
        self._loaded = _load(name, HUB_MODULES.get(name, name))
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
        for variable in self._loaded.variables:
            digest.update(variable.numpy().tobytes())
        return digest.hexdigest()

    def embed(self, texts: tf.Tensor) -> tf.Tensor:
        output = self._function(texts)
        if isinstance(output, dict):
            output = output.get(_OUTPUT, next(iter(output.values())))
        return tf.convert_to_tensor(output)

    def tuned(self) -> list[tf.Variable]:
        # First-format modules don't mark them: all that are floats are trained.
        marked = getattr(self._loaded, "trainable_variables", None)
        found = self._loaded.variables if marked is None else marked
        return [each for each in found if each.dtype.is_floating]


def _load(name: str, handle: str):
    # Imported here because no other module needs it.
    import tensorflow_hub as hub

    try:
        # Of the first format it takes the graph without dropout, which can be trained as well.
        return hub.load(handle)
    except UNREADABLE as error:
        raise UserError(f"{name}: can't be loaded from TF-Hub: {first_line(error)}") from None


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
