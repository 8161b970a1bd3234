"""Data sets from TFDS, which downloads them on first use."""

import urllib.error
import urllib.request
from typing import TYPE_CHECKING

from adapter_bert_tf.errors import UserError, first_line, quiet

if TYPE_CHECKING:
    import tensorflow as tf

# Where TFDS downloads a data set from, and how long we wait to find out that it is not reached.
_HOSTS = {"glue": "https://dl.fbaipublicfiles.com", "squad": "https://rajpurkar.github.io"}
_SECONDS = 5


def load_tfds(name: str, split: str, instead: str) -> "tf.data.Dataset":
    """Returns a split of a TFDS data set, and downloads it with progress if it is not there yet.

    Args:
      name: Data set and configuration.
      split: Name of the split in TFDS.
      instead: What to give instead of TFDS, for messages.
    """
    # Imported here, because it takes a second and files do without it.
    import tensorflow_datasets as tfds

    try:
        with quiet():
            builder = tfds.builder(name)
        try:
            with quiet():
                return builder.as_dataset(split=split)
        except AssertionError:  # What TFDS raises for data that is not there yet.
            _check_network(name, instead)
            builder.download_and_prepare()
            return builder.as_dataset(split=split)
    except UserError:
        raise
    except Exception as error:  # The download may fail with any kind of exception.
        raise UserError(f"TFDS: no {name}, {split}: {first_line(error)}; {instead}") from None


def _check_network(name: str, instead: str) -> None:
    """Refuses a download that can't work. TFDS itself would retry it for minutes."""
    host = _HOSTS[name.split("/")[0]]
    try:
        urllib.request.urlopen(host, timeout=_SECONDS).close()
    except urllib.error.HTTPError:
        pass  # It answered, which is enough.
    except OSError:
        raise UserError(
            f"TFDS: {name} is not on this machine, and {host} can't be reached; {instead}"
        ) from None
