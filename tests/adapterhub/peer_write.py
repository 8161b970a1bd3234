"""Adapters as PyTorch's `adapters` writes them, and what it computes with them.

Run by the peer's Python, never imported: `python peer_write.py OUT [case ...]` writes

    OUT/bases/NAME/               random BERTs: config.json, model.safetensors, vocab.txt
    OUT/cases/CASE/adapter/       what `save_adapter` writes, some of it aged or edited
    OUT/cases/CASE/adapter.zip    the same as one file, in the zip cases
    OUT/cases/CASE/expected.npz   inputs; hidden; logits, or start_logits and end_logits
    OUT/cases/CASE/case.json      base, config, exact, field, head, name, labels, runs

`exact` says whether a bottleneck of the form LN(x + h + f(...)) can compute the same, and `field`
names what stands against it. `labels` are ordered by their ids. `runs` is false where the library
can't run what it has written: expected.npz then has the inputs only. Weights depend on nothing but
the name of their base or case.
"""

import dataclasses
import hashlib
import json
import logging
import os
import pathlib
import re
import shutil
import sys
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import adapters
import numpy as np
import safetensors.torch
import torch
import transformers
from adapters import BnConfig, ConfigUnion, DoubleSeqBnConfig, ParBnConfig, SeqBnConfig
from adapters.heads import ClassificationHead
from torch import nn

BATCH, LENGTH = 3, 12

# Half of transformers' activations don't show how they differ below this scale.
LOUD = 1.0

_VOCABULARY = """
[PAD] [UNK] [CLS] [SEP] [MASK] ! ' ( ) , - . : ; ? a an and are as at bad be but by can cat did do
dog film food for from good great he her his how i in is it its like long made many me more movie my
no not of on one or plot she slow so story that the they this to very was we well what when where
who why with you 0 1 2 3 4 5 6 7 8 9 ##s ##ed ##ing ##ly ##er ##est ##n ##t
"""
WORDS = _VOCABULARY.split()

BASES = {
    "tiny": dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64),
    "odd": dict(
        hidden_size=48,
        num_hidden_layers=5,
        num_attention_heads=6,
        intermediate_size=80,
        hidden_act="gelu_new",
        layer_norm_eps=1e-12,
        type_vocab_size=2,
    ),
    "wide": dict(hidden_size=96, num_hidden_layers=3, num_attention_heads=8, intermediate_size=128),
}


# What is done to a written folder.
Edit = Callable[[pathlib.Path], None]


@dataclasses.dataclass
class Case:
    config: Any
    base: str = "tiny"
    exact: bool = True
    field: str | None = None
    head: dict[str, Any] | None = None  # `kind`, and the arguments of add_KIND_head
    static: str | None = None  # a class of transformers with its own head
    static_config: dict[str, Any] = dataclasses.field(default_factory=dict)
    name: str = "task"
    with_head: bool = True
    use_safetensors: bool = False
    loud: bool = False
    edits: tuple[Edit, ...] = ()  # if any, what is expected comes from loading the result
    last: tuple[Edit, ...] = ()  # edits that the library can't load, without a change of meaning


def inexact(field: str, config: Any, **more) -> Case:
    return Case(config, exact=False, field=field, **more)


def head(kind: str, **arguments) -> dict[str, Any]:
    return {"kind": kind, **arguments}


def config_file(**changes) -> Edit:
    """Changes adapter_config.json's top level; None drops a key."""
    return lambda folder: _edit_json(folder / "adapter_config.json", lambda old: _set(old, changes))


def config_fields(**changes) -> Edit:
    """Changes fields of adapter_config.json's config."""
    return lambda folder: _edit_json(
        folder / "adapter_config.json", lambda old: _set(old["config"], changes)
    )


def head_file(**changes) -> Edit:
    return lambda folder: _edit_json(folder / "head_config.json", lambda old: _set(old, changes))


def head_fields(**changes) -> Edit:
    return lambda folder: _edit_json(
        folder / "head_config.json", lambda old: _set(old["config"], changes)
    )


def no_field(*names: str) -> Edit:
    return config_fields(**dict.fromkeys(names))


NULL = object()  # a null in the file; None drops the key


def _set(settings: dict[str, Any], changes: dict[str, Any]) -> None:
    for key, value in changes.items():
        if value is None:
            settings.pop(key, None)
        else:
            settings[key] = None if value is NULL else value


