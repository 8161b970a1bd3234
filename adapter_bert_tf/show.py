"""Says what a folder of this package holds: a task pack, a run, an experiment, an export or a BERT.

    python -m adapter_bert_tf.show runs/sst2/pack
    python -m adapter_bert_tf.show runs/sst2
    python -m adapter_bert_tf.show sweeps/mine
    python -m adapter_bert_tf.show models/bert
    python -m adapter_bert_tf.show minilm

Of a model with several exported versions, the newest one is shown.
"""

import collections
import math
import os
import statistics
from collections.abc import Iterator, Mapping
from typing import Any

from adapter_bert_tf import entry, options
from adapter_bert_tf.checks import ANY_OBJECT, NUMBER, fields, maybe
from adapter_bert_tf.encoder.adapter import AdapterConfig
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.experiment import about
from adapter_bert_tf.experiment.records import TRIALS, in_words, read_records
from adapter_bert_tf.experiment.select import Point, choose
from adapter_bert_tf.files import byte_size, exists, file_size, is_folder
from adapter_bert_tf.pack.pack import (
    DESCRIPTION,
    Pack,
    read_pack,
    read_shapes,
)
from adapter_bert_tf.run.folder import RunFolder
from adapter_bert_tf.run.settings import (
    ClassifierSettings,
    RunSettings,
    SquadSettings,
    option_sets,
)
from adapter_bert_tf.serve.description import find_export, read_description, tell_of_layers
from adapter_bert_tf.tuning.methods import Tuning

Line = tuple[str, str]

# Labels that are shown of many.
_LABELS = 8
_FINGERPRINT = 12
# What is read of a run's settings; the rest is only printed.
_check_settings = fields(
    {},
    {"tuning": ANY_OBJECT, "adapter": maybe(ANY_OBJECT), "num_train_epochs": NUMBER},
    closed=False,
)
# Names of the formats of BERTs, by the files that they are recognized by.
_FORMATS = {
    "saved_model.pb": "SavedModel, as on TF-Hub",
    "bert_model.ckpt.*": "TensorFlow checkpoint",
    "config.json": "Hugging Face",
}


def _main(path: str) -> None:
    lines = list(_describe(path))
    width = max(len(name) for name, _ in lines) + 2
    for name, text in lines:
        print(f"{name:<{width}}{text}".rstrip())


def _describe(path: str) -> Iterator[Line]:
    """Yields what there is to say about `path`. Only a BERT needs TensorFlow."""
    version = find_export(path)
    if exists(os.path.join(path, DESCRIPTION)):
        return _show_pack(path)
    if version is not None:
        return _show_export(version)
    if exists(os.path.join(path, about.ABOUT)):
        return _show_experiment(path)
    folder = RunFolder(path)
    if "tuning" in _settings_of(folder):
        return _show_run(folder)
    return _show_base(path)


# Task packs.


def _show_pack(folder: str) -> Iterator[Line]:
    pack = read_pack(folder)
    yield "pack", folder
    yield "task", f"{pack.task or 'without a name'}: {pack.kind}"
    yield from _labels(pack)
    yield _method(pack)
    yield "metrics", _metrics(pack.metrics)
    fingerprint = pack.base.get("fingerprint", "")[:_FINGERPRINT]
    base = "base" if pack.baseline is None else "module"
    yield base, f"{pack.base.get('origin')}, fingerprint {fingerprint}"
    if pack.vocabulary:
        cased = "lower-cased" if pack.vocabulary.get("lower_case") else "cased"
        yield "vocab", f"{pack.vocabulary.get('size', 0):,} tokens, {cased}"
    yield "inputs", _settings(pack.inputs) or "unknown"
    yield "size", _weights(folder, pack)


def _labels(pack: Pack) -> Iterator[Line]:
    names = pack.class_names
    if names:
        more = f", … ({len(names):,} in all)" if len(names) > _LABELS else ""
        yield "labels", ", ".join(names[:_LABELS]) + more


def _method(pack: Pack) -> Line:
    if pack.baseline is None:
        return "tuning", _tuning(pack)
    return "baseline", _settings({**pack.baseline})


