"""What a tool says of itself in one value: to rules about permission, and of the commands that it runs."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from ostler.tools.context import SessionView
from ostler.tools.permissions.subject import Subject

T = TypeVar("T")
FromInput = str | Callable[[Any], T]
"""The name of a parameter, or a function of the input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionTraits:
    """What rules about permission know of a tool's calls.

    A tool that says nothing is bound by the rules about files wherever a parameter of it is named like a path.
    """

    path: FromInput[str | None] | None = None
    """The path that its rules match: `"file_path"`."""
    paths: Callable[[Any], tuple[str, ...]] | None = None
    """All paths that it is given, which rules about files bind. Null: `path`, or the parameters named like one."""
    rule_family: str | tuple[str, ...] | None = None
    """The tools whose rules about files bind it. Null: Read's where it only reads, else Edit's and Read's; (): none."""
    server: FromInput[str | None] | None = None
    """The MCP server that its rules match."""
    text: FromInput[str] | None = None
    """What the content of its rules is compared with: a host, a name, a command. Null: the path."""
    subject: Callable[[Any, SessionView], Awaitable[Subject | None]] | None = None
    """What rules are compared with, where none of these can say it. Where it returns None, these do."""
    requires_user: bool = False
    """It asks a person something, and does nothing else: sessions that only read have it, too."""
    denied_code: int | None = None
    """The number by which clients know that permission was refused."""

    def list_parameters(self) -> list[str]:
        """The parameters that are named here."""
        return [each for each in (self.path, self.server, self.text) if isinstance(each, str)]


def _never(given: Any) -> bool:
    return False


async def _bind_nothing(given: Any, session: SessionView) -> str | None:
    return None


def _build_nothing(printed: str, duration_ms: int) -> BaseModel | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellTraits:
    """How a tool runs commands; the default, `NO_SHELL`, is that of a tool that runs none."""

    is_shell: bool = False
    """It is a shell of its own: its rules are about commands, and a failure of it stops the shell calls beside it."""
    runs_commands: bool = False
    """Rules about commands apply to it, and what it runs can be restricted to reading."""
    waits_at_gate: bool = False
    """Its command does not begin before `processes.record_start` has returned: after the call's start was stored."""
    only_waits: Callable[[Any], bool] = _never
    """Does this command only wait, as `sleep` does, so that it is never moved to the background?"""
    writes_files: Callable[[Any], bool] = _never
    """May this call write files itself, without a command, under Edit's rules?"""
    bound_to: Callable[[Any, SessionView], Awaitable[str | None]] = _bind_nothing
    """A digest of what a person approves beside the input; where it has changed by then, the call does not run."""
    stopped: Callable[[str, int], BaseModel | None] = _build_nothing
    """The output, for clients, of a call that was stopped: of what it had printed, and after how many milliseconds."""


NO_PERMISSION_TRAITS: Final = PermissionTraits()
NO_SHELL: Final = ShellTraits()