def _edit_json(path: pathlib.Path, change: Callable[[dict], None]) -> None:
    settings = json.loads(path.read_text())
    change(settings)
    path.write_text(json.dumps(settings, indent=2, sort_keys=True))


def tensors(change: Callable[[str, torch.Tensor], tuple[str, torch.Tensor]], **how) -> Edit:
    """Changes each name and tensor of a `.bin`; `how` goes to torch.save."""

    def edit(folder: pathlib.Path) -> None:
        for file in ("pytorch_adapter.bin", "pytorch_model_head.bin"):
            path = folder / file
            if path.exists():
                state = torch.load(path, weights_only=True)
                torch.save(dict(change(*item) for item in state.items()), path, **how)

    return edit


def safe_tensors_as(dtype: torch.dtype) -> Edit:
    def edit(folder: pathlib.Path) -> None:
        for path in folder.glob("*.safetensors"):
            state = safetensors.torch.load_file(path)
            safetensors.torch.save_file({k: v.to(dtype) for k, v in state.items()}, path)

    return edit


def old_names(kind: str) -> Edit:
    """Names of version 1: each site and each kind of task had its own."""

    def rename(name: str, tensor: torch.Tensor) -> tuple[str, torch.Tensor]:
        site = "attention" if ".attention.output." in name else "layer"
        return name.replace(".adapters.", f".{site}_text_{kind}_adapters."), tensor

    return tensors(rename)


def _without_bert(name: str, tensor: torch.Tensor) -> tuple[str, torch.Tensor]:
    return name.removeprefix("bert."), tensor


def _as_view(name: str, tensor: torch.Tensor) -> tuple[str, torch.Tensor]:
    """The same values, in a larger storage and in another order of axes."""
    room = torch.full((tensor.numel() + 5,), 9.0)
    view = room[3 : 3 + tensor.numel()].view(tuple(reversed(tensor.shape)))
    view = view.permute(tuple(reversed(range(tensor.dim()))))
    view.copy_(tensor)
    return name, view


def _as_parameter(name: str, tensor: torch.Tensor) -> tuple[str, torch.Tensor]:
    return name, nn.Parameter(tensor.clone())


def _with_folder(folder: pathlib.Path) -> None:
    _zip(folder, "some/folder/")


def _flat(folder: pathlib.Path) -> None:
    _zip(folder, "")


