"""Binds an approval to what runs: the folder, and the content of the scripts that a command names.

What was approved is what runs: where one of them has changed since, the command is asked about again.
"""

import hashlib
import os
from dataclasses import dataclass
from typing import Final

from ostler.tools import commands
from ostler.tools.commands import SimpleCommand
from ostler.tools.commands.syntax.words import read_word
from ostler.tools.context import SessionView
from ostler.tools.fs import paths

_MAX_SCRIPT_BYTES: Final = 16 * 1024 * 1024
_INTERPRETERS: Final = frozenset(
    {"bash", "sh", "dash", "zsh", "ksh", "python", "node", "ruby", "perl", "php", "source", "."}
)


@dataclass(frozen=True, slots=True)
class ApprovalBinding:
    """What an approval is bound to, beside the text of the command."""

    folder: str
    scripts: tuple[tuple[str, str], ...]
    """Each script that it runs by its path, with a digest of its content."""

    @property
    def digest(self) -> str:
        """A digest of all of it, to be stored with an ask."""
        joined = "\0".join((self.folder, *(part for script in self.scripts for part in script)))
        return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()


def compute_binding(command: str, session: SessionView) -> ApprovalBinding:
    """Blocks: reads the scripts."""
    folder = session.shell_folder
    found: dict[str, str] = {}
    for part in commands.parse_command(command).parts:
        for inner in (part, *commands.unwrap(part)):
            for path in list_scripts(inner):
                place = os.path.join(folder, inner.folder or "", path)
                found[paths.normalize_path(place)] = digest_script(place)
    return ApprovalBinding(folder, tuple(sorted(found.items())))


def list_scripts(part: SimpleCommand) -> list[str]:
    """The program, where it is given by its path, or all files that an interpreter may run."""
    words = part.words
    if not words or words[0] is None:
        return []
    # As it is written: what runs inside something else is known by its bare name.
    written = read_word(part.tokens[0].source)
    if "/" in written.text:
        return [os.path.expanduser(written.text) if written.kind == "home" else written.text]
    if words[0] not in _INTERPRETERS and words[0].rstrip("0123456789.") not in _INTERPRETERS:
        return []
    return [word for word in words[1:] if word is not None and not word.startswith("-")]


def digest_script(path: str) -> str:
    """A digest of its content; empty where there is none. Blocks."""
    try:
        with open(path, "rb", opener=_open_nonblocking) as file:
            return hashlib.sha256(file.read(_MAX_SCRIPT_BYTES)).hexdigest()
    except (OSError, ValueError):
        return ""


def _open_nonblocking(path: str, flags: int) -> int:
    """To open a FIFO in the place of a script would block for ever."""
    return os.open(path, flags | os.O_NONBLOCK)
