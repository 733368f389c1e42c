"""The handlers of the session methods: create, list, get, update, archive, delete, messages, fork.

Also the check of the folders that clients name.
"""

import asyncio
import os
import shutil
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from ostler.protocol import times
from ostler.protocol.agent import AgentInfo
from ostler.protocol.errors import BadFolder, InvalidParams, MessageNotFound, ModeForbidden, TurnRunning
from ostler.protocol.ids import ResultId, SessionId, new_session_id
from ostler.protocol.methods import SESSION_CREATE, SESSION_FORK, SESSION_LIST, SESSION_MESSAGES
from ostler.protocol.session import (
    Deleted,
    MessagePage,
    Mode,
    Rules,
    Session,
    SessionArchive,
    SessionCreate,
    SessionFork,
    SessionList,
    SessionMessages,
    SessionPage,
    SessionRef,
    SessionUpdate,
)
from ostler.protocol.shapes import Call, Message, Task, Usage
from ostler.server.api.trust import apply_trust_change
from ostler.server.config.configuration import Configuration
from ostler.server.engine.agents.listing import list_agents
from ostler.server.engine.calls.stored_results import drop_pieces
from ostler.server.engine.engine import Engine
from ostler.server.engine.journal.session_view import (
    append_session_event,
    list_last_briefs,
    read_session,
    read_session_page,
    resolve_provider,
    store_session,
)
from ostler.server.engine.session.effective_settings import (
    FLAG_RULES,
    GRANTS,
    check_mode,
    check_policy_mode,
    enter_mode,
)
from ostler.server.events.event_log import EventLog
from ostler.server.rpc.paging import make_page_token, parse_page_token
from ostler.server.settings import Settings, check_lists, resolve_default_mode
from ostler.server.settings.entries import check_server_entry
from ostler.server.settings.trust import build_trust_record, is_trusted
from ostler.storage import Snapshot, Tx
from ostler.storage.repositories import idempotency, messages
from ostler.storage.repositories.idempotency import Key
from ostler.storage.repositories.sessions import WORKTREE, Filter, SessionRecord
from ostler.tools.permissions.plan_file import build_plan_path
from ostler.tools.permissions.server_files import build_server_folder
from ostler.tools.threads import change_in_thread

_OPTIONS = {
    "rules",
    "thinking",
    "tools",
    "instructions",
    "env",
    "mcp_servers",
    "max_budget_usd",
    "on_restart",
    "wake_on_task_end",
}
_Change = Callable[[Snapshot, SessionRecord], SessionRecord]


def check_folder(path: str) -> str:
    """The folder as written, without redundant parts (`a/./b`, `a//b`). Raises BadFolder, which says what is wrong."""
    if not path or "\0" in path:
        raise BadFolder(f"{path!r} is no path.", path=path)
    if not os.path.isabs(path):
        raise BadFolder(f"{path!r} is relative. Give the absolute path of a folder.", path=path)
    try:
        found = os.stat(path)
    except OSError as error:
        raise BadFolder(f"{path!r} cannot be used: {error.strerror}.", path=path) from None
    except ValueError:  # a lone surrogate, or anything else that the file system cannot spell
        raise BadFolder(f"{path!r} is no path.", path=path) from None
    if not stat.S_ISDIR(found.st_mode):
        raise BadFolder(f"{path!r} is not a folder.", path=path)
    return path if path == "/" else _tidy_path(path)


def _tidy_path(path: str) -> str:
    # Not normpath: `a/../b` may lead elsewhere when `a` is a link.
    parts = [part for part in path.split("/") if part not in {"", "."}]
    return "/" + "/".join(parts)


