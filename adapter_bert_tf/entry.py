"""How the programs start and end."""

import os
import sys
from collections.abc import Callable, Sequence

from absl import app, flags, logging

from adapter_bert_tf.errors import UserError

# TensorFlow's notes about this machine, which would stand in front of our one line.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# The exit code of a run that SIGTERM ended, as shells count it.
STOPPED = 143


def run(main: Callable[[], None]) -> None:
    """Parses the flags and calls `main`; a `UserError` ends with its one line and code 1."""

    def guarded(arguments: Sequence[str]) -> None:
        if not flags.FLAGS["verbosity"].present:
            logging.set_verbosity(logging.WARNING)
        try:
            if len(arguments) > 1:
                raise UserError(f"{arguments[1]}: unexpected argument; flags start with --")
            main()
        except UserError as error:
            print(f"error: {error}", file=sys.stderr)
            sys.exit(1)

    app.run(guarded)
