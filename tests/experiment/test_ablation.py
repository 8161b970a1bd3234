import csv
import itertools
import types

import numpy as np
import pytest
import tensorflow as tf

from adapter_bert_tf import (
    AdapterConfig,
    ClassificationHead,
    RegressionHead,
    SpanHead,
    Task,
    TaskModel,
    Tuning,
    load_encoder,
)
from adapter_bert_tf.data.batches import Batches
from adapter_bert_tf.encoder import fast
from adapter_bert_tf.encoder.block import AdapterEncoderBlock
from adapter_bert_tf.encoder.variables import is_adapter, layer_of
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.experiment import ablation
from adapter_bert_tf.experiment.ablation import Span, ablate, span_outputs, write_ablation
from adapter_bert_tf.tuning.outputs import compute_outputs
from tests import tiny

SPANS = [span for span in itertools.product(range(tiny.LAYERS), repeat=2) if span[0] <= span[1]]
ROWS = 7
INPUTS = {"max_seq_length": 16}


def _tuned(bert, head=None, **design):
    """A model whose variables are all as far from their start as after a long training."""
    model = TaskModel(
        load_encoder(bert, AdapterConfig(size=4, **design)), head or ClassificationHead(3)
    )
    random = np.random.default_rng(3)
    for path, variable in model.variables_by_path().items():
        if path in model.tuning.trained(model.variables_by_path()):
            variable.assign_add(random.normal(scale=0.3, size=variable.shape).astype(np.float32))
    return model


def _batches(labels=None, **changes):
    given = tiny.inputs(ROWS)
    sizes = given["input_mask"].sum(1)
    columns = {
        name: tf.RaggedTensor.from_tensor(tf.constant(given[name]), sizes)
        for name in ("input_word_ids", "input_type_ids")
    }
    columns["labels"] = tf.constant(np.arange(ROWS) % 3 if labels is None else labels)
    return Batches(columns, batch_size=3, lengths=[6, 8, 10], **changes)


def _is_up(path, span):
    is_up = is_adapter(path) and "/up/" in path
    return is_up and span is not None and span[0] <= layer_of(path) <= span[1]


def _outputs_with_zeros(model, span, batches):
    """What the model says while the adapters in the span add nothing."""
    variables = model.variables_by_path()
    zeroed = [variables[path] for path in variables if _is_up(path, span)]
    before = [variable.numpy() for variable in zeroed]
    for variable in zeroed:
        variable.assign(tf.zeros_like(variable))
    outputs = compute_outputs(model, batches)
    for variable, value in zip(zeroed, before, strict=True):
        variable.assign(value)
    return outputs


def _without(bert, model, span):
    """The same model, made without adapters in the span; its other layers are the model's."""
    inside = set(range(span[0], span[1] + 1))
    kept = [layer for layer in range(tiny.LAYERS) if layer not in inside]
    design = {**model.encoder.adapter.to_dict(), "layers": kept}
    adapter = AdapterConfig(**design) if kept else None
    tuning = Tuning() if kept else Tuning("head")
    other = TaskModel(
        load_encoder(bert, adapter), type(model.head)(**model.head.settings()), tuning
    )
    given = model.variables_by_path()
    for path, variable in other.variables_by_path().items():
        variable.assign(given[path])
    return other


