"""Task packs from AdapterHub's files, and AdapterHub's files from task packs."""

import json
import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import safetensors.numpy

from adapter_bert_tf.adapterhub import heads, weights
from adapter_bert_tf.adapterhub.card import make_card
from adapter_bert_tf.adapterhub.config import from_design, resolve, to_design
from adapter_bert_tf.adapterhub.files import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    HEAD_CONFIG,
    HEAD_WEIGHTS,
    HubFiles,
    read_files,
)
from adapter_bert_tf.base.base import Base
from adapter_bert_tf.base.load import find_base, make_encoder
from adapter_bert_tf.encoder.adapter import AdapterConfig
from adapter_bert_tf.encoder.variables import is_adapter, is_layer_norm
from adapter_bert_tf.errors import UserError, some
from adapter_bert_tf.files import new_folder, write_atomically
from adapter_bert_tf.heads.kinds import NO_HEAD, make_head
from adapter_bert_tf.heads.text import TextForm, TextHead
from adapter_bert_tf.pack.model import save_pack
from adapter_bert_tf.pack.pack import DESCRIPTION, Pack, read_pack, read_tensors
from adapter_bert_tf.tuning.methods import Tuning
from adapter_bert_tf.tuning.task_model import TaskModel

# The version of the library whose format is written.
_VERSION = "adapters.1.3.0"
# PyTorch's containers have methods of these names, so it refuses them as names of adapters.
_TAKEN = frozenset(
    re.findall(
        r"\w+",
        """
        T_destination add_module apply bfloat16 buffers call_super_init children clear compile cpu
        cuda double dump_patches eval extra_repr float forward get_buffer get_extra_state
        get_parameter get_submodule half ipu items keys load_state_dict modules mtia named_buffers
        named_children named_modules named_parameters parameters pop requires_grad_
        set_extra_state set_submodule share_memory smart_apply state_dict to to_empty train
        training type update values xpu zero_grad
        """,
    )
)


def import_adapterhub(
    adapter: str | os.PathLike,
    *,
    bert: str,
    output_dir: str | os.PathLike,
    with_head: bool = True,
    pair: bool | None = None,
    max_seq_length: int | None = None,
    vocab_file: str | None = None,
) -> None:
    """Makes a task pack from the files of PyTorch's `adapters`.

    What our form can't hold exactly is refused.

    Args:
      adapter: The adapter's folder, a zip file of it, or a repository's folder in the Hub's cache.
      bert: The BERT that it was trained on: its files don't say which.
      output_dir: The pack's folder.
      with_head: Whether the pack gets the head, if there is one.
      pair: Whether the task's rows are pairs of texts, if that is known.
      max_seq_length: Longest row, in tokens, if it is not the default.
      vocab_file: The base's vocabulary, if it is not beside it.

    Example:
      `import_adapterhub("sst2", bert="bert-base-uncased", output_dir="packs/sst2")`
    """
    path = os.fspath(adapter)
    files = read_files(path, with_head)
    base = find_base(bert, vocab_file=vocab_file)
    try:
        model, labels = _to_model(files, base)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    inputs = {"max_seq_length": max_seq_length, "pair": pair}
    with new_folder(os.fspath(output_dir), last=DESCRIPTION) as folder:
        save_pack(
            model,
            folder,
            task=files.config["name"],
            labels=labels,
            inputs={name: value for name, value in inputs.items() if value is not None},
        )


def _to_model(files: HubFiles, base: Base) -> tuple[TaskModel, tuple[str, ...]]:
    fields = resolve(files.config, weights.has_invertible(files.tensors))
    sizes = base.config
    found = weights.HubWeights(
        files.tensors, files.config["name"], fields, sizes.hidden_size, sizes.num_layers
    )
    everywhere = len(found.layers) == sizes.num_layers
    design = to_design(fields, found.size, None if everywhere else found.layers)
    head = heads.HubHead(files, sizes.output_dropout)
    # Checked before the base is loaded, which takes longer.
    outputs = 2 if head.kind == "span" else head.settings.get("classes", 1)
    of_head = head.variables(sizes.hidden_size, outputs)
    model = TaskModel(
        make_encoder(base, design),
        make_head(head.kind, head.settings),
        Tuning("adapters", layer_norms=False),
    )
    variables = model.variables_by_path()
    for variable, value in {**dict(found.variables()), **of_head}.items():
        variables[variable].assign(value)
    return model, head.labels