def _zip(folder: pathlib.Path, inside: str) -> None:
    with zipfile.ZipFile(folder.with_suffix(".zip"), "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(folder.iterdir()):
            file.write(path, inside + path.name)


def _as_in_cache(folder: pathlib.Path) -> None:
    """As Hugging Face's cache has it: a snapshot of links to files named after their hash."""
    top = folder.parent / "models--AdapterHub--task"
    commit = hashlib.sha1(b"commit").hexdigest()
    snapshot = top / "snapshots" / commit
    for place in (snapshot, top / "blobs", top / "refs"):
        place.mkdir(parents=True)
    (top / "refs" / "main").write_text(commit)
    for path in sorted(folder.iterdir()):
        blob = top / "blobs" / hashlib.sha256(path.read_bytes()).hexdigest()
        path.rename(blob)
        (snapshot / path.name).symlink_to(os.path.relpath(blob, snapshot))
    folder.rmdir()
    folder.symlink_to(os.path.relpath(snapshot, folder.parent))


def _activation_cases() -> dict[str, Case]:
    """Every activation without weights of its own; `leakyrelu` is a name of the library's."""
    learned = {"prelu", "xielu"}
    known = [*transformers.activations.ACT2FN, "leakyrelu"]
    return {
        f"activation_{name}": Case(
            SeqBnConfig(reduction_factor=4, non_linearity=name), loud=True, with_head=False
        )
        for name in sorted(set(known) - learned)
    }


def _phm(preset, **changes) -> Any:
    return preset(reduction_factor=4, **changes)


TWO = head("classification", num_labels=2)
SEQ, DOUBLE, PAR = (
    preset(reduction_factor=4) for preset in (SeqBnConfig, DoubleSeqBnConfig, ParBnConfig)
)
NAMED = {0: "negative", 1: "neutral", 2: "a third, with more: 50 %", 3: "Positive"}
V1_INVERTIBLE = {"block_type": "nice", "non_linearity": "relu", "reduction_factor": 2}


def _replaced(preset, **changes) -> Any:
    return preset.replace(**changes)


CASES: dict[str, Case] = {
    # Presets as they stand.
    "double_seq_bn": Case(DoubleSeqBnConfig(), base="wide", head=TWO),
    "seq_bn": Case(SeqBnConfig(), base="wide", head=TWO, use_safetensors=True),
    "par_bn": Case(ParBnConfig(), base="wide", head=TWO),
    "scaled_par_bn": Case(ParBnConfig(scaling="learned"), base="odd", head=TWO),
    "double_seq_bn_odd": Case(DOUBLE, base="odd", head=TWO, use_safetensors=True),
    "seq_bn_odd": Case(SEQ, base="odd", head=TWO),
    "par_bn_odd": Case(PAR, base="odd", head=TWO, use_safetensors=True),
    # Activations.
    **_activation_cases(),
    "activation_upper_case": Case(_replaced(SEQ, non_linearity="ReLU"), loud=True),
    "activation_prelu": inexact("non_linearity", _replaced(SEQ, non_linearity="prelu")),
    # Sizes.
    "reduction_by_layer": Case(
        DoubleSeqBnConfig(reduction_factor={"0": 2, "3": 8, "default": 16}), base="odd", head=TWO
    ),
    "reduction_by_layer_seq": Case(
        SeqBnConfig(reduction_factor={"0": 2, "1": 3, "2": 4, "3": 6, "4": 12}), base="odd"
    ),
    "reduction_below_1": Case(SeqBnConfig(reduction_factor=0.5), head=TWO),
    "reduction_fraction": Case(DoubleSeqBnConfig(reduction_factor=3.5), base="odd"),
    "reduction_above_width": Case(DoubleSeqBnConfig(reduction_factor=1000), base="odd"),
    # Layers and sites.
    "leave_out": Case(_replaced(DOUBLE, leave_out=[0, 3]), base="odd", head=TWO),
    "leave_out_seq": Case(_replaced(SEQ, leave_out=[1, 2, 4]), base="odd", use_safetensors=True),
    "leave_out_beyond": Case(_replaced(SEQ, leave_out=[0, 1, 11]), base="wide"),
    "leave_out_all": Case(_replaced(SEQ, leave_out=[0, 1]), head=TWO),
    "seq_bn_both": Case(_replaced(SEQ, mh_adapter=True), base="odd", head=TWO),
    "seq_bn_attention": Case(_replaced(SEQ, mh_adapter=True, output_adapter=False), base="odd"),
    "double_attention": Case(_replaced(DOUBLE, output_adapter=False), base="odd"),
    "double_output": Case(_replaced(DOUBLE, mh_adapter=False), base="odd"),
    "par_bn_both": Case(_replaced(PAR, mh_adapter=True), base="odd", head=TWO),
    "par_bn_attention": Case(_replaced(PAR, mh_adapter=True, output_adapter=False), base="odd"),
    "cross_adapter": Case(_replaced(DOUBLE, cross_adapter=True)),
    # Where LayerNorms and residuals are.
    "double_original_ln_before": Case(_replaced(DOUBLE, original_ln_before=True), base="odd"),
    "par_original_ln_before": Case(_replaced(PAR, original_ln_before=True)),
    "ln_before_double": Case(_replaced(DOUBLE, ln_before=True), base="odd", head=TWO),
    "ln_before_seq": Case(_replaced(SEQ, ln_before=True), base="odd"),
    "ln_before_par": Case(_replaced(PAR, ln_before=True), base="odd"),
    "residual_without_ln_before": Case(_replaced(DOUBLE, residual_before_ln=False)),
    "residual_after_ln": inexact("residual_before_ln", _replaced(SEQ, residual_before_ln=False)),
    "residual_post_add": inexact(
        "residual_before_ln", _replaced(SEQ, residual_before_ln="post_add")
    ),
    "adapter_residual_without_ln_after": Case(_replaced(SEQ, adapter_residual_before_ln=True)),
    "adapter_residual_before_ln": inexact(
        "ln_after", _replaced(SEQ, adapter_residual_before_ln=True, ln_after=True)
    ),
    "ln_after": inexact("ln_after", _replaced(DOUBLE, ln_after=True)),
    "ln_after_par": inexact("ln_after", _replaced(PAR, ln_after=True)),
    "no_original_ln_after": inexact(
        "original_ln_after", _replaced(SEQ, original_ln_after=False, residual_before_ln=False)
    ),
    "no_original_ln_after_double": inexact(
        "original_ln_after", _replaced(DOUBLE, original_ln_after=False)
    ),
    # Scaling.
    "scaling_fixed": Case(_replaced(SEQ, scaling=2.5), head=TWO),
    "scaling_fixed_double": Case(_replaced(DOUBLE, scaling=2.5), base="odd"),
    "scaling_learned": Case(_replaced(DOUBLE, scaling="learned"), base="odd", head=TWO),
    "scaling_channel": Case(_replaced(SEQ, scaling="channel"), base="odd", use_safetensors=True),
    "scaling_channel_par": Case(_replaced(PAR, scaling="channel")),
    # Only in training.
    "dropout": Case(_replaced(SEQ, dropout=0.3), head=TWO),
    "stochastic_depth": Case(SEQ, last=(config_fields(stochastic_depth=0.1),)),
    # Other parts.
    "gating": inexact("use_gating", _replaced(SEQ, use_gating=True)),
    "gating_par": inexact("use_gating", _replaced(PAR, use_gating=True)),
    "invertible_nice": inexact("inv_adapter", adapters.SeqBnInvConfig(reduction_factor=4)),
    "invertible_nice_double": inexact(
        "inv_adapter", adapters.DoubleSeqBnInvConfig(reduction_factor=4)
    ),
    "invertible_glow": inexact(
        "inv_adapter", _replaced(SEQ, inv_adapter="glow", inv_adapter_reduction_factor=2)
    ),
    # Compacter: dense after expansion.
    "compacter": Case(_phm(adapters.CompacterConfig), base="odd", head=TWO),
    "compacter++": Case(_phm(adapters.CompacterPlusPlusConfig), base="odd", head=TWO),
    "phm_own_rule": Case(_phm(adapters.CompacterConfig, shared_phm_rule=False)),
    "phm_own_factorized_rule": Case(
        _phm(adapters.CompacterConfig, shared_phm_rule=False, factorized_phm_rule=True)
    ),
    "phm_factorized_rule": Case(
        _phm(adapters.CompacterPlusPlusConfig, factorized_phm_rule=True), use_safetensors=True
    ),
    "phm_whole_weight": Case(_phm(adapters.CompacterConfig, factorized_phm_W=False)),
    "phm_shared_weight": Case(_phm(adapters.CompacterConfig, shared_W_phm=True)),
    "phm_no_bias": Case(_phm(adapters.CompacterConfig, phm_bias=False)),
    "phm_dim_2_rank_3": Case(_phm(adapters.CompacterPlusPlusConfig, phm_dim=2, phm_rank=3)),
    # Other methods.
    "lora": inexact("architecture", adapters.LoRAConfig(), head=TWO),
    "ia3": inexact("architecture", adapters.IA3Config()),
    "prefix_tuning": inexact("architecture", adapters.PrefixTuningConfig(), head=TWO),
    "prompt_tuning": inexact("architecture", adapters.PromptTuningConfig()),
    "loreft": inexact("architecture", adapters.LoReftConfig()),
    "mam": inexact("architecture", adapters.MAMConfig(), head=TWO),
    "unipelt": inexact("architecture", adapters.UniPELTConfig()),
    "union_of_bottlenecks": inexact(
        "architecture",
        ConfigUnion(
            BnConfig(
                mh_adapter=True, output_adapter=False, reduction_factor=4, non_linearity="relu"
            ),
            BnConfig(
                mh_adapter=False, output_adapter=True, reduction_factor=8, non_linearity="relu"
            ),
        ),
    ),
    # Heads.
    "head_1_layer": Case(DOUBLE, head=head("classification", num_labels=3, layers=1)),
    "head_1_layer_pooler": Case(
        DOUBLE, head=head("classification", num_labels=3, layers=1, use_pooler=True)
    ),
    "head_2_layers": Case(DOUBLE, base="odd", head=head("classification", num_labels=3)),
    "head_2_layers_pooler": Case(
        SEQ, head=head("classification", num_labels=3, use_pooler=True), use_safetensors=True
    ),
    "head_3_layers": Case(DOUBLE, head=head("classification", num_labels=3, layers=3)),
    "head_relu": Case(DOUBLE, head=head("classification", activation_function="relu")),
    "head_gelu": Case(DOUBLE, head=head("classification", activation_function="gelu")),
    "head_gelu_new": Case(DOUBLE, head=head("classification", activation_function="gelu_new")),
    "head_no_activation": Case(
        DOUBLE, head=head("classification", num_labels=3, activation_function=None)
    ),
    "head_no_bias": Case(DOUBLE, head=head("classification", bias=False, num_labels=3)),
    "head_no_bias_1_layer": Case(
        DOUBLE, head=head("classification", bias=False, layers=1, use_pooler=True)
    ),
    "head_regression": Case(DOUBLE, head=head("classification", num_labels=1)),
    "head_regression_1_layer_pooler": Case(
        DOUBLE, head=head("classification", num_labels=1, layers=1, use_pooler=True)
    ),
    "head_labels": Case(SEQ, head=head("classification", num_labels=4, id2label=NAMED)),
    "head_multilabel": Case(
        SEQ, head=head("classification", num_labels=4, multilabel=True, id2label=NAMED)
    ),
    "head_multilabel_1_layer_pooler": Case(
        SEQ,
        head=head("classification", num_labels=4, layers=1, multilabel=True, use_pooler=True),
    ),
    "head_question_answering": Case(DOUBLE, base="odd", head=head("qa")),
    "head_question_answering_seq": Case(SEQ, head=head("qa"), use_safetensors=True),
    "head_question_answering_2_layers": inexact("layers", DOUBLE, head=head("qa", layers=2)),
    "head_tagging": inexact("head_type", SEQ, head=head("tagging", num_labels=5)),
    "head_multiple_choice": inexact(
        "head_type", SEQ, head=head("multiple_choice", num_choices=BATCH)
    ),
    "head_masked_lm": inexact("head_type", SEQ, head=head("masked_lm")),
    "no_head": Case(DOUBLE, head=TWO, with_head=False),
    # Models with a head of their own.
    "static_classification": Case(
        DOUBLE,
        static="BertForSequenceClassification",
        static_config={"id2label": NAMED, "label2id": {v: k for k, v in NAMED.items()}},
    ),
    "static_classification_safe": Case(
        SEQ, static="BertForSequenceClassification", use_safetensors=True
    ),
    "static_regression": Case(
        SEQ, static="BertForSequenceClassification", static_config={"num_labels": 1}
    ),
    "static_multilabel": Case(
        SEQ,
        static="BertForSequenceClassification",
        static_config={"num_labels": 3, "problem_type": "multi_label_classification"},
    ),
    "static_question_answering": Case(DOUBLE, static="BertForQuestionAnswering"),
    "static_tagging": inexact("model_class", SEQ, static="BertForTokenClassification"),
    "static_multiple_choice": inexact("model_class", SEQ, static="BertForMultipleChoice"),
    "static_no_head": Case(SEQ, static="BertForSequenceClassification", with_head=False),
    "bare_model": Case(DOUBLE, static="BertModel"),
    # Names and packaging.
    "name_other": Case(DOUBLE, head=TWO, name="sst-2"),
    "name_strange": Case(SEQ, head=TWO, name="nli/rte@ukp adapters"),
    "name_of_a_part": Case(DOUBLE, head=TWO, name="output", use_safetensors=True),
    "zip_flat": Case(SEQ, head=TWO, last=(_flat,)),
    "zip_with_folder": Case(SEQ, head=TWO, last=(_with_folder,)),
    "hub_cache": Case(SEQ, head=TWO, last=(_as_in_cache,)),
    # Older and other files.
    "old_task": Case(
        _replaced(DOUBLE, non_linearity="gelu"),
        head=TWO,
        loud=True,
        edits=(
            old_names("task"),
            config_file(version=None, type="text_task"),
            head_file(version=None),
        ),
    ),
    "old_lang": Case(
        SEQ,
        loud=True,
        edits=(
            old_names("lang"),
            config_file(version=None, type="text_lang"),
            config_fields(non_linearity="gelu_orig"),
        ),
    ),
    "old_gelu_seq": Case(
        _replaced(SEQ, non_linearity="gelu"),
        base="odd",
        loud=True,
        edits=(config_file(version=None),),
    ),
    "old_unused_invertible": Case(
        SEQ,
        head=TWO,
        edits=(
            old_names("task"),
            config_file(version=None, type="text_task"),
            no_field("inv_adapter", "inv_adapter_reduction_factor"),
            config_fields(
                invertible_adapter=V1_INVERTIBLE,
                attention_type="sent-lvl-dynamic",
                new_attention_norm=False,
            ),
        ),
    ),
    "old_model_with_heads": Case(
        SEQ,
        head=head("classification", num_labels=3),
        edits=(
            config_file(model_class="BertModelWithHeads", version="2.3.0"),
            head_file(model_class="BertModelWithHeads", version="2.3.0"),
            head_fields(use_pooler=None, bias=None, dropout_prob=None, label2id=NULL),
        ),
    ),
    "version_3_gelu": Case(
        _replaced(DOUBLE, non_linearity="gelu"), loud=True, edits=(config_file(version="3.1.0"),)
    ),
    "config_pfeiffer": Case(SeqBnConfig(), edits=(config_file(config="pfeiffer"),)),
    "config_houlsby": Case(DoubleSeqBnConfig(), edits=(config_file(config="houlsby"),)),
    "config_string": Case(
        SeqBnConfig(reduction_factor=8, non_linearity="tanh"),
        edits=(config_file(config="seq_bn[reduction_factor=8, non_linearity='tanh']"),),
    ),
    "config_null": Case(SeqBnConfig(), edits=(config_file(config=NULL),)),
    "config_partial": Case(
        DOUBLE,
        edits=(
            config_file(
                config={
                    "mh_adapter": True,
                    "output_adapter": True,
                    "reduction_factor": 4,
                    "non_linearity": "swish",
                }
            ),
        ),
    ),
    "bin_without_prefix": Case(DOUBLE, base="odd", edits=(tensors(_without_bert),)),
    "bin_legacy": Case(
        DOUBLE,
        head=TWO,
        edits=(tensors(lambda *item: item, _use_new_zipfile_serialization=False),),
    ),
    "bin_views": Case(DOUBLE, base="odd", head=TWO, edits=(tensors(_as_view),)),
    "bin_parameters": Case(DOUBLE, head=TWO, edits=(tensors(_as_parameter),)),
    "bin_half": Case(SEQ, head=TWO, edits=(tensors(lambda name, x: (name, x.half())),)),
    "bin_bfloat16": Case(SEQ, head=TWO, edits=(tensors(lambda name, x: (name, x.bfloat16())),)),
    "bin_double": Case(SEQ, head=TWO, edits=(tensors(lambda name, x: (name, x.double())),)),
    "safetensors_half": Case(
        SEQ, head=TWO, use_safetensors=True, edits=(safe_tensors_as(torch.half),)
    ),
    "safetensors_bfloat16": Case(
        SEQ, head=TWO, use_safetensors=True, edits=(safe_tensors_as(torch.bfloat16),)
    ),
}


def random_for(name: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(name.encode()))


def randomise(model: nn.Module, names: list[str], random: np.random.Generator, down: float) -> None:
    """Random values, so that none is zero or one; `down` is the deviation of what adapters read."""
    parameters = dict(model.named_parameters())
    for name in sorted(names):
        values = random.standard_normal(parameters[name].shape)
        part = name.lower()
        if part.endswith("scaling"):
            values = 1.5 + 0.4 * values
        elif "norm" in part and part.endswith("weight"):
            values = 1 + 0.15 * values
        elif part.endswith("f.weight"):  # of an activation
            values = 0.4 + 0.1 * values
        elif "phm_rule" in part or re.search(r"\.w(_[a-z_]+)?$", part):  # Compacter's factors
            values = 0.5 * values
        elif ".adapter_down." in part and part.endswith("weight"):
            values = down * values
        else:
            values = 0.1 * values
        parameters[name].data = torch.tensor(values, dtype=torch.float32)


def write_base(name: str, folder: pathlib.Path) -> None:
    config = transformers.BertConfig(
        vocab_size=len(WORDS), max_position_embeddings=64, pad_token_id=0, **BASES[name]
    )
    model = transformers.BertModel(config)
    randomise(model, [key for key, _ in model.named_parameters()], random_for(name), down=0.1)
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")


def make_inputs(random: np.random.Generator) -> dict[str, np.ndarray]:
    """Pairs of texts, of which the first row only is full."""
    ids = random.integers(5, len(WORDS), (BATCH, LENGTH))
    mask, types = np.ones_like(ids), np.zeros_like(ids)
    for row, (first, length) in enumerate(((6, LENGTH), (4, 9), (5, 6))):
        ids[row, 0], ids[row, first - 1], ids[row, length - 1] = 2, 3, 3
        types[row, first:length] = 1
        ids[row, length:] = mask[row, length:] = 0
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}


