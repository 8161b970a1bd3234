import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# As in our programs: see entry.py.
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")

import pathlib
import signal

import pytest
import tensorflow as tf

from tests import tiny

# What we may not pass on, where it is at hand.
SHARED = pathlib.Path(__file__).parents[2] / "shared"

# Programs that tests start inherit it, and a job in a shell's background ignores Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Two devices, for what is distributed. TensorFlow takes this only before it first runs.
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)


@pytest.fixture(scope="session")
def bert(tmp_path_factory) -> str:
    """A folder with a tiny random BERT in Google's format."""
    return tiny.write_google_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="session")
def reference() -> pathlib.Path:
    """Numbers of the original programs on others' texts, where they are at hand."""
    folder = SHARED / "reference"
    if not folder.is_dir():
        pytest.skip(f"no reference numbers at {folder}")
    return folder


@pytest.fixture(scope="session")
def two_devices() -> tf.distribute.Strategy:
    """Two logical CPUs; one strategy for all, as two in a process mix up their collectives."""
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


@pytest.fixture(scope="session")
def data() -> pathlib.Path:
    """Real data, where it is at hand."""
    folder = SHARED / "data"
    if not folder.is_dir():
        pytest.skip(f"no data at {folder}")
    return folder
