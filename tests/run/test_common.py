"""Models of runs."""

import pytest
import tensorflow as tf

from adapter_bert_tf.heads.classification import ClassificationHead
from adapter_bert_tf.run.common import make_model
from adapter_bert_tf.run.settings import ClassifierSettings, make_settings
from adapter_bert_tf.tuning.methods import Tuning
from tests.serve.tasks import make_pack


def _adapted(bert, **values) -> tuple[int, ...] | None:
    settings = make_settings(ClassifierSettings, {"task": "CoLA", "bert": bert, **values})
    strategy = tf.distribute.get_strategy()
    return make_model(settings, ClassificationHead, ("0", "1"), strategy).encoder.adapter.layers


@pytest.mark.parametrize(
    ("flags", "layers"),
    [
        ({}, None),
        ({"from_layer": 2}, (2,)),
        ({"adapter_layers": (0, 2), "from_layer": 1}, (2,)),
        ({"adapter_layers": (1, 2)}, (1, 2)),
    ],
)
def test_below_what_is_trained_a_new_run_has_no_adapters(bert, flags, layers):
    assert _adapted(bert, **flags) == layers


def test_a_pack_keeps_the_adapters_that_it_has(bert, tmp_path):
    pack = make_pack(bert, tmp_path / "pack", tuning=Tuning(from_layer=2), max_seq_length=24)
    assert _adapted(bert, pack=pack, from_layer=2, adapter_size=4) is None
