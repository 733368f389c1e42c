"""A change as git writes patches, where the file is in a repository.

Made from the hunks that there are already: asking git would run what the repository's settings name, and take longer
than the edit.
"""

import os
from typing import Final, Literal

from ostler.tools.files.editing.diff import Hunk
from ostler.tools.tool import ToolOutput

_ESCAPES: Final = {"\a": "a", "\b": "b", "\t": "t", "\n": "n", "\v": "v", "\f": "f", "\r": "r", '"': '"', "\\": "\\"}


class GitDiff(ToolOutput):
    """What `git apply` takes in the repository's folder."""

    repository: str
    """The folder at its top."""
    filename: str
    """The file, from there on."""
    status: Literal["added", "modified"]
    additions: int
    deletions: int
    patch: str


def repository_of(place: str) -> str | None:
    """The folder at the top of the repository that a real path is in. Touches the disk."""
    folder = os.path.dirname(place)
    while True:
        if os.path.lexists(os.path.join(folder, ".git")):
            return folder
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def git_diff(place: str, found: list[Hunk] | None, mode: int, *, added: bool) -> GitDiff | None:
    """Null outside of repositories, and where the patch is too long to show. Touches the disk."""
    repository = repository_of(place)
    if repository is None or found is None:
        return None
    filename = os.path.relpath(place, repository)
    old, new = _quoted(f"a/{filename}"), _quoted(f"b/{filename}")
    head = [f"diff --git {old} {new}\n"]
    if added:
        head.append(f"new file mode {'100755' if mode & 0o111 else '100644'}\n")
    if found:
        head.append(f"--- {'/dev/null' if added else old}\n+++ {new}\n")
    return GitDiff(
        repository=repository,
        filename=filename,
        status="added" if added else "modified",
        additions=count(found, "+"),
        deletions=count(found, "-"),
        patch="".join([*head, *(_text(hunk) for hunk in found)]),
    )


def count(found: list[Hunk], sign: Literal["+", "-"]) -> int:
    return sum(line.startswith(sign) for hunk in found for line in hunk.lines)


def _text(hunk: Hunk) -> str:
    head = f"@@ -{hunk.old_start},{hunk.old_lines} +{hunk.new_start},{hunk.new_lines} @@\n"
    return head + "".join(f"{line}\n" for line in hunk.lines)


def _quoted(path: str) -> str:
    """As git writes names that hold more than plain letters."""
    if path.isascii() and path.isprintable() and not any(each in '"\\' for each in path):
        return path
    parts: list[str] = []
    for byte in os.fsencode(path):
        letter = chr(byte)
        if letter in _ESCAPES:
            parts.append(f"\\{_ESCAPES[letter]}")
        else:
            parts.append(letter if 0x20 <= byte < 0x7F else f"\\{byte:03o}")
    return f'"{"".join(parts)}"'
