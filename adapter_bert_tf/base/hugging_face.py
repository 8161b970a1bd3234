"""Reads BERTs from Hugging Face's folders."""

import os
import re

import numpy as np
import safetensors

from adapter_bert_tf.base.base import Base, Tensors
from adapter_bert_tf.base.config import BertConfig, read_hugging_face_config
from adapter_bert_tf.base.names import hugging_face_names, split_heads
from adapter_bert_tf.base.torch_file import read_torch_file
from adapter_bert_tf.errors import UserError, first_line
from adapter_bert_tf.files import exists, local_copy, read_json_object, refuse_special
from adapter_bert_tf.text.tokenizer import Vocabulary, read_vocabulary

WEIGHTS, PICKLED_WEIGHTS = "model.safetensors", "pytorch_model.bin"

# Pre-training heads, task heads, and a buffer that older versions saved.
_NOT_THE_ENCODER = re.compile(r"^(cls|classifier|qa_outputs)\.|\.position_ids$|^position_ids$")
_OLD_NORM_NAMES = {"gamma": "weight", "beta": "bias"}


def is_hugging_face_folder(folder: str) -> bool:
    """Whether `folder` holds a Hugging Face model, even one without safetensors."""
    return exists(os.path.join(folder, "config.json"))


def read_hugging_face_base(
    folder: str, vocab_file: str | None = None, lower_case: bool | None = None
) -> Base:
    """Opens a folder with `config.json`, `vocab.txt` and the weights in one file."""
    names = (WEIGHTS, PICKLED_WEIGHTS)
    found = [name for name in names if exists(os.path.join(folder, name))]
    if not found:
        raise UserError(f"{folder}: expected {' or '.join(names)}, in one piece")
    weights = os.path.join(folder, found[0])
    config = read_hugging_face_config(os.path.join(folder, "config.json"))
    vocabulary = _read_vocabulary(folder, vocab_file, lower_case)
    if vocabulary:
        vocabulary.check_size(config.vocab_size, vocab_file or folder, may_be_padded=not vocab_file)
    return Base(
        origin=folder,
        config=config,
        vocabulary=vocabulary,
        read=lambda: _read_tensors(weights, config),
    )


def _read_vocabulary(
    folder: str, vocab_file: str | None, lower_case: bool | None
) -> Vocabulary | None:
    settings = os.path.join(folder, "tokenizer_config.json")
    if lower_case is None and exists(settings):
        lower_case = read_json_object(settings).get("do_lower_case")
        if not isinstance(lower_case, bool | None):
            raise UserError(f"{settings}: do_lower_case must be true or false, not {lower_case!r}")
    path = vocab_file or os.path.join(folder, "vocab.txt")
    if vocab_file is None and not exists(path):
        return None
    return read_vocabulary(path, lower_case)


def _read_tensors(weights: str, config: BertConfig) -> Tensors:
    paths = hugging_face_names(config.num_layers)
    for name, tensor in _stored(weights):
        if _NOT_THE_ENCODER.search(name):
            continue
        path = paths.get(_current_name(name), name)
        if tensor.dtype.kind not in "fV":  # NumPy knows bfloat16 as V.
            raise UserError(f"{weights}: {name} has {tensor.dtype} numbers; expected floats")
        array = np.asarray(tensor, np.float32)
        # PyTorch stores kernels as [out, in].
        array = array.T if path.endswith("/kernel") else array
        yield path, split_heads(path, array, config.num_attention_heads)


def _stored(weights: str) -> Tensors:
    refuse_special(weights)
    if weights.endswith(PICKLED_WEIGHTS):
        with local_copy(weights) as local:
            yield from sorted(read_torch_file(local).items())
        return
    try:
        with local_copy(weights) as local, safetensors.safe_open(local, framework="np") as file:
            for name in sorted(file.keys()):
                yield name, file.get_tensor(name)
    except (safetensors.SafetensorError, OSError, TypeError, ValueError) as error:
        reason = first_line(error)
        raise UserError(f"{weights}: not a readable safetensors file: {reason}") from None


def _current_name(name: str) -> str:
    name = name.removeprefix("bert.")
    stem, _, part = name.rpartition(".")
    return f"{stem}.{_OLD_NORM_NAMES.get(part, part)}"
