import numpy as np
import pytest

from adapter_bert_tf.baseline import glove
from adapter_bert_tf.baseline.open import open_module
from tests.baseline import made


@pytest.fixture(scope="session")
def second_format(tmp_path_factory) -> str:
    """The folder of a text module of TensorFlow 2."""
    return made.write_second_format(tmp_path_factory.mktemp("modules") / "second")


@pytest.fixture(scope="session")
def first_format(tmp_path_factory) -> str:
    """The folder of a text module in TF-Hub's first format."""
    return made.write_first_format(tmp_path_factory.mktemp("modules") / "first")


@pytest.fixture(scope="session")
def glove_files(tmp_path_factory) -> dict[str, str]:
    """A few words in the files of GloVe's package."""
    import pyarrow
    import pyarrow.parquet

    folder = tmp_path_factory.mktemp("glove")
    words = [*(f"word{i}" for i in range(24)), "!", "a"]
    paths = {glove.VECTORS: str(folder / "vectors.npy"), glove.WORDS: str(folder / "words")}
    vectors = np.random.default_rng(1).normal(size=[len(words), made.WIDTH])
    np.save(paths[glove.VECTORS], np.asfortranarray(vectors.astype(np.float32)))
    pyarrow.parquet.write_table(pyarrow.table({"index": words}), paths[glove.WORDS])
    return paths


@pytest.fixture
def small_glove(glove_files, monkeypatch):
    """Makes `glove` a module of a few words."""
    monkeypatch.setattr(glove, "find_glove", lambda: glove_files)
    open_module.cache_clear()
    yield
    open_module.cache_clear()