@dataclass(frozen=True, slots=True)
class SessionMethods:
    log: EventLog
    configuration: Configuration
    engine: Engine

    async def create(self, params: SessionCreate) -> Session:
        key = idempotency.make_key(SESSION_CREATE.name, params)
        if (answer := await self._find_earlier_answer(key)) is not None:
            return answer
        if "mode" in params.model_fields_set:
            self.check_mode(params.mode)
        await self._check_rules(params.rules)
        await self._check_tools(params.tools)
        _check_servers(params.mcp_servers)
        cwd, *directories = await _check_folders([params.cwd, *params.additional_directories])
        # Many are created at once: see the settings below.
        await self.configuration.credentials.refresh(max_age=1.0)
        model = params.model or self.configuration.default_model
        now = times.now()
        session_id = new_session_id()
        record = SessionRecord(
            id=session_id,
            root_id=session_id,
            cwd=cwd,
            model=model,
            provider=resolve_provider(model),
            mode=params.mode,
            on_ask=params.on_ask,
            created_at=now,
            updated_at=now,
            title=params.title,
            directories=tuple(directories),
            metadata=params.metadata,
            options=self._build_options(params),
        )
        # Many are created at once, and the files do not change between them; each turn checks them again.
        settings = await self.engine.shared.settings.get(cwd, max_age=1.0)
        self._check_frozen_mode(settings, params)

        def create(tx: Tx) -> Session:
            if params.trust:
                tx.trust.grant(build_trust_record(settings, None))
            trusted = is_trusted(tx, settings)
            mode = params.mode if "mode" in params.model_fields_set else resolve_default_mode(settings, trusted)
            made = replace(record, trusted=trusted, mode=self._limit_mode(mode or "default"))
            return _create_once(tx, key, made, _copy_nothing)

        session = await self.log.write(create, record.root_id)
        if params.trust and settings.project_effects.lines:
            await apply_trust_change(self.engine, settings)
        return session

    async def list(self, params: SessionList) -> SessionPage:
        if params.cwd is not None and not os.path.isabs(params.cwd):
            raise InvalidParams.of("cwd", f"{params.cwd[:100]!r} is relative; give the absolute path of a folder")
        after = parse_page_token(SESSION_LIST.name, params, params.page, (str, str))
        wanted = Filter(params.cwd, params.status, params.text, params.archived)

        def read_rows(snapshot: Snapshot) -> list[Session]:
            position = (after[0], after[1]) if after else None
            return read_session_page(snapshot, snapshot.sessions.list_page(wanted, position, params.limit + 1))

        found = await self.log.read(read_rows)
        if found:
            await self.log.wait_for_cursor(found[0].cursor)
        page = found[: params.limit]
        more = len(found) > params.limit
        token = make_page_token(SESSION_LIST.name, params, [page[-1].updated_at, page[-1].id]) if more else None
        return SessionPage(sessions=page, next=token)

    async def get(self, params: SessionRef) -> Session:
        def read_rows(snapshot: Snapshot) -> tuple[Session, list[Call], list[AgentInfo], list[Task]]:
            session = read_session(snapshot, snapshot.sessions.get(params.session_id), snapshot.events.load_head())
            if self.configuration.current.assistant:
                session = session.model_copy(update={"briefs": list_last_briefs(snapshot, session.id)})
            unfinished = snapshot.calls.list_unfinished(session.id) if session.turn is not None else []
            found = list_agents(snapshot, session.id, self.engine.agents.queue)
            agents = [agent for agent in found if agent.ended_at is None]
            family = {member.id for member in snapshot.sessions.list_family(session.id)}
            tasks = [found.task for found in snapshot.tasks.list_unfinished() if found.task.session_id in family]
            return session, [call for call in unfinished if call.status == "running"], agents, tasks

        session, running, agents, tasks = await self.log.read(read_rows)
        await self.log.wait_for_cursor(session.cursor)
        message = self.log.partial_messages.find_message(session.id, session.cursor)
        shown = [self.log.running_calls.describe(call) for call in running]
        if not (message or shown or agents or tasks):
            return session
        return session.model_copy(update={"message": message, "calls": shown, "agents": agents, "tasks": tasks})

    async def update(self, params: SessionUpdate) -> Session:
        changed_fields = params.model_fields_set - {"session_id"}
        if "mode" in changed_fields and params.mode is not None:
            self.check_mode(params.mode)
        if params.rules is not None:
            await self._check_rules(params.rules)
        directories = await _check_folders(params.additional_directories) if params.additional_directories else []

        def change(snapshot: Snapshot, record: SessionRecord) -> SessionRecord:
            changes = _collect_changes(params, changed_fields, directories, self.configuration.default_model, record)
            return replace(record, **changes)

        return await self._change(params.session_id, change)

    async def archive(self, params: SessionArchive) -> Session:
        def change(snapshot: Snapshot, record: SessionRecord) -> SessionRecord:
            if params.archived == (record.status == "archived"):
                return record
            if record.status in {"running", "waiting"}:
                turn = snapshot.turns.find_current(record.id)
                raise TurnRunning(
                    "A turn runs in this session. Interrupt it before the session is archived.",
                    turn_id=turn.id if turn else None,
                )
            return replace(record, status="archived" if params.archived else "idle")

        before = await self.log.read(lambda snapshot: snapshot.sessions.get(params.session_id))
        session = await self._change(params.session_id, change)
        if params.archived and before.status != "archived":
            await self.engine.fire_session_end(before, "archive")
        return session

    async def delete(self, params: SessionRef) -> Deleted:
        members = await self.log.read(lambda snapshot: snapshot.sessions.list_family(params.session_id))
        ids = [member.id for member in members]
        await self.engine.stop_sessions(ids)
        for member in members:
            await self.engine.fire_session_end(member, "delete")
        # Again: to fire the hooks, the sessions had to be loaded.
        await self.engine.stop_sessions(ids)
        await self.engine.finish_worktrees(members)

        left: list[ResultId] = []

        def remove(tx: Tx) -> Deleted:
            parent_id = tx.sessions.get(params.session_id).parent_id
            family = tx.sessions.list_family(params.session_id)
            if parent_id is not None:
                # What an agent has cost, its parent has paid: also when nothing is left of the agent.
                tx.usage.hand_up([record.id for record in family], parent_id)
            for record in family:
                tx.drop_lines(record.id)
                left.extend(tx.sessions.delete(record))
            # Parents first: whoever follows a session learns of its agents from it.
            for record in family:
                append_session_event(tx, "session.deleted", _make_tombstone(record), Usage(), None)
            return Deleted(session_ids=[record.id for record in family])

        deleted = await self.log.write(remove, await self._find_root(params.session_id))
        await drop_pieces(self.log, left)
        await change_in_thread(self._remove_files, deleted.session_ids)
        return deleted

    def _remove_files(self, session_ids: Sequence[SessionId]) -> None:
        """Plans, and what servers gave. What cannot be removed is no reason to keep the session."""
        home = self.engine.shared.home
        for session_id in session_ids:
            with suppress(OSError):
                os.unlink(build_plan_path(home, session_id))
            shutil.rmtree(build_server_folder(home, session_id), ignore_errors=True)

    async def messages(self, params: SessionMessages) -> MessagePage:
        after = parse_page_token(SESSION_MESSAGES.name, params, params.page, (int,))

        def read_rows(snapshot: Snapshot) -> messages.Page:
            snapshot.sessions.get(params.session_id)
            return snapshot.messages.list_page(params.session_id, after[0] if after else 0, params.limit)

        page = await self.log.read(read_rows)
        token = make_page_token(SESSION_MESSAGES.name, params, [page.last]) if page.more else None
        shown = [message if params.include_results else _strip_results(message) for message in page.messages]
        return MessagePage(messages=shown, next=token)

    async def fork(self, params: SessionFork) -> Session:
        key = idempotency.make_key(SESSION_FORK.name, params)
        if (answer := await self._find_earlier_answer(key)) is not None:
            return answer
        session_id = new_session_id()
        now = times.now()

        def copy(tx: Tx) -> Session:
            source = tx.sessions.get(params.session_id)
            through = None
            if params.message_id is not None:
                through = tx.messages.find_position(source.id, params.message_id)
                if through is None:
                    raise MessageNotFound(params.message_id)
            fork = replace(
                source,
                id=session_id,
                root_id=session_id,
                parent_id=None,
                title=params.title or source.title,
                status="idle",
                created_at=now,
                updated_at=now,
                # A worktree is of one session: the fork begins in the folder that its source was created in. So is what
                # was approved with a plan.
                options={name: value for name, value in source.options.items() if name not in {WORKTREE, GRANTS}},
            )

            def copy_history() -> None:
                tx.messages.copy(source.id, fork.id, through)
                tx.results.share(source.id, fork.id)
                tx.todos.copy(source.id, fork.id)

            return _create_once(tx, key, fork, copy_history)

        return await self.log.write(copy, session_id)

    async def _change(self, session_id: SessionId, change: _Change) -> Session:
        """Read, change, write and announce, as one unit of work; nothing happens where nothing changes."""
        changed: list[SessionRecord] = []

        def work(tx: Tx) -> Session:
            before = tx.sessions.get(session_id)
            after = change(tx, before)
            if after == before:
                return read_session(tx, before, tx.last_cursor)
            after = replace(after, updated_at=times.now())
            changed.append(after)
            return store_session(tx, after, tx.usage.sum_session(session_id))

        session = await self.log.write(work, await self._find_root(session_id))
        for record in changed:
            self.engine.replace_record(record)
        return session

    async def _find_earlier_answer(self, key: Key | None) -> Session | None:
        """The answer that the same idempotency key got before.

        Before any check: what was valid the first time may not be there any more.
        """
        if key is None:
            return None
        answer = await self.log.read(lambda snapshot: snapshot.idempotency.find_answer(key))
        return None if answer is None else Session.model_validate_json(answer)

    async def _find_root(self, session_id: SessionId) -> SessionId:
        """The root of the session's tree: writes about one tree are announced in order."""
        return (await self.log.read(lambda snapshot: snapshot.sessions.get(session_id))).root_id

    def check_mode(self, mode: Mode) -> None:
        allow_bypass = self.configuration.current.permissions.allow_bypass
        check_mode(mode, self.engine.shared.settings.limits, self.configuration.path, allow_bypass=allow_bypass)

    def _check_frozen_mode(self, settings: Settings, params: SessionCreate) -> None:
        if "mode" in params.model_fields_set:
            check_policy_mode(params.mode, settings.limits)
        frozen = settings.frozen_mode
        if frozen is not None and "mode" in params.model_fields_set and params.mode != frozen:
            raise ModeForbidden(f"The policy of this machine wants the mode {frozen}, and no other.", mode=params.mode)

    def _limit_mode(self, mode: Mode) -> Mode:
        """`default` instead of bypass, where the configuration forbids that: a settings file cannot enable it."""
        allowed = mode != "bypassPermissions" or self.configuration.current.permissions.allow_bypass
        return self.engine.shared.settings.limits.limit_mode(mode if allowed else "default")

    def _build_options(self, params: SessionCreate) -> dict[str, Any]:
        options = params.model_dump(mode="json", include=_OPTIONS)
        options[FLAG_RULES] = options["rules"]
        if "tools" not in params.model_fields_set:
            options["tools"] = self.configuration.default_tools
        return options

    async def _check_rules(self, rules: Rules) -> None:
        if rules == Rules():
            return
        tools = (await self.engine.load_registry()).tools
        problems = check_lists(rules.model_dump(), [name for tool in tools for name in (tool.name, *tool.aliases)])
        if problems:
            raise InvalidParams([{"path": "rules", "reason": problem} for problem in problems])

    async def _check_tools(self, wanted: str | Sequence[str]) -> None:
        unknown = [] if isinstance(wanted, str) else (await self.engine.load_registry()).find_unknown(wanted)
        if unknown:
            raise InvalidParams.of("tools", f"there is no tool {unknown[0]!r}; `tool/list` shows what there is")