def _check(outputs, expected):
    np.testing.assert_allclose(outputs, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("head", [ClassificationHead(3), RegressionHead()], ids=lambda h: h.kind)
def test_a_span_is_the_model_with_zeros_there(bert, head):
    model, batches = _tuned(bert, head), _batches()
    outputs = span_outputs(model, batches)
    assert set(outputs) == {*SPANS, None}
    for span in outputs:
        _check(outputs[span], _outputs_with_zeros(model, span, batches))
    # Every span says something else: none was computed in place of another.
    for one, other in itertools.combinations(outputs.values(), 2):
        assert np.abs(one - other).max() > 1e-3


@pytest.mark.parametrize(
    "design",
    [
        {"parallel": True},
        pytest.param({"multiplicative": True, "layer_norm": True}, marks=pytest.mark.slow),
        pytest.param(
            {"parallel": True, "layer_norm": True, "sites": ("feed_forward",)},
            marks=pytest.mark.slow,
        ),
    ],
    ids=str,
)
def test_a_span_is_a_model_made_without_adapters_there(bert, design):
    model, batches = _tuned(bert, **design), _batches()
    outputs = span_outputs(model, batches)
    for span in [(0, 0), (1, 2), (0, 2)]:
        _check(outputs[span], compute_outputs(_without(bert, model, span), batches))
    _check(outputs[None], compute_outputs(model, batches))


def test_layers_without_adapters_have_nothing_to_take_out(bert):
    outputs = span_outputs(_tuned(bert, layers=(1,)), _batches())
    for first, last in SPANS:
        expected = outputs[1, 1] if first <= 1 <= last else outputs[None]
        assert np.array_equal(outputs[first, last], expected)
    assert np.abs(outputs[1, 1] - outputs[None]).max() > 1e-3


def test_all_layers_are_the_base_with_the_tuned_layer_norms_and_head(bert):
    model, batches = _tuned(bert), _batches()
    plain = _without(bert, model, (0, tiny.LAYERS - 1))
    assert plain.encoder.adapter is None
    outputs = span_outputs(model, batches)
    _check(outputs[0, tiny.LAYERS - 1], compute_outputs(plain, batches))


def test_layers_of_keras_give_the_same(bert):
    with fast.switched(False):
        model, batches = _tuned(bert), _batches()
        outputs = span_outputs(model, batches)
        _check(outputs[1, 2], _outputs_with_zeros(model, (1, 2), batches))
    _check(outputs[None], compute_outputs(model, batches))


@pytest.mark.parametrize("parallel", [False, True])
def test_the_model_stays_as_it_was(bert, parallel):
    model, batches = _tuned(bert, parallel=parallel), _batches()
    before = compute_outputs(model, batches)
    variables, layers = model.variables_by_path(), list(model.submodules)
    span_outputs(model, batches)
    model.set_head(model.head)  # Forgets the graph.
    assert np.array_equal(compute_outputs(model, batches), before)
    after = model.variables_by_path()
    assert list(after) == list(variables)
    assert all(after[path] is variable for path, variable in variables.items())
    assert [id(each) for each in model.submodules] == [id(each) for each in layers]


def test_batches_of_one_size_give_the_same(bert):
    model = _tuned(bert)
    outputs = span_outputs(model, _batches())
    filled = span_outputs(model, _batches(fixed_rows=True))
    for span, expected in outputs.items():
        assert len(filled[span]) == ROWS
        _check(filled[span], expected)


def test_each_layer_is_traced_twice_whatever_the_batches(bert, monkeypatch):
    calls, call = [], AdapterEncoderBlock.call
    model = _tuned(bert)

    def count(block, inputs, output_range=None):
        calls.append((block.name, output_range))
        return call(block, inputs, output_range)

    for block in model.encoder.transformer_layers:
        monkeypatch.setattr(block, "call", types.MethodType(count, block))
    span_outputs(model, _batches())
    read = [None] * (tiny.LAYERS - 1) + [model.head.tokens_read]
    names = [block.name for block in model.encoder.transformer_layers]
    assert calls == [each for each in zip(names, read, strict=True) for _ in range(2)]


def test_what_lies_below_a_span_is_computed_once(bert, monkeypatch):
    computed, graph = [], ablation._graph

    def counted(function, *signature):
        concrete, number = graph(function, *signature), len(stages)
        stages.append(concrete)

        def call(*args):
            computed.append(number)
            return concrete(*args)

        call.structured_outputs = concrete.structured_outputs
        return call

    stages = []
    monkeypatch.setattr(ablation, "_graph", counted)
    batches = _batches()
    span_outputs(_tuned(bert), batches)
    # The embeddings, then for each layer one without and one with adapters, then the head.
    counts = np.bincount(computed) / len(batches)
    without, adapted = counts[1:-1:2], counts[2:-1:2]
    assert counts[0] == 1
    assert counts[-1] == len(SPANS) + 1
    # Layer i is computed once without adapters for every first layer up to it.
    assert without.tolist() == [i + 1 for i in range(tiny.LAYERS)]
    # And with them once for every span that ends below it, and once for the whole model.
    below = [sum(last < i for _, last in SPANS) for i in range(tiny.LAYERS)]
    assert adapted.tolist() == [1 + each for each in below]


def test_progress_is_told(bert):
    told = []
    span_outputs(_tuned(bert), _batches(), told.append)
    assert told == [3, 3, 1]


def test_ablate_scores_every_span(bert):
    model, batches = _tuned(bert), _batches()
    task = Task(model, name="colors", labels=("red", "green", "blue"), inputs=INPUTS)
    spans = ablate(task, batches, "accuracy")
    outputs = span_outputs(model, batches)
    labels = np.arange(ROWS) % 3
    values = {span: np.mean(outputs[span].argmax(-1) == labels) for span in outputs}
    assert [(each.first, each.last) for each in spans] == SPANS
    for each in spans:
        assert each == ("colors", *each[1:3], values[each.first, each.last], values[None])


def test_ablate_scores_values(bert):
    labels = np.linspace(0, 1, ROWS, dtype=np.float32)
    model, batches = _tuned(bert, RegressionHead()), _batches(labels)
    spans = ablate(Task(model, name="values", inputs=INPUTS), batches, "pearson")
    expected = np.corrcoef(labels, compute_outputs(model, batches))[0, 1]
    assert spans[0].full == pytest.approx(expected, abs=1e-5)
    assert len({each.value for each in spans}) == len(SPANS)


def test_errors_say_what_is_wrong(bert):
    plain = TaskModel(load_encoder(bert, None), ClassificationHead(3), Tuning("full"))
    with pytest.raises(UserError, match="no adapters"):
        span_outputs(plain, _batches())
    with pytest.raises(UserError, match="no metric 'bleu'.*accuracy, f1"):
        ablate(Task(_tuned(bert), name="a", inputs=INPUTS), _batches(), "bleu")
    questions = Task(_tuned(bert, SpanHead()), name="q", inputs=INPUTS)
    with pytest.raises(UserError, match="known are none"):
        ablate(questions, _batches(), "f1")


def test_the_file_holds_several_tasks(tmp_path):
    spans = [Span("cola", 0, 0, 0.25, 0.5), Span("mnli, matched", 0, 1, 0.1, 0.75)]
    write_ablation(str(tmp_path), spans)
    text = (tmp_path / "ablation.csv").read_text()
    assert text.splitlines()[:2] == ["task,first,last,value,full", "cola,0,0,0.25,0.5"]
    rows = list(csv.DictReader(text.splitlines()))
    assert [
        Span(r["task"], int(r["first"]), int(r["last"]), float(r["value"]), float(r["full"]))
        for r in rows
    ] == spans
