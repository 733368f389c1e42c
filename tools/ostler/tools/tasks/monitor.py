"""Monitor: watches a command, a file that grows, or an MCP resource, whose new lines become messages to the session."""

import os
import shlex
import stat
from dataclasses import replace
from typing import Final

from pydantic import Field

from ostler.protocol.ids import CallId, TaskId
from ostler.tools import commands
from ostler.tools.context import SessionView, ToolContext
from ostler.tools.fs import paths
from ostler.tools.fs.text_file import is_stream
from ostler.tools.permissions import BASH, READ
from ostler.tools.permissions.subject import (
    PathSubject,
    ServerSubject,
    Subject,
    TextSubject,
    resolve_access,
)
from ostler.tools.sandbox import NotProtectable
from ostler.tools.search import line_filter
from ostler.tools.services import McpResource, NotWatchable, WatchSpec
from ostler.tools.shell.approval_binding import compute_binding
from ostler.tools.shell.bash_policy import (
    find_subject,
    is_longer,
    judge,
    parse_ahead,
    parse_command,
    remember,
    seems_read_only,
)
from ostler.tools.shell.running.command import BackgroundedCommand, run_command
from ostler.tools.shell.running.launch import CommandSpec, NoFolder
from ostler.tools.text import one_line
from ostler.tools.threads import read_in_thread
from ostler.tools.tool import (
    Allow,
    AskFirst,
    Block,
    Check,
    Failure,
    Refuse,
    Tool,
    ToolInput,
    ToolOutput,
    ToolResult,
    text_block,
)
from ostler.tools.traits import PermissionTraits, ShellTraits

_MAX_TIMEOUT_MS: Final = 24 * 3600 * 1000
_MAX_COMMAND_BYTES: Final = 100_000
_MAX_URI_CHARS: Final = 8_000
_MAX_NAMES: Final = 50


class ResourceInput(ToolInput):
    """Something that an MCP server tells of."""

    server: str = Field(description="The server's name.")
    resource: str = Field(description="The resource's URI.")


class MonitorInput(ToolInput):
    """What to watch, for what, and how long."""

    command: str | None = Field(None, description="A command, as bash takes it, whose lines are watched.")
    path: str | None = Field(None, description="Absolute path of a file whose new lines are watched.")
    mcp: ResourceInput | None = Field(None, description="A resource of an MCP server, whose new lines are watched.")
    description: str = Field(description="What it waits for, in a few words.")
    until: str | None = Field(None, description="A regular expression: the first line that matches ends it.")
    timeout: int = Field(ge=1000, le=_MAX_TIMEOUT_MS, description="Milliseconds after which it ends.")


class MonitorOutput(ToolOutput):
    """The task that watches."""

    task_id: TaskId
    description: str
    until: str | None = None
    timeout_ms: int
    sandboxed: bool = False


async def _find_subject(given: MonitorInput, session: SessionView) -> Subject:
    """The rules of Bash apply to a command, those of Read to a file."""
    if given.command is not None:
        about = await read_in_thread(find_subject, given.command, session.shell_folder)
        return replace(about, like_tool=BASH)
    if given.path is not None:
        return PathSubject((await read_in_thread(resolve_access, given.path),), like_tool=READ)
    return ServerSubject(given.mcp.server) if given.mcp is not None else TextSubject("")


async def _find_binding(given: MonitorInput, session: SessionView) -> str | None:
    """What is approved beside the input: where the path leads, the server's entry, or what the command runs."""
    if given.path is not None:
        return await read_in_thread(paths.resolve_path, given.path)
    if given.mcp is not None:
        return session.servers.get(given.mcp.server)
    return (await read_in_thread(compute_binding, given.command or "", session)).digest


