"""What permission rules look at in a call: the places it touches, the command it runs, or a text."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ostler.tools.commands import Reading, Touched
from ostler.tools.fs import paths

OWN_STREAMS: Final = frozenset(
    {"/dev/stdin", "/dev/stdout", "/dev/stderr"}
    | {f"{folder}/{number}" for folder in ("/dev/fd", "/proc/self/fd") for number in range(3)}
)
"""What a command was started with, by all its names."""


@dataclass(frozen=True, slots=True)
class Place:
    """A path as it was written and as it really is after all links."""

    written: str
    real: str
    writes: bool = False
    deep: bool = False
    """Everything below it as well."""


@dataclass(frozen=True, slots=True)
class OfPlaces:
    """The call reads or writes these."""

    places: tuple[Place, ...]
    like: str | None = None
    """Another tool that does the same: its rules bind the call, too."""


@dataclass(frozen=True, slots=True)
class OfCommand:
    """The call runs a command, which visibly touches these places."""

    reading: Reading
    places: tuple[Place, ...]
    edits: bool = False
    """It does nothing but change them, as Edit would: what allows that allows this."""
    like: str | None = None
    """As above."""


@dataclass(frozen=True, slots=True)
class OfText:
    """A host, a kind of agent, a skill, a key: compared as text."""

    text: str


@dataclass(frozen=True, slots=True)
class OfServer:
    """The call is about something of an MCP server: the rules about all of that server bind it."""

    server: str

    @property
    def rule(self) -> str:
        return server_rule(self.server)


Subject = OfPlaces | OfCommand | OfText | OfServer


def server_rule(server: str) -> str:
    """The rule that speaks of all of an MCP server."""
    return f"mcp__{server}"


def place_of(path: str, *, writes: bool = False, deep: bool = False, real: paths.Real = paths.real) -> Place:
    """Looks at the file system, and so blocks."""
    return Place(paths.written(path), real(path), writes, deep)


def places_of(touched: Iterable[Touched], real: paths.Real = paths.real) -> tuple[Place, ...]:
    """Those of a command. Blocks, as above."""

    def found(path: str) -> str:
        return real_in_command(path, real)

    return tuple(place_of(each.path, writes=each.writes, deep=each.deep, real=found) for each in touched)


def real_in_command(path: str, real: paths.Real = paths.real) -> str:
    """Where it leads in the command's own process. Blocks, as above."""
    # Looked up here, its streams would be ours, and our log is among them. Only these very spellings:
    # a longer one can lead through a link.
    return path if path in OWN_STREAMS else real(path)
