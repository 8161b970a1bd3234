"""Model Garden's own tests of its encoder and its Transformer layer, run on our classes."""

import importlib.util
import types
import unittest.mock

import pytest
from official.nlp.modeling.layers import transformer_encoder_block
from official.nlp.modeling.networks import bert_encoder

from adapter_bert_tf.encoder import fast
from adapter_bert_tf.encoder.block import AdapterEncoderBlock
from adapter_bert_tf.encoder.encoder import AdapterBertEncoder


def _tests_of(module: str, library: types.ModuleType, **ours) -> types.ModuleType:
    """Imports a test module of Model Garden in which our classes stand for the library's."""
    spec = importlib.util.find_spec(module)
    tests = importlib.util.module_from_spec(spec)
    with unittest.mock.patch.multiple(library, **ours):
        spec.loader.exec_module(tests)
    return tests


class TransformerEncoderBlock(AdapterEncoderBlock):
    """Ours, by a name that one of the tests looks for in a graph."""


_block = _tests_of(
    "official.nlp.modeling.layers.transformer_encoder_block_test",
    transformer_encoder_block,
    TransformerEncoderBlock=TransformerEncoderBlock,
)
_encoder = _tests_of(
    "official.nlp.modeling.networks.bert_encoder_test",
    bert_encoder,
    BertEncoderV2=AdapterBertEncoder,
)
# These tests look the class up while they run.
_encoder.bert_encoder = types.SimpleNamespace(
    BertEncoder=bert_encoder.BertEncoder, BertEncoderV2=AdapterBertEncoder
)


def _in_form(tests: type, on: bool) -> type:
    """Returns a test class whose layers are made with the fast form on or off."""

    class InForm(tests):
        def setUp(self):
            super().setUp()
            self.enter_context(fast.switched(on))

    return InForm


_CLASSES = {
    "Block": _block.TransformerEncoderBlockLayerTest,
    "BlockWithoutParams": _block.TransformerEncoderBlockLayerTestWithoutParams,
    "Arguments": _block.TransformerArgumentTest,
    "Encoder": _encoder.BertEncoderTest,
    "Compatibility": _encoder.BertEncoderV2CompatibilityTest,
}
for _name, _class in _CLASSES.items():
    globals()[f"Test{_name}Fast"] = _in_form(_class, on=True)
    globals()[f"Test{_name}Plain"] = pytest.mark.slow(_in_form(_class, on=False))
del _class
