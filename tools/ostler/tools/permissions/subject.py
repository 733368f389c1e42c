"""What permission rules are matched against in a call: the paths it accesses, the command it runs, or a text."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ostler.tools.commands import FileAccess, FileAction, FileEffects, Mention, ParsedCommand, ShownRepository
from ostler.tools.fs import paths

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")
OWN_STREAMS: Final = frozenset(
    {"/dev/stdin", "/dev/stdout", "/dev/stderr"}
    | {f"{folder}/{number}" for folder in ("/dev/fd", "/proc/self/fd") for number in range(3)}
)
"""The standard streams of a command, by all their names."""


@dataclass(frozen=True, slots=True)
class AccessedPath:
    """A path that a call accesses, as written and with all links resolved."""

    written: str
    real: str
    action: FileAction = "read"
    deep: bool = False
    """Everything below it as well."""
    lists: bool = False
    """Only the name is shown, and with `deep` the names below it."""

    @property
    def writes(self) -> bool:
        return self.action != "read"


@dataclass(frozen=True, slots=True)
class PathSubject:
    """The call reads or writes these paths."""

    paths: tuple[AccessedPath, ...]
    like_tool: str | None = None
    """Another tool that does the same: its rules apply to the call, too."""


@dataclass(frozen=True, slots=True)
class CommandSubject:
    """The call runs a command, which visibly accesses these paths."""

    parsed: ParsedCommand
    paths: tuple[AccessedPath, ...]
    edits: bool = False
    """It does nothing but change these paths, as Edit would: rules that allow Edit allow it."""
    unknown_reads: bool = False
    """It reads files of which only the run tells the names."""
    unknown_writes: bool = False
    """The same for files that it changes."""
    unchecked: str | None = None
    """A folder that holds more files than were looked at."""
    unknown: str | None = None
    """Why it may do more to files than is said here; null: that is all."""
    repositories: tuple[ShownRepository, ...] = ()
    """Whose contents git shows, present ones and old ones."""
    mentions: tuple[Mention, ...] = ()
    """Paths in the words of programs that may do anything with them."""
    like_tool: str | None = None
    """As above."""


@dataclass(frozen=True, slots=True)
class TextSubject:
    """A host, a kind of agent, a skill, a key: compared as text."""

    text: str
    paths: tuple[AccessedPath, ...] = ()
    """Paths among its parameters, which rules about files bind."""


@dataclass(frozen=True, slots=True)
class ServerSubject:
    """The call is about something of an MCP server: the rules about that whole server apply to it."""

    server: str
    paths: tuple[AccessedPath, ...] = ()
    """As above."""

    @property
    def rule(self) -> str:
        return format_server_rule(self.server)


Subject = PathSubject | CommandSubject | TextSubject | ServerSubject


def format_server_rule(server: str) -> str:
    """The rule for a whole MCP server."""
    return f"mcp__{server}"


def normalize_name(name: str) -> str:
    """A server's or tool's own name in the characters that a provider takes."""
    return _NOT_IN_NAMES.sub("_", name)


def list_server_rules(server: str) -> tuple[str, ...]:
    """The rules for a whole server: by its own name, and as the names of its tools begin."""
    return tuple(dict.fromkeys((format_server_rule(server), format_server_rule(normalize_name(server)))))


def resolve_access(
    path: str, *, writes: bool = False, deep: bool = False, real: paths.PathResolver = paths.resolve_path
) -> AccessedPath:
    """The path, resolved. Reads the file system, and so blocks."""
    return AccessedPath(paths.normalize_path(path), real(path), "write" if writes else "read", deep)


def build_command_subject(
    parsed: ParsedCommand, effects: FileEffects, real: paths.PathResolver = paths.resolve_path
) -> CommandSubject:
    """What rules are matched with for a command that has these effects. Blocks, as above."""
    return CommandSubject(
        parsed,
        resolve_accesses(effects.accesses, real),
        unknown_reads=effects.unknown_reads,
        unknown_writes=effects.unknown_writes,
        unchecked=effects.unchecked,
        unknown=effects.unknown,
        repositories=effects.repositories,
        mentions=effects.mentions,
    )


def resolve_accesses(
    touched: Iterable[FileAccess], real: paths.PathResolver = paths.resolve_path
) -> tuple[AccessedPath, ...]:
    """The paths that a command accesses, resolved. Blocks, as above."""

    def found(path: str) -> str:
        return resolve_in_command(path, real)

    return tuple(
        AccessedPath(paths.normalize_path(each.path), found(each.path), each.action, each.deep, each.lists)
        for each in touched
    )


def resolve_in_command(path: str, real: paths.PathResolver = paths.resolve_path) -> str:
    """The real path, as the command's own process would see it. Blocks, as above."""
    # Resolved here, its streams would be the daemon's, and the daemon's log is among them. Only these exact
    # spellings: a longer one can lead through a link.
    return path if path in OWN_STREAMS else real(path)
