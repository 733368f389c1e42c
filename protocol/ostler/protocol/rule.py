"""Permission rules on the wire: which hold, where they come from, and what they make of a call."""

from typing import Annotated, Any, Literal

from pydantic import Field

from ostler.protocol.ids import SessionId
from ostler.protocol.limits import DEFAULT_PAGE, MAX_PAGE
from ostler.protocol.session import RuleText
from ostler.protocol.wire import Moment, Name, Params, Shape, Time

Behavior = Literal["allow", "ask", "deny"]
RuleScope = Literal["session", "local", "project", "user"]


class RuleList(Params):
    """Whose rules to list."""

    session_id: SessionId
    """Which session."""
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = DEFAULT_PAGE
    """How many on a page."""
    page: str | None = None
    """The `next` of the page before."""


class RuleEntry(Shape):
    """A rule, and where it comes from."""

    behavior: Behavior
    """What it says."""
    rule: str
    """The rule, as it was written."""
    source: str
    """`policy`, `flag`, `session`, `local`, `project` or `user`."""
    file: str | None = None
    """The file that it stands in; null for a rule of the session."""
    expires_at: Time | None = None
    """When it ends; null is never."""
    counts: bool = True
    """Whether it holds: what a project allows does nothing before the project is trusted."""


class SettingsProblem(Shape):
    """Something wrong in a settings file."""

    file: str
    """The file."""
    line: int
    """The line, counted from 1."""
    column: int
    """The column, counted from 1."""
    message: str
    """What is wrong, and perhaps what was meant."""


class RulePage(Shape):
    """Rules, the strongest source first."""

    rules: list[RuleEntry]
    """The rules of this page."""
    problems: list[SettingsProblem] = []
    """What is wrong in the settings files that were read."""
    next: str | None
    """The `page` to ask for next; null at the end."""


class RuleAdd(Params):
    """A rule to remember."""

    session_id: SessionId
    """The session that it is for, or whose folder's settings it is written to."""
    behavior: Behavior
    """What it says."""
    rule: RuleText
    """`Tool` or `Tool(content)`."""
    scope: RuleScope = "session"
    """How far it reaches: this session, or settings: the folder's (`local`, `project`) or the person's (`user`)."""
    expires_at: Moment | None = None
    """When it ends, as RFC 3339 with a zone; null is never."""


class RuleRemove(Params):
    """A rule to forget."""

    session_id: SessionId
    """The session that it is of, or whose folder's settings hold it."""
    behavior: Behavior
    """What it says."""
    rule: RuleText
    """The rule, as it was written."""
    scope: RuleScope = "session"
    """Where it is."""


class RuleExplain(Params):
    """A call that nobody makes."""

    session_id: SessionId
    """The session that it would be made in."""
    tool: Name
    """The tool."""
    input: dict[str, Any]
    """What it would be given."""


class ExplainedPart(Shape):
    """One simple command of a call of Bash."""

    text: str
    """The command."""
    read_only: bool
    """Whether it only reads."""
    reason: str | None = None
    """Why it does more than read."""


class FileEffect(Shape):
    """What a command would do to one file or folder."""

    action: Literal["read", "write", "create", "move", "link", "delete"]
    """What it would do. `move` is the file that goes away, `link` the new name."""
    path: str
    """The path, with all links resolved."""
    written: str | None = None
    """The path as the command names it, where that is another one."""
    deep: bool = False
    """Whether everything below it counts as well."""


class ExplainedEffects(Shape):
    """What a command would do to files, as far as its words and the disk tell."""

    files: list[FileEffect] = []
    """What it would read, write, create, move, link and delete; at most a hundred."""
    left_out: int = 0
    """How many more there are."""
    unknown: str | None = None
    """Why it may do more than that; null: that is all."""
    unknown_reads: bool = False
    """Whether it reads files of which only the run tells the names."""
    unknown_writes: bool = False
    """Whether it changes such files."""
    shows_repository: bool = False
    """Whether git shows or copies contents from its store, old ones included."""


class Explanation(Shape):
    """What would happen to a call now."""

    behavior: Behavior
    """What would be done."""
    by: str
    """What decides: `rule`, `mode`, `read_only`, `tool`, `safety`, `on_ask`, or `default` where nothing does."""
    rule: str | None = None
    """The rule that decides."""
    source: str | None = None
    """Where that rule comes from."""
    read_only: bool = False
    """Whether the call only reads."""
    reason: str = ""
    """Why, for people."""
    parts: list[ExplainedPart] = []
    """Of a command: the simple commands that it consists of."""
    effects: ExplainedEffects | None = None
    """Of a command: what it would do to files; null for other tools."""
    grants: list[str] = []
    """What was approved with a plan and may yet allow the call: the small model would be asked whether it is meant."""
