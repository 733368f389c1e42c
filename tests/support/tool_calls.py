"""Calls as the engine makes them: parse, validate, ask for permission, run, render."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, Final

import anyio

from ostler.protocol.config import Tools
from ostler.protocol.ids import CallId, SessionId
from ostler.protocol.session import Mode
from ostler.tools.context import SessionView, ToolContext
from ostler.tools.files.read import Read
from ostler.tools.services import FileRead, FileServices, Services
from ostler.tools.tool import AnyTool, Check, Failure, ToolResult


class InMemoryReads:
    """The files that were read, in memory."""

    def __init__(self) -> None:
        self.by_path: dict[str, FileRead] = {}

    def get(self, path: str) -> FileRead | None:
        return self.by_path.get(path)

    def put(self, path: str, read: FileRead) -> None:
        self.by_path[path] = read


class RecordedProcesses:
    """The processes that were started, and those that have ended."""

    def __init__(self) -> None:
        self.started: list[tuple[CallId, int, str]] = []
        self.ended: list[tuple[CallId, int]] = []

    async def record_start(self, call_id: CallId, pid: int, start_time: str) -> None:
        self.started.append((call_id, pid, start_time))

    def record_end(self, call_id: CallId, pid: int) -> None:
        self.ended.append((call_id, pid))


_numbers: Final = count(1)


@dataclass
class Session:
    """A session with one folder, and its calls."""

    folder: Path
    outputs: Path
    reads: InMemoryReads = field(default_factory=InMemoryReads)
    processes: RecordedProcesses = field(default_factory=RecordedProcesses)
    progress: list[dict[str, Any]] = field(default_factory=list)
    number: int = field(default_factory=_numbers.__next__)
    """Different for each: tools remember calls by their ids."""
    call_count: int = 0

    def __post_init__(self) -> None:
        place = str(self.folder)
        self.view = SessionView(SessionId("s_1"), place, place, (place,), "default")

    def change_view(self, mode: Mode = "default", **changes: Any) -> "Session":
        """Change what tools see of the session; returns the same session."""
        self.view = replace(self.view, mode=mode, **changes)
        return self

    def change_config(self, **changes: Any) -> "Session":
        """Change what the configuration says to tools, as `read_tokens=5` of `[tools]`; returns the same session."""
        config = self.view.config
        settings = {name: value for name, value in changes.items() if name in Tools.model_fields}
        further = {name: value for name, value in changes.items() if name not in settings}
        tools = Tools.model_validate({**config.tools.model_dump(), **settings})
        return self.change_view(self.view.mode, config=replace(config, tools=tools, **further))

    def make_context(self, **services: Any) -> ToolContext:
        """The context of a call; by name the services that are not as in a program without a daemon."""
        about_files = {name: services.pop(name) for name in ("history", "diagnostics") if name in services}
        self.call_count += 1
        return ToolContext(
            call_id=CallId(f"m_{self.number}#{self.call_count}"),
            session=self.view,
            services=Services(FileServices(self.reads, **about_files), self.processes, **services),
            progress=lambda kind, data: self.progress.append(data),
            output_folder=self.outputs,
        )

    async def call(
        self, tool: AnyTool, given: Mapping[str, Any], context: ToolContext | None = None
    ) -> ToolResult[Any] | Failure:
        """Valid, allowed by whoever is asked, and run."""
        context = context or self.make_context()
        parsed = tool.parse(dict(given))
        invalid = await tool.validate(parsed, context)
        if invalid is not None:
            return invalid
        await tool.check_permission(parsed, context)
        return await tool.run(parsed, context)

    async def expect_result(self, tool: AnyTool, **given: Any) -> ToolResult[Any]:
        """A call that must work."""
        result = await self.call(tool, given)
        assert isinstance(result, ToolResult), result
        return result

    async def expect_text(self, tool: AnyTool, **given: Any) -> str:
        """What the model sees of a call that must work."""
        rendered = tool.render((await self.expect_result(tool, **given)).output)
        return "".join(block["text"] for block in rendered)

    async def expect_failure(self, tool: AnyTool, **given: Any) -> Failure:
        """A call that must fail."""
        result = await self.call(tool, given)
        assert isinstance(result, Failure), result
        return result

    async def check(self, tool: AnyTool, **given: Any) -> Check:
        return await tool.check_permission(tool.parse(given), self.make_context())


async def poll_until(condition: Callable[[], object]) -> None:
    with anyio.fail_after(20):
        while not condition():  # noqa: ASYNC110 - other processes set no events
            await anyio.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def put_file(session: Session, name: str, data: str | bytes = "") -> str:
    """A file in the folder of the session."""
    path = session.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return str(path)


async def read_file(session: Session, name: str, data: str | bytes) -> str:
    """The same, and the session has read it."""
    path = put_file(session, name, data)
    await session.expect_result(Read(), file_path=path)
    return path