def _check_servers(servers: Mapping[str, Any]) -> None:
    for name, entry in servers.items():
        if (wrong := check_server_entry(name, entry)) is not None:
            raise InvalidParams.of(f"mcp_servers.{name[:100]}", wrong)


def _copy_nothing() -> None:
    """A new session starts without a history."""


def _create_once(tx: Tx, key: Key | None, record: SessionRecord, copy_history: Callable[[], None]) -> Session:
    """Create the session, or return the answer that the same key got before."""
    if key is not None and (answer := tx.idempotency.claim(key, record.id)) is not None:
        return Session.model_validate_json(answer)
    tx.sessions.put(record)
    copy_history()
    session = append_session_event(tx, "session.created", record, Usage(), None)
    if key is not None:
        tx.idempotency.remember(key, session)
    return session


def _make_tombstone(record: SessionRecord) -> SessionRecord:
    """What the log keeps of a deleted session: that there was one, and none of its content."""
    return replace(record, title=None, metadata={}, directories=(), options={})


def _collect_changes(
    params: SessionUpdate, changed_fields: set[str], directories: list[str], default_model: str, record: SessionRecord
) -> dict[str, Any]:
    """The fields of the record that the params change; a null goes back to the default."""
    changes: dict[str, Any] = {}
    if "title" in changed_fields:
        changes["title"] = params.title
    if "model" in changed_fields:
        changes["model"] = params.model or default_model
        changes["provider"] = resolve_provider(changes["model"])
    if "mode" in changed_fields:
        record = enter_mode(record, params.mode or "default")
        changes |= {"mode": record.mode, "options": record.options}
    if "on_ask" in changed_fields:
        changes["on_ask"] = params.on_ask or "ask"
    if "additional_directories" in changed_fields:
        changes["directories"] = tuple(directories)
    if "metadata" in changed_fields:
        changes["metadata"] = params.metadata or {}
    if "rules" in changed_fields:
        rules = params.rules.model_dump(mode="json") if params.rules else {}
        changes["options"] = {**record.options, "rules": rules}
    return changes


def _strip_results(message: Message) -> Message:
    content = [
        block.model_copy(update={"content": []}) if block.type == "tool_result" else block for block in message.content
    ]
    return message.model_copy(update={"content": content})


async def _check_folders(paths: list[str]) -> list[str]:
    # On a thread: a folder on a network mount that is gone can take its time.
    return await asyncio.get_running_loop().run_in_executor(None, lambda: [check_folder(path) for path in paths])
