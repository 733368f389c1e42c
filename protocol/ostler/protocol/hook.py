"""Hooks on the wire: which there are, and what came of each run."""

from typing import Annotated, Literal

from pydantic import Field

from ostler.protocol.ids import CallId, SessionId
from ostler.protocol.limits import DEFAULT_PAGE, MAX_PAGE
from ostler.protocol.rule import SettingsProblem
from ostler.protocol.wire import Params, Shape


class HookList(Params):
    """Whose hooks to list."""

    session_id: SessionId
    """Which session."""
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = DEFAULT_PAGE
    """How many on a page."""
    page: str | None = None
    """The `next` of the page before."""


HookKind = Literal["command", "http", "prompt", "python"]
HookSource = Literal["policy", "user", "project", "local", "plugin"]


class HookEntry(Shape):
    """A hook as it was declared."""

    event: str
    """When it runs."""
    name: str
    """Where it stands in its file, or the plug-in's name."""
    kind: HookKind
    """How it runs."""
    shown: str
    """What it does: the command, the address, the question."""
    matcher: str | None = None
    """The tools, or whatever else the event has, that it is for; null is all."""
    condition: str | None = None
    """The permission rule of its `if`."""
    timeout_ms: int
    """How long it may take."""
    source: HookSource
    """Whose it is."""
    file: str | None = None
    """The file that it stands in; null for a plug-in."""
    acts: bool = True
    """Whether it runs: a project's hooks do nothing before the project is trusted."""
    problem: str | None = None
    """Why it cannot be run."""


class HookPage(Shape):
    """Hooks, in the order in which they are declared."""

    hooks: list[HookEntry]
    """The hooks of this page."""
    problems: list[SettingsProblem] = []
    """What is wrong with the hooks in the settings files."""
    next: str | None
    """The `page` to ask for next; null at the end."""


class HookRun(Shape):
    """One run of one hook."""

    event: str
    """When it ran."""
    hook: str
    """Which hook: where it stands in its file, or the plug-in's name."""
    source: HookSource
    """Whose it is."""
    file: str | None = None
    """The file that it stands in."""
    kind: HookKind
    """How it ran."""
    shown: str
    """What it did: the command, the address, the question."""
    outcome: str
    """`passed`, `allowed`, `asked`, `denied`, `blocked`, `stopped`, `failed` or `timed_out`."""
    duration_ms: int
    """How long it took."""
    exit_code: int | None = None
    """Of a command that ended by itself."""
    stdout: str = ""
    """What it printed, cut."""
    stderr: str = ""
    """What it said beside, cut."""
    error: str | None = None
    """Why it failed."""
    call_id: CallId | None = None
    """The call that it ran for."""


class HookData(Shape):
    """A hook has run."""

    run: HookRun
    """What came of it."""
