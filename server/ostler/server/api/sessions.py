"""The session methods: create, list, get, update, archive, delete, messages, fork."""

import asyncio
import os
import sqlite3
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ostler.protocol import times
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
from ostler.protocol.shapes import Message, Usage
from ostler.server.api.trust import trust_changed
from ostler.server.config.configuration import Configuration
from ostler.server.engine.calls.stored_results import drop_pieces
from ostler.server.engine.engine import Engine
from ostler.server.engine.journal.session_view import provider_of, shown, shown_page, tell, tell_change
from ostler.server.engine.session.effective_settings import FLAG_RULES
from ostler.server.events.event_log import EventLog
from ostler.server.rpc.paging import page_position, page_token
from ostler.server.settings import Settings, check_lists, default_mode
from ostler.server.settings.entries import server_flaw
from ostler.server.settings.trust import is_trusted, trusting
from ostler.storage import Tx
from ostler.storage.repositories import idempotency, messages, results, sessions, trust, turns, usage
from ostler.storage.repositories.idempotency import Key
from ostler.storage.repositories.sessions import Filter, SessionRecord
from ostler.storage.sqlite.database import head_of

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
_Change = Callable[[sqlite3.Connection, SessionRecord], SessionRecord]


def checked_folder(path: str) -> str:
    """The folder as written, less what means nothing (`a/./b`, `a//b`); an error that says what is wrong with it."""
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
    return path if path == "/" else _tidy(path)


def _tidy(path: str) -> str:
    # Not normpath: `a/../b` may lead elsewhere when `a` is a link.
    parts = [part for part in path.split("/") if part not in {"", "."}]
    return "/" + "/".join(parts)


