"""`ostler serve` without the command line's parser, which takes as long to import as a quarter of the daemon.

Only what can be understood in one way is taken; everything else (`--help`, a mistake, an abbreviation) is for the
parser, which knows the words for it.
"""

import os
from collections.abc import Sequence
from typing import Final

from ostler.clients.sdk import DAEMON_COMMAND

_OPTIONS: Final = {"--host", "--port", "--socket", "--home", "--model", "--allow-host", "--log-file"}
_GLOBAL_OPTIONS: Final = {"--home"}


def serve_directly(arguments: Sequence[str]) -> None:
    """Replace this process by the daemon where that is what the arguments plainly say; else return."""
    command = build_command(arguments)
    if command is not None and "_OSTLER_COMPLETE" not in os.environ:
        os.execv(command[0], command)  # noqa: S606 - a list of words, no shell


def build_command(arguments: Sequence[str]) -> list[str] | None:
    """The command that is the daemon; None where the arguments are not plainly a `serve` of known options."""
    if "serve" not in arguments:
        return None
    place = arguments.index("serve")
    before = _read_options(arguments[:place], _GLOBAL_OPTIONS)
    after = _read_options(arguments[place + 1 :], _OPTIONS)
    if before is None or after is None:
        return None
    # What stands last counts: a home after the command wins over one before it.
    return [*DAEMON_COMMAND, *before, *after]


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