def export_adapterhub(
    pack: str | os.PathLike,
    *,
    output_dir: str | os.PathLike,
    bert: str | None = None,
    name: str | None = None,
) -> None:
    """Writes a task pack as a folder that PyTorch's `adapters` loads.

    It is exact, so packs that trained LayerNorms are refused: there, these belong to the BERT.

    Args:
      pack: The pack's folder.
      output_dir: The folder to write.
      bert: The BERT that the pack was tuned on. By default it is where the pack says.
      name: The adapter's name, by default that of the task.
    """
    folder = os.fspath(pack)
    described = read_pack(folder)
    design = _exportable(described, folder)
    base = find_base(bert or described.base.get("origin", ""))
    name = name or _name_of(described, folder)
    if _is_taken(name) or not name.isprintable() or "." in name:
        raise UserError(f"--name={name!r}: PyTorch does not take this name for an adapter")
    tensors = read_tensors(folder, described)
    try:
        config = from_design(design, base.config.hidden_size, base.config.num_layers)
    except UserError as error:
        raise UserError(f"{folder}: {error}") from None
    common = {
        "hidden_size": base.config.hidden_size,
        "model_class": "BertAdapterModel",
        "model_name": base.origin,
        "model_type": "bert",
        "name": name,
        "version": _VERSION,
    }
    adapter = weights.to_tensors(tensors, design, name)
    with new_folder(os.fspath(output_dir), last=ADAPTER_CONFIG) as beside:
        _write(beside, ADAPTER_CONFIG, {"config": config, **common}, ADAPTER_WEIGHTS[0], adapter)
        if described.kind != NO_HEAD:
            head = described.make_head()
            form = head.form if isinstance(head, TextHead) else TextForm()
            _write(
                beside,
                HEAD_CONFIG,
                {
                    "config": heads.to_config(described.kind, form, described.class_names),
                    **common,
                },
                HEAD_WEIGHTS[0],
                heads.to_tensors(tensors, form, name),
            )
        card = make_card(described, base, name)
        write_atomically(os.path.join(beside, "README.md"), card.encode())


def _exportable(pack: Pack, folder: str) -> AdapterConfig:
    """Returns the design of a pack that consists of adapters and a head."""
    if pack.adapter is None:
        raise UserError(
            f"{folder}: has no adapters ({pack.tuning.method}), so there are none to export"
        )
    others = [path for path in pack.variables if not is_adapter(path) and path[:5] != "head/"]
    if any(map(is_layer_norm, others)):
        raise UserError(
            f"{folder}: has trained LayerNorms, which AdapterHub's adapters can't hold; tune one "
            "with --tuning=adapters --layer_norms=false"
        )
    if others:
        raise UserError(f"{folder}: changes the base: {some(others)}")
    return pack.adapter


def _name_of(pack: Pack, folder: str) -> str:
    name = pack.task or os.path.basename(os.path.abspath(folder))
    name = re.sub(r"[^\w@ -]", "_", name)
    return f"task_{name}" if _is_taken(name) else name


def _is_taken(name: str) -> bool:
    return not name or name in _TAKEN or name.startswith(("_", "register_"))


def _write(
    folder: str,
    config_name: str,
    config: Mapping[str, Any],
    weights_name: str,
    tensors: Mapping[str, np.ndarray],
) -> None:
    text = json.dumps(config, indent=2, sort_keys=True, ensure_ascii=False)
    write_atomically(os.path.join(folder, config_name), text.encode())
    # PyTorch's reader asks for the format.
    content = safetensors.numpy.save(dict(tensors), metadata={"format": "pt"})
    write_atomically(os.path.join(folder, weights_name), content)