class Monitor(Tool[MonitorInput, MonitorOutput]):
    """Watches a command, a file or a resource in the background."""

    name = "Monitor"
    Input = MonitorInput
    Output = MonitorOutput
    title = "Watches a command, a file or a resource, and tells of its lines"
    search_hint = "watch follow tail log wait for line background event"
    permissions = PermissionTraits(
        path="path",
        server=lambda given: given.mcp.server if given.mcp is not None else None,
        text=lambda given: given.command or given.path or "",
        subject=_find_subject,
    )
    shell = ShellTraits(runs_commands=True, waits_at_gate=True, bound_to=_find_binding)

    def __init__(self) -> None:
        self._approved: dict[CallId, str] = {}
        self._literal: dict[CallId, str] = {}
        """As for Bash: what runs in place of a command that only reads."""

    def is_enabled(self, session: SessionView) -> bool:
        return session.background and session.config.tools.monitor

    def summary(self, given: MonitorInput) -> str:
        # As with Bash: what is watched, and never only the model's description of it.
        resource = f"{given.mcp.resource} of {given.mcp.server}" if given.mcp is not None else ""
        return f"Monitor {one_line(given.command or given.path or resource, 200)}"

    def classifier_text(self, given: MonitorInput) -> str:
        return given.command or ""

    def is_read_only(self, given: MonitorInput) -> bool:
        return given.command is None or seems_read_only(given.command)

    def is_destructive(self, given: MonitorInput) -> bool:
        return given.command is not None and commands.is_destructive(parse_command(given.command))

    async def validate(self, given: MonitorInput, context: ToolContext) -> Failure | None:
        if sum(each is not None for each in (given.command, given.path, given.mcp)) != 1:
            return Failure("Give one of command, path and mcp, and only one.")
        if given.mcp is not None:
            problem = _check_resource(given.mcp, context.session)
        elif given.path is not None:
            problem = await read_in_thread(_check_path, given.path)
        else:
            problem = _check_command(given.command or "")
        if problem is None and given.until is not None:
            problem = await _check_pattern(given.until)
        if problem is None and given.command is not None:
            await parse_ahead(given.command)
        return Failure(problem) if problem is not None else None

    async def check_permission(self, given: MonitorInput, context: ToolContext) -> Check:
        if given.path is not None:
            place, check = await read_in_thread(_check_follow, given.path, context.session)
            self._remember_approval(context.call_id, place)
            return check
        if given.mcp is not None:
            self._remember_approval(context.call_id, context.session.servers.get(given.mcp.server, ""))
            question = f"Watch {' '.join(given.mcp.resource.split())[:200]} of the MCP server {given.mcp.server}?"
            return AskFirst(question, reason="An MCP server acts with your powers.")
        command = given.command or ""
        self._remember_approval(context.call_id, await _find_binding(given, context.session) or "")
        # What it watches runs as any command does: nothing would restrict one that only looks.
        judged = await read_in_thread(
            judge, command, replace(context.session, config=replace(context.session.config, network_reads=False))
        )
        if (literal := judged.literal_command) is not None:
            remember(self._literal, context.call_id, literal)
        if judged.only_edits:
            # It would run outside the sandbox, to which the mode acceptEdits restricts such commands.
            return AskFirst(f"Watch {one_line(command, 200)}?", reason="It changes files.")
        return judged.check

    def _remember_approval(self, call_id: CallId, approved: str) -> None:
        remember(self._approved, call_id, approved)

    async def run(self, given: MonitorInput, context: ToolContext) -> ToolResult[MonitorOutput] | Failure:
        if not context.services.tasks.enabled:
            return Failure("Nothing goes on in the background here, so nothing can be watched.")
        approved, literal = self._approved.pop(context.call_id, None), self._literal.pop(context.call_id, None)
        now = await _find_binding(given, context.session)
        if approved is not None and approved != now:
            return Failure("What is to be watched is something else than when it was allowed. Ask again.")
        watch = WatchSpec(given.until, given.timeout / 1000)
        if given.mcp is not None:
            resource = McpResource(given.mcp.server, now or "", given.mcp.resource)
            return await self._follow(given, resource, watch, context)
        spec = CommandSpec(
            given.command if given.command is not None else _build_tail_command(now or ""),
            watch.seconds,
            given.description,
            in_background=True,
            watch=watch,
            expanded=literal,
        )
        try:
            begun = await run_command(spec, context)
        except (NoFolder, NotProtectable) as error:
            return Failure(str(error))
        except OSError as error:
            return Failure(f"The command could not be started: {error.strerror}.")
        assert isinstance(begun, BackgroundedCommand)
        return ToolResult(_build_output(given, begun.task_id, sandboxed=begun.sandboxed))

    async def _follow(
        self, given: MonitorInput, resource: McpResource, watch: WatchSpec, context: ToolContext
    ) -> ToolResult[MonitorOutput] | Failure:
        try:
            task_id = await context.services.tasks.follow(context.call_id, resource, given.description, watch)
        except NotWatchable as error:
            return Failure(str(error))
        return ToolResult(_build_output(given, task_id))

    def render(self, output: MonitorOutput) -> list[Block]:
        what = "The first line that matches is" if output.until is not None else "Each line is"
        return [
            text_block(
                f"Monitoring as {output.task_id}, for {output.timeout_ms / 1000:g} s at most. {what} told to you as a "
                "message: go on with something else, or use Sleep. TaskStop ends it."
            )
        ]