@dataclass(frozen=True, slots=True)
class Sessions:
    log: EventLog
    configuration: Configuration
    engine: Engine

    async def create(self, params: SessionCreate) -> Session:
        key = idempotency.key_of(SESSION_CREATE.name, params)
        if (answer := await self._answered_before(key)) is not None:
            return answer
        self.check_mode(params.mode)
        await self._check_rules(params.rules)
        await self._check_tools(params.tools)
        _check_servers(params.mcp_servers)
        cwd, *directories = await _checked_folders([params.cwd, *params.additional_directories])
        model = params.model or self.configuration.default_model
        moment = times.now()
        session_id = new_session_id()
        record = SessionRecord(
            id=session_id,
            root_id=session_id,
            cwd=cwd,
            model=model,
            provider=provider_of(model),
            mode=params.mode,
            on_ask=params.on_ask,
            created_at=moment,
            updated_at=moment,
            title=params.title,
            directories=tuple(directories),
            metadata=params.metadata,
            options=self._options(params),
        )
        # Many are created at once, and the files do not change between them; each turn looks again.
        settings = await self.engine.rooms.settings.of(cwd, within=1.0)
        self._check_frozen(settings, params)

        def create(tx: Tx) -> Session:
            if params.trust:
                trust.grant(tx.connection, trusting(settings, None))
            trusted = is_trusted(tx.connection, settings)
            mode = params.mode if "mode" in params.model_fields_set else default_mode(settings, trusted)
            made = replace(record, trusted=trusted, mode=self._permitted_mode(mode or "default"))
            return _created_once(tx, key, made, _nothing_more)

        session = await self.log.write(create, record.root_id)
        if params.trust and settings.project_acts.lines:
            await trust_changed(self.engine, settings)
        return session

    async def list(self, params: SessionList) -> SessionPage:
        if params.cwd is not None and not os.path.isabs(params.cwd):
            raise InvalidParams.of("cwd", f"{params.cwd[:100]!r} is relative; give the absolute path of a folder")
        after = page_position(SESSION_LIST.name, params, params.page, (str, str))
        wanted = Filter(params.cwd, params.status, params.text, params.archived)

        def look(connection: sqlite3.Connection) -> list[Session]:
            position = (after[0], after[1]) if after else None
            return shown_page(connection, sessions.page(connection, wanted, position, params.limit + 1))

        found = await self.log.read(look)
        if found:
            await self.log.reached(found[0].cursor)
        page = found[: params.limit]
        more = len(found) > params.limit
        token = page_token(SESSION_LIST.name, params, [page[-1].updated_at, page[-1].id]) if more else None
        return SessionPage(sessions=page, next=token)

    async def get(self, params: SessionRef) -> Session:
        def look(connection: sqlite3.Connection) -> Session:
            return shown(connection, sessions.get(connection, params.session_id), head_of(connection))

        session = await self.log.read(look)
        await self.log.reached(session.cursor)
        message = self.log.in_progress.message(session.id, session.cursor)
        return session.model_copy(update={"message": message}) if message else session

    async def update(self, params: SessionUpdate) -> Session:
        given = params.model_fields_set - {"session_id"}
        if "mode" in given and params.mode is not None:
            self.check_mode(params.mode)
        if params.rules is not None:
            await self._check_rules(params.rules)
        directories = await _checked_folders(params.additional_directories) if params.additional_directories else []

        def change(connection: sqlite3.Connection, record: SessionRecord) -> SessionRecord:
            return replace(record, **_changes(params, given, directories, self.configuration.default_model, record))

        return await self._change(params.session_id, change)

    async def archive(self, params: SessionArchive) -> Session:
        def change(connection: sqlite3.Connection, record: SessionRecord) -> SessionRecord:
            if params.archived == (record.status == "archived"):
                return record
            if record.status in {"running", "waiting"}:
                turn = turns.current(connection, record.id)
                raise TurnRunning(
                    "A turn runs in this session. Interrupt it before the session is archived.",
                    turn_id=turn.id if turn else None,
                )
            return replace(record, status="archived" if params.archived else "idle")

        before = await self.log.read(lambda connection: sessions.get(connection, params.session_id))
        session = await self._change(params.session_id, change)
        if params.archived and before.status != "archived":
            await self.engine.tell_end(before, "archive")
        return session

    async def delete(self, params: SessionRef) -> Deleted:
        members = await self.log.read(lambda connection: sessions.family(connection, params.session_id))
        ids = [member.id for member in members]
        await self.engine.stop_sessions(ids)
        for member in members:
            await self.engine.tell_end(member, "delete")
        # Whoever was told had to be loaded for it.
        await self.engine.stop_sessions(ids)

        left: list[ResultId] = []

        def remove(tx: Tx) -> Deleted:
            sessions.get(tx.connection, params.session_id)
            tx.write_lines()  # what was said of it a moment ago goes with the rest
            family = sessions.family(tx.connection, params.session_id)
            for record in family:
                left.extend(sessions.delete(tx.connection, record))
            # Parents first: whoever watches one learns that its agents are watched too.
            for record in family:
                tell(tx, "session.deleted", _tombstone(record), Usage(), None)
            return Deleted(session_ids=[record.id for record in family])

        deleted = await self.log.write(remove, await self._root_of(params.session_id))
        await drop_pieces(self.log, left)
        return deleted

    async def messages(self, params: SessionMessages) -> MessagePage:
        after = page_position(SESSION_MESSAGES.name, params, params.page, (int,))

        def look(connection: sqlite3.Connection) -> messages.Page:
            sessions.get(connection, params.session_id)
            return messages.page(connection, params.session_id, after[0] if after else 0, params.limit)

        page = await self.log.read(look)
        token = page_token(SESSION_MESSAGES.name, params, [page.last]) if page.more else None
        shown = [message if params.include_results else _without_results(message) for message in page.messages]
        return MessagePage(messages=shown, next=token)

    async def fork(self, params: SessionFork) -> Session:
        key = idempotency.key_of(SESSION_FORK.name, params)
        if (answer := await self._answered_before(key)) is not None:
            return answer
        session_id = new_session_id()
        moment = times.now()

        def copy(tx: Tx) -> Session:
            source = sessions.get(tx.connection, params.session_id)
            through = None
            if params.message_id is not None:
                through = messages.position_of(tx.connection, source.id, params.message_id)
                if through is None:
                    raise MessageNotFound(params.message_id)
            fork = replace(
                source,
                id=session_id,
                root_id=session_id,
                parent_id=None,
                title=params.title or source.title,
                status="idle",
                created_at=moment,
                updated_at=moment,
            )

            def bring_history() -> None:
                messages.copy(tx.connection, source.id, fork.id, through)
                results.share(tx.connection, source.id, fork.id)

            return _created_once(tx, key, fork, bring_history)

        return await self.log.write(copy, session_id)

    async def _change(self, session_id: SessionId, change: _Change) -> Session:
        """Read, change, write and tell, as one unit; nothing happens where nothing changes."""
        changed: list[SessionRecord] = []

        def work(tx: Tx) -> Session:
            before = sessions.get(tx.connection, session_id)
            after = change(tx.connection, before)
            if after == before:
                return shown(tx.connection, before, tx.head)
            after = replace(after, updated_at=times.now())
            changed.append(after)
            return tell_change(tx, after, usage.total(tx.connection, session_id))

        session = await self.log.write(work, await self._root_of(session_id))
        for record in changed:
            self.engine.changed(record)
        return session

    async def _answered_before(self, key: Key | None) -> Session | None:
        """Asked before anything is checked: what was right the first time may not be there any more."""
        if key is None:
            return None
        answer = await self.log.read(lambda connection: idempotency.answer_to(connection, key))
        return None if answer is None else Session.model_validate_json(answer)

    async def _root_of(self, session_id: SessionId) -> SessionId:
        """The tree that a write is about, for the order of what is told."""
        return (await self.log.read(lambda connection: sessions.get(connection, session_id))).root_id

    def check_mode(self, mode: Mode) -> None:
        if mode == "bypassPermissions" and not self.configuration.current.permissions.allow_bypass:
            raise ModeForbidden(
                "The mode bypassPermissions is off. Set `[permissions] allow_bypass = true` in "
                f"{self.configuration.path} to allow it.",
                mode=mode,
            )

    def _check_frozen(self, settings: Settings, params: SessionCreate) -> None:
        frozen = settings.frozen_mode
        if frozen is not None and "mode" in params.model_fields_set and params.mode != frozen:
            raise ModeForbidden(f"The policy of this machine wants the mode {frozen}, and no other.", mode=params.mode)

    def _permitted_mode(self, mode: Mode) -> Mode:
        """A settings file does not switch on what the person's configuration has off."""
        allowed = mode != "bypassPermissions" or self.configuration.current.permissions.allow_bypass
        return mode if allowed else "default"

    def _options(self, params: SessionCreate) -> dict[str, Any]:
        options = params.model_dump(mode="json", include=_OPTIONS)
        options[FLAG_RULES] = options["rules"]
        if "tools" not in params.model_fields_set:
            options["tools"] = self.configuration.default_tools
        return options

    async def _check_rules(self, rules: Rules) -> None:
        if rules == Rules():
            return
        tools = (await self.engine.registry()).tools
        problems = check_lists(rules.model_dump(), [name for tool in tools for name in (tool.name, *tool.aliases)])
        if problems:
            raise InvalidParams([{"path": "rules", "reason": problem} for problem in problems])

    async def _check_tools(self, wanted: str | Sequence[str]) -> None:
        unknown = [] if isinstance(wanted, str) else (await self.engine.registry()).unknown(wanted)
        if unknown:
            raise InvalidParams.of("tools", f"there is no tool {unknown[0]!r}; `tool/list` shows what there is")


