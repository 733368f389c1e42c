"""Whether a file is guarded in a session: by its name, because trusted hooks run it, or because git does."""

import os
from dataclasses import dataclass, field
from typing import Final

from ostler.tools import commands
from ostler.tools.commands import FileAction
from ostler.tools.context import SessionView
from ostler.tools.fs import paths
from ostler.tools.fs.protected_paths import find_protection_reason, fold_case

_TRUSTED: Final = "a hook or an MCP server that is in effect here runs it"
_GIT: Final = "git takes the hooks of the repository from there"


def find_known_guard(written: str, real: str, session: SessionView, action: FileAction = "write") -> str | None:
    """Why a person has to allow the writing of a path, as far as its name and the session tell; None: nothing speaks
    against it.
    """
    reason = find_protection_reason(written, real)
    if reason is None and session.trusted_files:
        seen = (fold_case(written), fold_case(real))
        if any(_touches(seen, fold_case(path), action) for path in session.trusted_files):
            return _TRUSTED
    return reason


@dataclass(slots=True)
class GuardCheck:
    """The same, and whether git takes hooks from there. For one decision: what git said is not asked for again."""

    session: SessionView
    _repositories: dict[str, str | None] = field(default_factory=dict)
    _hooks: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def find_reason(self, written: str, real: str, action: FileAction = "write") -> str | None:
        """Blocks: looks for the repository, and asks git."""
        reason = find_known_guard(written, real, self.session, action)
        if reason is not None:
            return reason
        seen = (fold_case(written), fold_case(real))
        for folder in self._list_hook_folders(os.path.dirname(real)):
            if any(paths.is_inside(each, folder) for each in seen) or _touches(seen, folder, action):
                return _GIT
        return None

    def _list_hook_folders(self, folder: str) -> list[str]:
        """Of the repository around a folder, and of those that the session is in."""
        found: dict[str, None] = {}
        for start in (folder, *self.session.roots):
            if start not in self._repositories:
                self._repositories[start] = paths.find_repository_folder(start)
            if (repository := self._repositories[start]) is not None:
                if repository not in self._hooks:
                    self._hooks[repository] = _ask_for_hooks(repository)
                found.update(dict.fromkeys(self._hooks[repository]))
        return list(found)


def _ask_for_hooks(repository: str) -> tuple[str, ...]:
    folder = commands.find_hooks_folder(repository)
    return () if folder is None else (fold_case(folder), fold_case(paths.resolve_path(folder)))


def _touches(seen: tuple[str, ...], guarded: str, action: FileAction) -> bool:
    """Whether it is that file, or a folder above it that is moved, replaced or deleted."""
    return guarded in seen or (
        action in {"move", "link", "delete"} and any(guarded.startswith(each.rstrip("/") + "/") for each in seen)
    )
