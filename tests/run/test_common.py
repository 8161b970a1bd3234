import types

import pytest
import tensorflow as tf

from adapter_bert_tf import ClassificationHead, TaskModel, UserError, load_encoder
from adapter_bert_tf.run.common import check_rows, identify
from adapter_bert_tf.run.settings import ClassifierSettings, make_settings
from adapter_bert_tf.text.inputs import IDS, SEGMENTS
from tests import tiny


def test_what_was_fetched_is_named_with_its_digest(bert):
    model = TaskModel(load_encoder(bert), ClassificationHead(2))
    settings = make_settings(ClassifierSettings, {"task": "CoLA", "bert": bert})
    assert not [name for name in identify(settings, model, {})["digests"] if "from" in name]
    model.encoder.base.fetched["https://example.com/bert"] = "0" * 64
    digests = identify(settings, model, {})["digests"]
    assert digests["files from https://example.com/bert"] == "0" * 64


@pytest.mark.parametrize(
    ("ids", "segments", "told"),
    [
        ([2, tiny.WORDS, 3], [0, 0, 0], "token ids beyond the base's vocabulary; expected 0 to 49"),
        ([2, -1, 3], [0, 0, 0], "token ids beyond"),
        ([2, 5, 3], [0, 2, 0], "unknown segments; expected 0 to 1"),
        ([2, 5, 3], [0, -1, 0], "unknown segments"),
        ([2] * 9, [0] * 9, "a row has 9 tokens, more than --max_seq_length"),
    ],
)
def test_rows_that_the_base_does_not_know_are_refused(ids, segments, told):
    sizes = types.SimpleNamespace(vocab_size=tiny.WORDS, type_vocab_size=2)
    columns = {IDS: tf.ragged.constant([ids]), SEGMENTS: tf.ragged.constant([segments])}
    with pytest.raises(UserError, match=told):
        check_rows("a.tfrecord", columns, 8, types.SimpleNamespace(config=sizes))