def _tuning(pack: Pack) -> str:
    """Returns the method, and the options and fields of the design that are not the defaults."""
    parts = [pack.tuning.method, _settings(_differing(pack.tuning, Tuning(pack.tuning.method)))]
    if pack.adapter:
        design = {"size": pack.adapter.size, **_differing_design(pack.adapter)}
        parts.append(_settings({f"adapter_{name}": value for name, value in design.items()}))
    return " ".join(part for part in parts if part)


def _differing(value: Any, default: Any) -> dict[str, Any]:
    ours, theirs = options.in_json(value), options.in_json(default)
    return {name: each for name, each in ours.items() if each != theirs[name]}


def _differing_design(adapter: AdapterConfig) -> dict[str, Any]:
    """Returns the design, if it is not the default, and the fields that don't follow from it."""
    named = {"design": adapter.design} if adapter.design != AdapterConfig.design else {}
    return named | _differing(adapter, AdapterConfig(design=adapter.design))


def _settings(values: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={_value(value)}" for name, value in values.items())


def _value(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _metrics(metrics: Mapping[str, float]) -> str:
    return "  ".join(f"{name} {value:.4f}" for name, value in metrics.items()) or "unknown"


def _weights(folder: str, pack: Pack) -> str:
    shapes = read_shapes(folder, pack).values()
    size = file_size(os.path.join(folder, pack.weights))
    parameters = sum(map(math.prod, shapes))
    return f"{parameters:,} parameters in {len(shapes)} variables, {byte_size(size)}"


# Runs.


def _show_run(folder: RunFolder) -> Iterator[Line]:
    settings, results = _settings_of(folder), folder.results()
    kind = SquadSettings if "predict_file" in settings else ClassifierSettings
    yield "run", folder.path
    yield "base", str(settings.get("bert", "unknown"))
    if results.get("task"):
        yield "task", results["task"]
    yield "settings", _settings(_given(settings, kind)) or "the defaults"
    yield "progress", _progress(folder, settings)
    has_pack = exists(os.path.join(folder.pack, DESCRIPTION))
    pack = read_pack(folder.pack) if has_pack else None
    metrics = results.get("metrics") or (pack.metrics if pack else {})
    yield "metrics", _metrics(metrics)
    if pack is not None:
        yield "pack", folder.pack
        yield "size", _weights(folder.pack, pack)


def _settings_of(folder: RunFolder) -> dict[str, Any]:
    """Returns a run's settings; a run that did not train has them only in its results."""
    found = folder.asked() or folder.results().get("settings", {})
    return _check_settings(found, f"{folder.path}: settings")


def _given(asked: Mapping[str, Any], kind: type[RunSettings]) -> dict[str, Any]:
    """Returns the settings that are not the defaults, by the names of their flags."""
    found = {}
    for owner, prefix in option_sets(kind):
        part = {AdapterConfig: "adapter", Tuning: "tuning"}.get(owner)
        values = asked.get(part) or {} if part else asked
        if owner is AdapterConfig and values:
            values = _differing_design(options.from_json(AdapterConfig, values, "adapter"))
        for name, option in options.options_of(owner, prefix).items():
            value = values.get(option.field)
            if value is not None and value != options.in_json(option.default):
                found[name] = value
    rate = Tuning(found.get("tuning", Tuning.method)).learning_rate
    if found.get("learning_rate") == rate:
        del found["learning_rate"]
    return {name: value for name, value in found.items() if name != "bert"}


def _progress(folder: RunFolder, settings: Mapping[str, Any]) -> str:
    results = folder.results()
    if "steps" in results:
        epochs, seconds = len(results.get("epochs", ())), results.get("seconds", 0)
        return f"finished: {epochs} epochs, {results['steps']:,} steps, {seconds:,.0f} s"
    if not folder.asked():
        return "evaluated, not trained"
    planned = settings.get("num_train_epochs")
    asked = "" if planned is None else f" of {planned:g}"
    return f"{len(folder.history())}{asked} epochs; the same command resumes it"


# Experiments, and searches of a baseline.


def _show_experiment(folder: str) -> Iterator[Line]:
    told = about.read(folder)
    yield "experiment", folder
    for name in ("title", "base", "command"):
        yield name, str(told.get(name, "unknown"))
    has_trials = exists(os.path.join(folder, TRIALS))
    records = read_records(folder) if has_trials else []
    counts = collections.Counter(each.state for each in records)
    yield "trials", ", ".join(f"{count} {state}" for state, count in counts.items()) or "none yet"
    for point in choose(records).values():
        yield "", ""
        yield "best", f"{point.first.task} {point.first.method}: {_point(point)}"
        yield "settings", in_words(point.first.settings)
        pack = os.path.join(folder, point.first.folder, "pack")
        if exists(os.path.join(pack, DESCRIPTION)):
            yield "pack", pack


def _point(point: Point) -> str:
    """Returns the scores of trials that differ in their seeds."""
    scores = [f"{point.first.metric} {point.mean:.4f}"]
    if point.tests:
        scores.append(f"test {statistics.fmean(point.tests):.4f}")
    seeds = len(point.records)
    return "  ".join([*scores, f"({seeds} seeds)" if seeds > 1 else ""]).rstrip()


# Exports.


def _show_export(folder: str) -> Iterator[Line]:
    export = read_description(folder)
    yield "export", export.folder
    if export.config is not None:
        layers, width = export.config.num_layers, export.config.hidden_size
        cased = "lower-cased" if export.raw["lower_case"] else "cased"
        yield "base", f"{export.origin}: {layers} layers, {width} wide"
        yield "vocab", f"{len(export.raw['tokens']):,} tokens, {cased}"
    for task in export.tasks:
        yield "", ""
        yield "task", f"{task.name}: {task.pack.kind}"
        yield from _labels(task.pack)
        yield _method(task.pack)
        yield "metrics", _metrics(task.pack.metrics)
        if task.dropped_layers:
            yield "layers", tell_of_layers(task.dropped_layers)
        yield "inputs", _settings(task.pack.inputs) or "unknown"
        yield "size", byte_size(task.size)
    yield "", ""
    for name, signature in export.signatures.items():
        takes, gives = (", ".join(signature[part]) for part in ("inputs", "outputs"))
        yield "signature", f"{name}: {takes} -> {gives}"
    yield "size", byte_size(export.size)


# Bases.


def _show_base(path: str) -> Iterator[Line]:
    from adapter_bert_tf.base.base import digest_of
    from adapter_bert_tf.base.load import FORMATS, find_base
    from adapter_bert_tf.base.presets import locate
    from adapter_bert_tf.encoder.variables import is_adapter

    place = locate(path)
    found = next((format for format in FORMATS if format.recognises(place)), None)
    if found is None and is_folder(path):
        raise UserError(f"{path}: neither a pack nor a run, an experiment, an export or a BERT")
    base = find_base(path)
    config = base.config
    parameters = adapters = 0
    for name, array in base.read():
        if is_adapter(name):
            adapters += array.size
        else:
            parameters += array.size
            base.digests[name] = digest_of(array)
    yield "base", path
    if place != path:
        yield "place", place
    if found:
        yield "format", _FORMATS.get(found.files, found.files)
    yield "layers", f"{config.num_layers}, {config.hidden_size} wide, {config.inner_dim} inside"
    yield "heads", f"{config.num_attention_heads}"
    yield "inputs", f"rows of up to {config.max_sequence_length} tokens"
    more = f", and {adapters:,} of adapters" if adapters else ""
    yield "size", f"{parameters:,} parameters{more}"
    if base.vocabulary is None:
        yield "vocab", "no vocabulary beside it"
    else:
        cased = "lower-cased" if base.vocabulary.lower_case else "cased"
        yield "vocab", f"{len(base.vocabulary.tokens):,} tokens, {cased}"
    yield "fingerprint", base.fingerprint[:_FINGERPRINT]


def main() -> None:
    """Runs the program."""
    entry.run(_main, ("DIR",))


if __name__ == "__main__":
    main()