def compute(model: nn.Module, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The last hidden state, and what the head makes of it if there is one."""
    tensors = {name: torch.tensor(values) for name, values in inputs.items()}
    with torch.inference_mode():
        outputs = {"hidden": model.base_model(**tensors).last_hidden_state}
        # A static model of multiple choice wants the choices on an axis of their own.
        if type(model).__name__ == "BertForMultipleChoice":
            tensors = {name: tensor[None] for name, tensor in tensors.items()}
        made = model(**tensors)
    for name in ("logits", "start_logits", "end_logits"):
        if name in made:
            outputs[name] = made[name]
    return {name: tensor.numpy() for name, tensor in outputs.items()}


def build(case: Case, base: pathlib.Path, random: np.random.Generator) -> nn.Module:
    """The peer's model, with an adapter and a head of random weights."""
    if case.static:
        kind = getattr(transformers, case.static)
        model = kind.from_pretrained(base, **case.static_config)
        adapters.init(model)
        new = (
            []
            if case.static == "BertModel"
            else [name for name, _ in model.named_parameters() if not name.startswith("bert.")]
        )
    else:
        model = adapters.BertAdapterModel.from_pretrained(base)
        new = []
    before = {name for name, _ in model.named_parameters()}
    model.add_adapter(case.name, config=case.config)
    if case.head:
        add_head(model, case.name, **case.head)
    new += [name for name, _ in model.named_parameters() if name not in before]
    randomise(model, new, random, down=LOUD if case.loud else 0.3)
    model.set_active_adapters(case.name)
    return model.eval()


def add_head(model: nn.Module, name: str, kind: str, **arguments) -> None:
    if "bias" in arguments:  # the one argument that add_classification_head doesn't pass on
        model.add_prediction_head(ClassificationHead(model, name, **arguments))
    else:
        getattr(model, f"add_{kind}_head")(name, **arguments)


def head_of(case: Case) -> dict[str, Any] | None:
    if not case.with_head or case.static == "BertModel":
        return None
    return {"static": case.static, **case.static_config} if case.static else case.head


def labels_of(folder: pathlib.Path) -> list[str] | None:
    """The labels that a written head names, by their ids."""
    path = folder / "head_config.json"
    if not path.exists():
        return None
    settings = json.loads(path.read_text())
    numbers = settings.get("label2id") or (settings["config"] or {}).get("label2id")
    return sorted(numbers, key=numbers.get) if numbers else None


def write_case(name: str, out: pathlib.Path) -> None:
    case, random = CASES[name], random_for(name)
    base, folder = out / "bases" / case.base, out / "cases" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    model = build(case, base, random)
    inputs = make_inputs(random)
    adapter = folder / "adapter"
    more = {} if case.static == "BertModel" else {"with_head": case.with_head}
    model.save_adapter(adapter, case.name, use_safetensors=case.use_safetensors, **more)
    for edit in case.edits:
        edit(adapter)
    if case.edits:  # what the library understands, not what was meant
        model = adapters.BertAdapterModel.from_pretrained(base)
        loaded = model.load_adapter(str(adapter), use_safetensors=case.use_safetensors)
        model.set_active_adapters(loaded)
        model.eval()
    for edit in case.last:
        edit(adapter)
    try:
        outputs = compute(model, inputs)
    except RuntimeError as error:
        print(f"{name}: does not run: {error}")
        outputs = {}
    if not case.with_head:
        outputs.pop("logits", None)
    np.savez(folder / "expected.npz", **inputs, **outputs)
    described = {
        "base": case.base,
        "config": json.loads((adapter / "adapter_config.json").read_text())["config"],
        "exact": case.exact,
        "field": case.field,
        "head": head_of(case),
        "name": case.name,
        "labels": labels_of(adapter),
        "runs": bool(outputs),
    }
    (folder / "case.json").write_text(json.dumps(described, indent=2))


def main() -> None:
    out, *names = sys.argv[1:]
    place = pathlib.Path(out)
    unknown = set(names) - set(CASES)
    if unknown:
        raise SystemExit(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(CASES)}")
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    logging.getLogger("adapters").setLevel(logging.ERROR)
    for name in BASES:
        write_base(name, place / "bases" / name)
    for name in names or CASES:
        write_case(name, place)


if __name__ == "__main__":
    main()
