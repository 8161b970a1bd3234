"""What each of the 21 choices changes, and the paper's 17 best models."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from adapter_bert_tf.baseline.best import BEST
from adapter_bert_tf.baseline.features import Features
from adapter_bert_tf.baseline.model import EMBEDDED, WIDE, BaselineModel
from adapter_bert_tf.baseline.space import SPACE, Design
from adapter_bert_tf.baseline.train import BATCH, Training
from adapter_bert_tf.heads.classification import ClassificationHead
from tests.baseline import made

HEAD = ClassificationHead(2)


@pytest.fixture(scope="module")
def features(tmp_path_factory) -> Features:
    texts = {"train": made.texts_and_labels(96)[0], "dev": made.texts_and_labels(40, seed=1)[0]}
    return Features(texts, str(tmp_path_factory.mktemp("cache")))


LABELS = {"train": made.texts_and_labels(96)[1], "dev": made.texts_and_labels(40)[1]}


class Made:
    """A design, built: one step and what it did."""

    def __init__(self, features: Features, design: Design):
        tf.keras.utils.set_random_seed(0)
        self.prepared = features.prepare(design)
        self.model = BaselineModel(design, 2, len(self.prepared.vocabulary))
        self.training = Training(self.model, HEAD, self.prepared, LABELS, "accuracy", seed=0)
        self.reader = self.training._reader
        self.inputs = self.reader("train", tf.range(8))

    def step(self) -> dict[str, np.ndarray]:
        """Does a step, and returns by how much each variable moved."""
        names = [*self.model.variables_by_path(), "module"]
        held = [*self.model.variables_by_path().values(), *self.reader.trained]
        before = [each.numpy() for each in held]
        assert np.isfinite(self.training._steps(np.arange(64, dtype=np.int32)[None]))
        after = [each.numpy() for each in held]
        return {n: abs(a - b).max() for n, a, b in zip(names, after, before, strict=False)}

    def outputs(self, training: bool) -> np.ndarray:
        return self.model(self.inputs, training=training).numpy()

    def shapes(self) -> dict[str, tuple]:
        return {name: tuple(each.shape) for name, each in self.model.variables_by_path().items()}


@pytest.fixture
def make(features, small_glove, first_format, second_format):
    def make(**choices) -> Made:
        return Made(features, Design(**{"module": "glove", "lower_case": False, **choices}))

    return make


def test_module(make, second_format):
    assert not np.allclose(make().inputs[EMBEDDED], make(module=second_format).inputs[EMBEDDED])


@pytest.mark.parametrize("convolution", [False, True])
@pytest.mark.parametrize("module", ["glove", "first_format", "second_format"])
def test_fine_tune(make, module, convolution, request):
    if module != "glove":
        module = request.getfixturevalue(module)
    frozen = make(module=module, convolution=convolution)
    assert "module" not in frozen.step()
    tuned = make(module=module, convolution=convolution, fine_tune=True)
    np.testing.assert_allclose(tuned.inputs[EMBEDDED], frozen.inputs[EMBEDDED], rtol=1e-5)
    with tuned.prepared.module.kept():
        assert tuned.step()["module"] > 0


def test_lower_case(make):
    cased, lower = make(), make(lower_case=True)
    assert len(lower.prepared.vocabulary) < len(cased.prepared.vocabulary) + 1
    assert set(lower.prepared.vocabulary) != set(cased.prepared.vocabulary)


def test_letters_only(make):
    marked, plain = make(), make(letters_only=True)
    assert not np.allclose(marked.inputs[EMBEDDED], plain.inputs[EMBEDDED])  # The word "!" is gone.
    assert set(marked.prepared.vocabulary) != set(plain.prepared.vocabulary)


def test_convolution(make):
    assert not any("convolution" in name for name in make().shapes())
    found = make(convolution=True, filters=50, longest_ngram=2)
    assert found.shapes()["convolution/kernel"] == (2 * made.WIDTH, 50)
    assert found.shapes()["output/kernel"] == (50, 2)
    assert found.step()["convolution/kernel"] > 0


def _with_weights(one: Made, other: Made) -> None:
    for path, variable in other.model.variables_by_path().items():
        variable.assign(one.model.variables_by_path()[path])


@pytest.mark.parametrize("choice", ["convolution_activation", "hidden_activation"])
def test_activations(make, choice):
    found = []
    first = None
    for activation in SPACE[choice]:
        each = make(convolution=True, hidden_layers=1, **{choice: activation})
        first = first or each
        _with_weights(first, each)
        each.inputs = {**first.inputs, EMBEDDED: first.inputs[EMBEDDED] * 5}
        found.append(each.outputs(training=False))
    for i, one in enumerate(found):
        assert not any(np.allclose(one, other) for other in found[:i])


def test_convolution_batch_norm(make):
    assert "convolution_norm/gamma" not in make(convolution=True).shapes()
    found = make(convolution=True, convolution_batch_norm=True)
    assert found.step()["convolution_norm/moving_mean"] > 0


def test_longest_ngram(make):
    for longest in SPACE["longest_ngram"]:
        shapes = make(convolution=True, longest_ngram=longest).shapes()
        assert shapes["convolution/kernel"][0] == longest * made.WIDTH


def _is_random(made_: Made) -> bool:
    return not np.allclose(made_.outputs(training=True), made_.outputs(training=False))


@pytest.mark.parametrize("choice", ["convolution_dropout", "embedding_dropout", "hidden_dropout"])
def test_dropouts(make, choice):
    others = {"convolution": choice == "convolution_dropout", "hidden_layers": 1}
    assert not _is_random(make(**others))
    assert _is_random(make(**others, **{choice: 0.4}))


def test_filters(make):
    assert make(convolution=True, filters=77).shapes()["convolution/kernel"][1] == 77


def test_hidden_layers_and_their_size(make):
    for count in SPACE["hidden_layers"]:
        shapes = make(hidden_layers=count, hidden_size=128).shapes()
        assert sum(name.endswith("/kernel") for name in shapes) == count + 2
    assert make(hidden_layers=1, hidden_size=256).shapes()["hidden_1/kernel"] == (made.WIDTH, 256)


def test_hidden_norm(make):
    names = {
        norm: set(make(hidden_layers=1, hidden_norm=norm).shapes()) for norm in SPACE["hidden_norm"]
    }
    assert names["layer"] - names["none"] == {"hidden_norm_1/gamma", "hidden_norm_1/beta"}
    assert "hidden_norm_1/moving_mean" in names["batch"]


def test_rates_are_those_of_the_two_parts(make):
    slow, deep, wide = make(), make(deep_rate=0.1), make(wide_rate=0.1)
    moved, moved_deep, moved_wide = slow.step(), deep.step(), wide.step()
    for path, moves, others in (
        ("output/kernel", moved_deep, moved_wide),
        ("wide/kernel", moved_wide, moved_deep),
    ):
        assert moves[path] == pytest.approx(100 * moved[path], rel=0.05)
        assert others[path] == pytest.approx(moved[path], rel=1e-3)


def _penalty(found: "Made") -> float:
    features = found.inputs[WIDE]
    used, _, uses = tf.unique_with_counts(features.flat_values)
    weights = tf.gather(found.model.wide, used)
    return float(found.model.penalty(weights, uses, features.nrows()))


@pytest.mark.parametrize(
    ("choice", "path"),
    [("deep_regularization", "output/kernel"), ("wide_regularization", "wide/kernel")],
)
def test_regularizations_are_of_the_two_parts(make, choice, path):
    found = make(**{choice: 0.01})
    variables = found.model.variables_by_path()
    variables["output/kernel"].assign(tf.zeros_like(variables["output/kernel"]))
    assert _penalty(found) == 0
    variables[path].assign(tf.ones_like(variables[path]))
    features = found.inputs[WIDE]
    squares = 2 * (made.WIDTH if path == "output/kernel" else len(features.flat_values) / 8)
    assert _penalty(found) == pytest.approx(0.01 * squares)
    assert _penalty(make()) == 0


def test_samples(make):
    for samples in SPACE["samples"][:2]:
        training = make(samples=samples).training
        steps = sum(len(batches) for batches in training._batches())
        assert steps == samples // min(BATCH, 96)


def test_every_choice_has_a_test():
    text = open(__file__).read()
    assert all(name in text for name in SPACE)


@pytest.mark.parametrize("task", list(BEST))
def test_the_papers_best_models_are_built_and_train(task, features, first_format, second_format):
    # Two of the paper's modules are of the kind that gives a vector for each word.
    module = {"use": second_format}.get(BEST[task].module, first_format)
    found = Made(features, dataclasses.replace(BEST[task], module=module))
    with found.prepared.module.kept():
        moved = found.step()
    assert moved["output/kernel"] > 0
    assert moved["wide/kernel"] > 0
    assert ("module" in moved) == BEST[task].fine_tune


def test_a_training_learns_and_keeps_its_best_pass(make):
    watched = []
    found = make(deep_rate=0.1, wide_rate=0.1, hidden_layers=1)
    trained = found.training.run(lambda number, value: watched.append(value), lambda: False)
    assert max(watched) > 0.9
    predicted = trained.outputs.argmax(axis=-1)
    assert (predicted == LABELS["dev"]).mean() == max(watched)
    assert trained.values.keys() == found.model.variables_by_path().keys()


def test_a_training_can_be_stopped_and_repeated(make):
    assert make().training.run(lambda *_: None, lambda: True) is None
    values = [
        make(deep_rate=0.1, hidden_layers=1, hidden_dropout=0.2, samples=100_000)
        .training.run(lambda *_: None, lambda: False)
        .values
        for _ in range(2)
    ]
    for path, value in values[0].items():
        np.testing.assert_array_equal(value, values[1][path])
