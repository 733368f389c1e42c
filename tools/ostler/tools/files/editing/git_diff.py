"""A change in the format of `git diff`, where the file is in a repository.

Built from the hunks that were computed already: git itself would run programs that the repository's settings name, and
take longer than the edit.
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


def find_repository(place: str) -> str | None:
    """The folder at the top of the repository that a real path is in. Touches the disk."""
    folder = os.path.dirname(place)
    while True:
        if os.path.lexists(os.path.join(folder, ".git")):
            return folder
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def build_git_diff(place: str, found: list[Hunk] | None, mode: int, *, added: bool) -> GitDiff | None:
    """Null outside of repositories, and where the patch is too long to show. Touches the disk."""
    repository = find_repository(place)
    if repository is None or found is None:
        return None
    filename = os.path.relpath(place, repository)
    old, new = _quote_path(f"a/{filename}"), _quote_path(f"b/{filename}")
    head = [f"diff --git {old} {new}\n"]
    if added:
        head.append(f"new file mode {'100755' if mode & 0o111 else '100644'}\n")
    if found:
        head.append(f"--- {'/dev/null' if added else old}\n+++ {new}\n")
    return GitDiff(
        repository=repository,
        filename=filename,
        status="added" if added else "modified",
        additions=count_changed(found, "+"),
        deletions=count_changed(found, "-"),
        patch="".join([*head, *(_format_hunk(hunk) for hunk in found)]),
    )


def count_changed(found: list[Hunk], sign: Literal["+", "-"]) -> int:
    return sum(line.startswith(sign) for hunk in found for line in hunk.lines)


def _format_hunk(hunk: Hunk) -> str:
    head = f"@@ -{hunk.old_start},{hunk.old_lines} +{hunk.new_start},{hunk.new_lines} @@\n"
    return head + "".join(f"{line}\n" for line in hunk.lines)


def _quote_path(path: str) -> str:
    """Quotes a path with other than printable ASCII characters as git does."""
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
