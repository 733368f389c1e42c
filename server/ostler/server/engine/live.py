"""A session in memory: what its turns, calls and decisions read."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ostler.protocol.ids import CallId
from ostler.protocol.session import Mode, OnAsk
from ostler.server.engine.history import History
from ostler.server.engine.journal import Journal
from ostler.server.engine.permission import PermissionContext
from ostler.server.engine.rules import RuleBook
from ostler.storage import Tx, processes
from ostler.storage.processes import ProcessRecord
from ostler.storage.sessions import SessionRecord
from ostler.tools.context import FileRead, Surroundings
from ostler.tools.registry import Registry, ToolSet
from ostler.tools.tool import AnyTool


class StoredReads:
    """What the session has seen of files; each call takes what it added along when it is stored."""

    def __init__(self, stored: Mapping[str, dict[str, Any]]) -> None:
        self._reads = {path: _file_read(read) for path, read in stored.items()}

    def recorder(self) -> "CallReads":
        return CallReads(self._reads)


class CallReads:
    """The reads of the session as one call sees and extends them."""

    def __init__(self, reads: dict[str, FileRead]) -> None:
        self._reads = reads
        self.added: dict[str, dict[str, Any]] = {}

    def get(self, path: str) -> FileRead | None:
        return self._reads.get(path)

    def put(self, path: str, read: FileRead) -> None:
        self._reads[path] = read
        self.added[path] = asdict(read)


def _file_read(stored: dict[str, Any]) -> FileRead:
    lines = {name: tuple((first, last) for first, last in stored.get(name) or ()) for name in ("ranges", "shown")}
    return FileRead(**{**stored, **lines})


@dataclass(frozen=True, slots=True)
class StoredProcesses:
    """The processes of a session's calls, stored before they begin."""

    journal: Journal
    _started: dict[int, str] = field(default_factory=dict)

    async def started(self, call_id: CallId, pid: int, start_time: str) -> None:
        record = ProcessRecord(pid, start_time, self.journal.session_id, call_id)
        self._started[pid] = start_time

        def work(tx: Tx) -> None:
            processes.add(tx.connection, record)

        await self.journal.write(work)

    def ended(self, call_id: CallId, pid: int) -> None:
        start_time = self._started.pop(pid, None)
        if start_time is not None:
            self.journal.post(lambda tx: processes.drop(tx.connection, pid, start_time))


@dataclass(slots=True)
class Rooms:
    """What all sessions of a daemon share."""

    load_registry: Callable[[], Registry]
    """The tools are loaded when they are first needed, so that the start does not wait for them."""
    home: str
    output_folder: Path
    allow_bypass: Callable[[], bool]
    """Whether sessions may be in mode bypassPermissions now."""
    umask: int = 0o022
    """The person's own: the daemon's is stricter, and commands are not to make a project's files private."""
    testing: bool = False
    _registry: Registry | None = None

    @property
    def registry(self) -> Registry:
        if self._registry is None:
            self._registry = self.load_registry()
        return self._registry


@dataclass(slots=True)
class LiveSession:
    record: SessionRecord
    journal: Journal
    rooms: Rooms
    history: History
    reads: StoredReads
    processes: StoredProcesses
    state: dict[str, Any]
    """What is remembered between requests: the frozen prefix, the shell's folder, what the model was last told."""
    turn_on_ask: OnAsk | None = None
    """What a headless turn says about asks, above what the session says."""
    _rules: tuple[Any, RuleBook] | None = None
    _surroundings: tuple[tuple[Any, ...], Surroundings] | None = None

    @property
    def rules(self) -> RuleBook:
        given = self.record.options.get("rules") or {}
        if self._rules is None or self._rules[0] is not given:
            self._rules = (given, RuleBook.of_session(given))
        return self._rules[1]

    @property
    def permission(self) -> PermissionContext:
        return PermissionContext(self.mode, self.turn_on_ask or self.record.on_ask, self.rules)

    @property
    def mode(self) -> Mode:
        """The session's, unless the daemon does not allow it any more."""
        forbidden = self.record.mode == "bypassPermissions" and not self.rooms.allow_bypass()
        return "default" if forbidden else self.record.mode

    @property
    def surroundings(self) -> Surroundings:
        """Made anew only when something of it has changed: every call looks at it several times."""
        now = (self.record, self.state.get("shell_folder"), self.mode)
        if self._surroundings is None or any(
            old is not new for old, new in zip(self._surroundings[0], now, strict=True)
        ):
            self._surroundings = (now, self._look_around())
        return self._surroundings[1]

    def _look_around(self) -> Surroundings:
        return Surroundings(
            session_id=self.record.id,
            folder=self.record.cwd,
            shell_folder=self.state.get("shell_folder") or self.record.cwd,
            roots=(self.record.cwd, *self.record.directories),
            mode=self.mode,
            environment=self.record.options.get("env") or {},
            home=self.rooms.home,
            umask=self.rooms.umask,
            testing=self.rooms.testing,
        )

    def toolset(self, *of_the_turn: AnyTool) -> ToolSet:
        """The tools of the session, and those that only this turn has."""
        wanted = self.record.options.get("tools") or "full"
        found = self.rooms.registry.for_session(wanted, self.rules.denied_tools(), self.surroundings)
        return found.extended(of_the_turn) if of_the_turn else found

    def remember(self, **facts: Any) -> None:
        """Change what is remembered between requests."""
        self.state = {**self.state, **facts}
        self.journal.state_changed(self.state)
