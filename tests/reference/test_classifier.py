"""Against numbers that the original program made."""

import pathlib

import numpy as np
import pytest

from adapter_bert_tf import TaskModel, create_optimizer, load_encoder
from adapter_bert_tf.base.checkpoint import TfCheckpoint
from adapter_bert_tf.base.names import adapter_bert_names
from adapter_bert_tf.heads.classification import ClassificationHead
from adapter_bert_tf.pack.original import find_adapter

LEARNING_RATE, STEPS, WARMUP = 3e-3, 40, 10
FOLDER = pathlib.Path(__file__).parent / "classifier"


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(FOLDER / "golden.npz") as file:
        return dict(file)


@pytest.fixture
def model() -> TaskModel:
    checkpoint = TfCheckpoint(str(FOLDER / "adapter_bert.ckpt"))
    encoder = load_encoder(checkpoint.prefix, find_adapter(checkpoint))
    weights = checkpoint.read("output_weights")
    model = TaskModel(encoder, ClassificationHead(len(weights), dropout=0.0))
    model.head.output_layer.set_weights([weights.T, checkpoint.read("output_bias")])
    return model


def _inputs(golden, rows=slice(None)):
    return {
        "input_word_ids": golden["input_ids"][rows],
        "input_mask": golden["input_mask"][rows],
        "input_type_ids": golden["segment_ids"][rows],
    }


def test_every_output_is_the_originals(model, golden):
    model.encoder._config["return_word_embeddings"] = True
    outputs = model.encoder(_inputs(golden))
    np.testing.assert_allclose(outputs["word_embeddings"], golden["embedding_output"], atol=1e-5)
    for i, output in enumerate(outputs["encoder_outputs"]):
        np.testing.assert_allclose(output, golden[f"layer_{i}"], atol=1e-5)
    np.testing.assert_allclose(outputs["pooled_output"], golden["pooled_output"], atol=1e-5)
    np.testing.assert_allclose(model(_inputs(golden)), golden["logits"], atol=1e-5)


def test_training_is_the_originals(model, golden):
    paths = adapter_bert_names(model.encoder.num_layers) | {
        "output_weights": "head/output/kernel",
        "output_bias": "head/output/bias",
    }
    variables = model.variables_by_path()
    before = {path: variable.numpy() for path, variable in variables.items()}
    model.compile(optimizer=create_optimizer(LEARNING_RATE, STEPS, WARMUP), loss=model.head.loss)
    losses = [
        model.train_on_batch(_inputs(golden, rows), golden["label_ids"][rows])
        for rows in golden["train_batches"]
    ]
    np.testing.assert_allclose(losses, golden["train_losses"], atol=1e-4)
    np.testing.assert_allclose(model(_inputs(golden)), golden["final_logits"], atol=1e-4)
    trained = {paths[name] for name in golden["trained_names"]}
    assert model.tuning.trained(variables) == trained
    for name, path in paths.items():
        value = variables[path].numpy()
        if path not in trained:
            np.testing.assert_array_equal(value, before[path], err_msg=name)
        final = golden[f"final/{name}"]
        expected = final.T if name == "output_weights" else final.reshape(value.shape)
        np.testing.assert_allclose(value, expected, atol=1e-4, err_msg=name)
