"""Opens a page on this machine on which an export can be tried.

    python -m adapter_bert_tf.playground --export_dir=models/bert

The export answers in the same process, by TF Serving's REST protocol. With a server, the page asks
that one:

    python -m adapter_bert_tf.playground --server=http://localhost:8501 --model=bert

Only this machine can open the page, unless --host says otherwise.
"""

import os
import sys
import urllib.parse
import webbrowser

from absl import flags

from adapter_bert_tf import entry
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.files import absolute
from adapter_bert_tf.serve.description import Description, read_description
from adapter_bert_tf.serve.page import PageServer
from adapter_bert_tf.serve.rest import LocalModel, Model, RemoteModel


def _main() -> None:
    values = flags.FLAGS
    if values.export_dir is None and values.server is None:
        raise UserError("--export_dir, or --server: expected one of them")
    if values.server is not None and not _is_address(values.server):
        raise UserError(f"--server={values.server}: expected http://HOST:PORT")
    described = None if values.export_dir is None else read_description(values.export_dir)
    name = values.model or (_name_of(described) if described else "bert")
    server = PageServer(values.host, values.port)
    model: Model
    if described is None or values.server is not None:
        model = RemoteModel(values.server, name)
    else:
        print(f"loading {described.folder} ...", flush=True)
        # Imported here, because TensorFlow takes seconds, and a server elsewhere does without.
        from adapter_bert_tf.serve.loaded import load_export

        export = load_export(described.folder)
        export.warm_up()
        model = LocalModel(export, name)
    print(f"open {server.url} (Ctrl-C ends it)", flush=True)
    if values.open and _has_browser():
        webbrowser.open(server.url)
    server.serve(model, described)


def _is_address(server: str) -> bool:
    try:
        parts = urllib.parse.urlsplit(server)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _name_of(described: Description) -> str:
    return os.path.basename(os.path.dirname(absolute(described.folder)))


def _has_browser() -> bool:
    """Returns whether there is a screen; a browser for the terminal would take the terminal."""
    return sys.platform in ("darwin", "win32") or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )


def main() -> None:
    """Runs the program."""
    flags.DEFINE_string("export_dir", None, "Model: folder of an export, or of a version of it.")
    flags.DEFINE_string("server", None, "Model: a server's address, such as http://localhost:8501.")
    flags.DEFINE_string(
        "model", None, "Model: its name on the server; by default that of its folder, or bert."
    )
    flags.DEFINE_string("host", "127.0.0.1", "Page: 0.0.0.0 lets other machines open it.")
    flags.DEFINE_integer("port", 8600, "Page: its port; 0 for any that is free.")
    flags.DEFINE_boolean("open", True, "Page: open it in a browser.")
    entry.run(_main)


if __name__ == "__main__":
    main()
