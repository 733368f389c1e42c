"""`ostler serve` without the command line's parser, which takes as long to import as a quarter of the daemon.

Only what can be understood in one way is taken; everything else (`--help`, a mistake, an abbreviation) is for the
parser, which knows the words for it.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

_DAEMON: Final = "ostler.server.__main__"
_OPTIONS: Final = {"--host", "--port", "--socket", "--home", "--model", "--allow-host", "--log-file"}
_GLOBAL_OPTIONS: Final = {"--home"}


def serve_directly(arguments: Sequence[str]) -> None:
    """Be the daemon where that is what the arguments plainly say, and end with it; else return.

    In this process: to start Python once more and to import again what is there would take 15 ms.
    """
    options = build_options(arguments)
    if options is None or "_OSTLER_COMPLETE" in os.environ:
        return
    sys.argv[1:] = options
    # The folder of this command: as with `python -P`, no module of the daemon is looked for there.
    if sys.path and sys.path[0] == os.path.dirname(os.path.realpath(sys.argv[0])):
        del sys.path[0]
    # By name: all that clients know of the server is how it is started.
    sys.exit(import_module(_DAEMON).main())


def build_options(arguments: Sequence[str]) -> list[str] | None:
    """The daemon's options; None where the arguments are not plainly a `serve` of known ones."""
    if "serve" not in arguments:
        return None
    place = arguments.index("serve")
    before = _read_options(arguments[:place], _GLOBAL_OPTIONS)
    after = _read_options(arguments[place + 1 :], _OPTIONS)
    if before is None or after is None:
        return None
    # What stands last counts: a home after the command wins over one before it.
    return [*before, *after]


def _read_options(words: Sequence[str], known: set[str]) -> list[str] | None:
    """The words, if all are known options, each with its value."""
    if len(words) % 2:
        return None
    for name, value in zip(words[::2], words[1::2], strict=True):
        if name not in known or not value or value.startswith("-"):
            return None
        if name == "--port" and not (value.isascii() and value.isdigit()):
            return None
    return list(words)
