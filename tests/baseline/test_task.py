import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

import adapter_bert_tf as ab
from adapter_bert_tf import UserError
from adapter_bert_tf.baseline.space import Design
from adapter_bert_tf.run.baseline import run_baseline
from adapter_bert_tf.run.settings import ClassifierSettings, make_settings
from tests.baseline import made


@pytest.fixture(scope="session")
def files(tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("data")
    return {
        "train_file": made.write_csv(folder / "train.csv", 96, 0),
        "dev_file": made.write_csv(folder / "dev.csv", 40, 1),
        "cache_dir": str(folder / "cache"),
    }


def tune(files, folder, **choices) -> str:
    settings = make_settings(ClassifierSettings, {**files, "output_dir": str(folder)})
    rates = {"deep_rate": 0.1, "wide_rate": 0.05}
    assert run_baseline(settings, Design(**{**rates, **choices}))
    return str(pathlib.Path(folder, "pack"))


@pytest.mark.parametrize(
    "choices",
    [
        {"module": "glove", "hidden_layers": 1, "hidden_norm": "batch"},
        {"module": "glove", "fine_tune": True},
        {"module": "glove", "fine_tune": True, "convolution": True},
        {"module": "second_format", "fine_tune": True},
        {"module": "first_format", "convolution": True, "convolution_batch_norm": True},
    ],
)
def test_what_was_found_is_loaded_and_answers_as_it_was_scored(
    files, tmp_path, small_glove, request, choices
):
    if choices["module"] != "glove":
        choices = {**choices, "module": request.getfixturevalue(choices["module"])}
    pack = tune(files, tmp_path, **choices)
    task = ab.load_task(pack, trust_module=True)
    assert task.labels == ("no", "yes")
    assert task.metrics["accuracy"] > 0.8
    assert task.evaluate(files["dev_file"]) == pytest.approx(task.metrics)
    texts = [made.NO, "", made.YES, "unheard of"]
    answers = task.predict(texts)
    assert [answers[0].label, answers[2].label] == ["no", "yes"]
    alone = [task.predict([text])[0].score for text in texts]
    np.testing.assert_allclose([each.score for each in answers], alone, rtol=1e-5)
    with pytest.raises(UserError, match="takes no second texts"):
        task.predict(["a"], ["b"])


def test_a_pack_belongs_to_its_module_and_to_no_bert(files, tmp_path, small_glove, bert):
    pack = tune(files, tmp_path / "run", module="glove")
    with pytest.raises(UserError, match="a baseline without BERT"):
        ab.load_task(pack, bert=bert)
    with pytest.raises(UserError, match="a baseline without BERT"):
        ab.load_pack(ab.load_encoder(bert), pack)
    with pytest.raises(UserError, match="a baseline without BERT"):
        ab.suite_cost([pack])
    path = pathlib.Path(pack, "pack.json")
    raw = json.loads(path.read_text())
    for change, told in (
        ({"base": {"origin": "glove", "fingerprint": "0" * 64}}, "was trained on another glove"),
        ({"baseline": {**raw["baseline"], "filters": 10**9}}, "filters=1000000000: expected"),
        ({"baseline": {"layers": 1}}, "not a baseline"),
        ({"baseline": {**raw["baseline"], "hidden_layers": 2}}, "does not fit its design"),
    ):
        path.write_text(json.dumps({**raw, **change}))
        with pytest.raises(UserError, match=told):
            ab.load_task(pack)


class _Writer(tf.Module):
    """A text module that leaves a mark when it is called."""

    def __init__(self, path):
        super().__init__()
        self._path = str(path)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def __call__(self, texts):
        tf.io.write_file(self._path, "ran")
        return tf.zeros([tf.shape(texts)[0], made.WIDTH])


def test_a_pack_runs_no_module_that_nobody_trusts_and_none_that_is_not_its_own(
    files, tmp_path, small_glove
):
    pack = tune(files, tmp_path / "run", module="glove")
    module, mark = tmp_path / "module", tmp_path / "mark"
    tf.saved_model.save(_Writer(mark), str(module))
    path = pathlib.Path(pack, "pack.json")
    raw = json.loads(path.read_text())
    path.write_text(json.dumps({**raw, "baseline": {**raw["baseline"], "module": str(module)}}))
    for told, load in (
        ("runs code; if you trust it, give --trust_module", ab.load_task),
        ("runs code", lambda pack: ab.export(pack, str(tmp_path / "model"))),
        ("trained on another", lambda pack: ab.load_task(pack, trust_module=True)),
    ):
        with pytest.raises(UserError, match=told):
            load(pack)
    assert not mark.exists()
