"""`ostler run` and `ostler chat` begin to start the daemon before the command line's parser is imported.

The parser and the commands take as long to import as half of the daemon, and the daemon can start meanwhile on the
other processor. Only what can be understood in one way is taken; everything else waits for the parser. Where that
finds a mistake, the daemon that nobody needs ends with the command.
"""

import os
from collections.abc import Sequence
from typing import Final

_VALUES: Final = {
    "run": {
        *("--cwd", "--model", "--mode", "--allow", "--deny", "--on-ask", "--schema", "--max-requests"),
        *("--max-budget-usd", "--timeout", "--session", "--title", "--format"),
    },
    "chat": {"--cwd", "--model", "--mode"},
}
"""The options that are followed by a value. A test compares them with those of the parser."""
_FLAGS: Final = {"run": {"--trust", "--continue"}, "chat": {"--trust", "--continue", "--resume"}}
_WORDS: Final = {"run": 1, "chat": 0}
"""How many words there are beside the options: the prompt."""
_NEVER: Final = ("OSTLER_NO_START", "_OSTLER_COMPLETE")


def start_early(arguments: Sequence[str]) -> None:
    """Begin to start the daemon where that is what the arguments plainly need, and none runs."""
    if not needs_daemon(arguments) or any(os.environ.get(name) for name in _NEVER):
        return
    # Imported here: no other command needs it so early.
    from ostler.clients.sdk.process.spawn import spawn_ahead
    from ostler.protocol.places import find_places

    spawn_ahead(find_places(_find_home(arguments)))


def needs_daemon(arguments: Sequence[str]) -> bool:
    rest = list(arguments[2:] if _find_home(arguments) is not None else arguments)
    command = rest.pop(0) if rest else ""
    if command not in _WORDS:
        return False
    words = 0
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if not word.startswith("-"):
            words += 1
        elif name in _VALUES[command]:
            value = value if equals else rest.pop(0) if rest else ""
            if not value or (name == "--cwd" and not os.path.isdir(value)):
                return False
        elif word != "-" and word not in _FLAGS[command]:
            return False
        else:
            words += word == "-"
    return words == _WORDS[command]


def _find_home(arguments: Sequence[str]) -> str | None:
    """The home that stands before the command."""
    return arguments[1] if len(arguments) > 1 and arguments[0] == "--home" else None