def _build_output(given: MonitorInput, task_id: TaskId, *, sandboxed: bool = False) -> MonitorOutput:
    return MonitorOutput(
        task_id=task_id,
        description=given.description,
        until=given.until,
        timeout_ms=given.timeout,
        sandboxed=sandboxed,
    )


def _check_resource(what: ResourceInput, session: SessionView) -> str | None:
    if len(what.resource) > _MAX_URI_CHARS:
        return f"The resource is longer than {_MAX_URI_CHARS} characters."
    if not what.resource.strip():
        return "The resource is empty."
    if what.server in session.servers:
        return None
    known = ", ".join(sorted(session.servers)[:_MAX_NAMES])
    have = f"There are: {known}." if known else "The session has none."
    return f"There is no MCP server {what.server[:100]!r}. {have}"


def _check_command(command: str) -> str | None:
    if "\0" in command:
        return "The command holds a NUL byte."
    if not command.strip():
        return "The command is empty."
    if is_longer(command, _MAX_COMMAND_BYTES):
        return f"The command is longer than {_MAX_COMMAND_BYTES} bytes: write it to a file with Write, and run that."
    return None


def _check_path(path: str) -> str | None:
    """Blocks."""
    if (problem := paths.check_path(path)) is not None:
        return problem
    if is_stream(paths.normalize_path(path)):
        return f"{path} is a stream without an end, not a file."
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return None  # it may be created later
    except OSError as error:
        return f"{path[:500]} cannot be followed: {error.strerror}."
    return None if stat.S_ISREG(mode) else f"{path} is no file that can grow."


async def _check_pattern(until: str) -> str | None:
    wrong = await line_filter.check_pattern(until)
    return f"until is no usable pattern: {wrong}" if wrong is not None else None


def _check_follow(path: str, session: SessionView) -> tuple[str, Check]:
    """Where the path leads, and whether that may be read. Blocks."""
    place = paths.resolve_path(path)
    if paths.is_in_daemon_home(place, session):
        return place, Refuse(f"{path} is in the daemon's own folder.")
    if paths.is_inside_roots(place, session):
        return place, Allow()
    leads = "" if place == paths.normalize_path(path) else f", which leads to {place}"
    return place, AskFirst(f"Follow {path}{leads}?", reason="It is outside the session's folders.")


def _build_tail_command(place: str) -> str:
    """Follows only what is added from now on; a file that is replaced is opened again."""
    # What tail prints about that is no line of the file.
    return f"exec tail -n 0 -F -- {shlex.quote(place)} 2>/dev/null"
