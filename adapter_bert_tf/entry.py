"""How the programs start and end."""

import io
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence

from absl import app, flags, logging

from adapter_bert_tf.errors import UserError
from adapter_bert_tf.files import MOST_OF_DESCRIPTION, read_text

# The exit codes of a run that was stopped and saved where it was, and of a program that Ctrl-C
# ended at once, as shells count them.
STOPPED, INTERRUPTED = 143, 130

# absl puts the choices of a flag in front of its help, and joins lines.
_HELP = re.compile(r"(<(?P<choices>.*)>: )?(?P<group>\w+): (?P<text>.*)", re.DOTALL)


_FLAG_FILE = re.compile(r"--?flagfile(=(?P<path>.*))?", re.DOTALL)


def print_flags(title: str) -> None:
    """Prints the program's flags in the groups that their help texts start with."""
    print(title.strip())
    groups: dict[str, list[str]] = {}
    by_module = flags.FLAGS.flags_by_module_dict()
    ours = [name for name in by_module if name == sys.argv[0] or name.startswith(__package__)]
    for flag in (flag for name in ours for flag in by_module[name]):
        match = _HELP.fullmatch(flag.help)
        if match:
            choices = f" <{match['choices']}>" if match["choices"] else ""
            shown = flag.default not in (None, False)
            default = f" [{(flag.default_as_str or '').strip(chr(39))}]" if shown else ""
            line = f"  --{flag.name:<26}{match['text']}{choices}{default}"
            groups.setdefault(match["group"], []).append(line)
    for group, lines in groups.items():
        print("", group, *lines, sep="\n")


def _print_help(title: str) -> None:
    try:
        print_flags(title)
        sys.stdout.flush()
    except BrokenPipeError:  # Who reads it, such as `head`, has enough.
        # Python flushes again when it ends, and would complain then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def prepare_tensorflow() -> None:
    """Sets what TensorFlow reads when it is loaded, which is after this."""
    # It leaves oneDNN off on CPUs without AVX-512, where it is faster all the same: a step of
    # MiniLM took 415 ms with it and 496 ms without, on an AMD EPYC with AVX2.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    # It would load Keras 3, which takes 2 s, and is not what Model Garden is written in.
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    # Its notes about the machine would stand in front of our one line.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def run(main: Callable[..., None], arguments: Sequence[str] = ()) -> None:
    """Parses the flags and calls `main`; a `UserError` ends with its one line and code 1.

    TensorFlow should be imported in `main`, not before.

    Args:
      main: Is given what stands on the command line besides flags.
      arguments: What that is, in words; all of it is needed.
    """
    prepare_tensorflow()
    # Files may hold characters that a terminal, or UTF-8, does not.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if {"--help", "--helpshort"} & set(sys.argv[1:]):
        _print_help(sys.modules[main.__module__].__doc__ or "")
        sys.exit(0)

    def guarded(given: Sequence[str]) -> None:
        if not flags.FLAGS["verbosity"].present:
            logging.set_verbosity(logging.WARNING)
        try:
            if len(given) - 1 > len(arguments):
                odd = given[1 + len(arguments)]
                raise UserError(f"{odd}: unexpected argument; flags start with --")
            if len(given) - 1 < len(arguments):
                raise UserError(f"expected on the command line: {' '.join(arguments)}")
            main(*given[1:])
        except UserError as error:
            print(f"error: {error}", file=sys.stderr)
            sys.exit(1)
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)

    app.run(guarded, flags_parser=_parse)


def _parse(arguments: list[str]) -> list[str]:
    """Parses the flags. Unlike absl's own parser, it tells a wrong one in a single line."""
    try:
        for path in _flag_files(arguments):
            read_text(path, MOST_OF_DESCRIPTION)  # absl would wait for a pipe.
        return flags.FLAGS(arguments)
    except (flags.Error, UserError) as error:
        print(f"error: {UserError(' '.join(str(error).split()))}", file=sys.stderr)
        sys.exit(1)


def _flag_files(arguments: Sequence[str]) -> Iterator[str]:
    for argument, after in zip(arguments, [*arguments[1:], None], strict=True):
        match = _FLAG_FILE.fullmatch(argument)
        path = match and (after if match["path"] is None else match["path"])
        if path:
            yield os.path.expanduser(path)