def _check_servers(given: Mapping[str, Any]) -> None:
    for name, entry in given.items():
        if (wrong := server_flaw(name, entry)) is not None:
            raise InvalidParams.of(f"mcp_servers.{name[:100]}", wrong)


def _nothing_more() -> None:
    """A new session starts without a history."""


def _created_once(tx: Tx, key: Key | None, record: SessionRecord, bring: Callable[[], None]) -> Session:
    """Create the session, or give the answer that the same key got before."""
    if key is not None and (answer := idempotency.answer_to(tx.connection, key)) is not None:
        return Session.model_validate_json(answer)
    sessions.put(tx.connection, record)
    bring()
    session = tell(tx, "session.created", record, Usage(), None)
    if key is not None:
        idempotency.remember(tx.connection, key, record.id, session.encoded())
    return session


def _tombstone(record: SessionRecord) -> SessionRecord:
    """What the log keeps of a deleted session: that there was one, and nothing that it said."""
    return replace(record, title=None, metadata={}, directories=(), options={})


def _changes(
    params: SessionUpdate, given: set[str], directories: list[str], default_model: str, record: SessionRecord
) -> dict[str, Any]:
    """The fields of the record that the params change; a null goes back to the default."""
    changes: dict[str, Any] = {}
    if "title" in given:
        changes["title"] = params.title
    if "model" in given:
        changes["model"] = params.model or default_model
        changes["provider"] = provider_of(changes["model"])
    if "mode" in given:
        changes["mode"] = params.mode or "default"
    if "on_ask" in given:
        changes["on_ask"] = params.on_ask or "ask"
    if "additional_directories" in given:
        changes["directories"] = tuple(directories)
    if "metadata" in given:
        changes["metadata"] = params.metadata or {}
    if "rules" in given:
        rules = params.rules.model_dump(mode="json") if params.rules else {}
        changes["options"] = {**record.options, "rules": rules}
    return changes


def _without_results(message: Message) -> Message:
    content = [
        block.model_copy(update={"content": []}) if block.type == "tool_result" else block for block in message.content
    ]
    return message.model_copy(update={"content": content})


async def _checked_folders(paths: list[str]) -> list[str]:
    # On a thread: a folder on a network mount that is gone can take its time.
    return await asyncio.get_running_loop().run_in_executor(None, lambda: [checked_folder(path) for path in paths])
