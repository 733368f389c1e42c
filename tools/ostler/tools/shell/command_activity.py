"""What a command is there for, as clients fold it: it searches, reads or lists; all else runs."""

from typing import Final

from ostler.tools import commands
from ostler.tools.shell.bash_policy import seems_read_only
from ostler.tools.tool import Activity

_SEARCHES: Final = frozenset({"grep", "egrep", "fgrep", "zgrep", "rg", "find", "which", "type", "command"})
_READS: Final = frozenset({
    "cat", "head", "tail", "nl", "wc", "stat", "file", "strings", "od", "xxd", "hexdump", "cmp", "diff", "cut", "sort",
    "uniq", "tr", "jq", "sed", "column", "md5sum", "sha1sum", "sha256sum", "readlink", "realpath",
})  # fmt: skip
_LISTS: Final = frozenset({"ls", "tree", "du", "df"})
# Words between the others; by themselves they run.
_NEUTRAL: Final = frozenset({"echo", "printf", "true", "false", ":", "cd", "pwd", "test", "["})
_KINDS: Final[tuple[tuple[Activity, frozenset[str]], ...]] = (
    ("search", _SEARCHES),
    ("read", _READS),
    ("list", _LISTS),
)


def activity_of(command: str) -> Activity:
    """Of several kinds the first of: search, read, list. What may change something runs, whatever else it does."""
    if not seems_read_only(command):
        return "run"
    names = {part.words[0] for part in commands.read_command(command).parts if part.words} - _NEUTRAL
    if not names <= _SEARCHES | _READS | _LISTS:
        return "run"
    for kind, programs in _KINDS:
        if names & programs:
            return kind
    return "run"
