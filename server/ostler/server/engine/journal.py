"""Everything that a session writes: each method is one unit of work, with its events.

What was promised to somebody is waited for. The rest is queued in the same order and waits for nothing; should it fail,
`on_trouble` is told, because what is in memory then is more than what is on the disk.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from ostler.protocol import times
from ostler.protocol.errors import ProtocolError
from ostler.protocol.events import (
    FileChange,
    GitChange,
    MessageData,
    ModelRetry,
    Notice,
    PullRequest,
    SessionData,
    TurnData,
    UsageData,
)
from ostler.protocol.hook import HookData, HookRun
from ostler.protocol.ids import CallId, SessionId, TurnId
from ostler.protocol.session import SessionStatus
from ostler.protocol.shapes import Ask, Call, Message, Turn, Usage
from ostler.server.log import EventLog
from ostler.server.settings.shapes import Behavior
from ostler.server.shapes import session_shape
from ostler.storage import (
    Scope,
    Tx,
    asks,
    calls,
    drafts,
    idempotency,
    messages,
    results,
    sessions,
    states,
    steers,
    tasks,
    trust,
    turns,
)
from ostler.storage import usage as usage_rows
from ostler.storage.idempotency import Key
from ostler.storage.results import ResultRecord
from ostler.storage.sessions import SessionRecord
from ostler.storage.tasks import Told
from ostler.storage.trust import TrustRecord

T = TypeVar("T")
Draft = Sequence[drafts.Block]
"""The blocks of the message in progress that are complete and not stored yet."""

_AS_QUEUED: Final[dict[str, Any]] = {
    "status": "queued",
    "started_at": None,
    "decision": None,
    "is_error": False,
    "error_code": None,
    "output": None,
    "content": None,
    "result_id": None,
    "duration_ms": None,
}
"""A call as it was when it was queued, where that is told together with what came next."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A call that is over, with all that its end changes."""

    call: Call
    reads: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    files: Sequence[FileChange] = ()
    git: GitChange | None = None
    whole_result: str | ResultRecord | None = None
    """The text that was too long to be given to the model, stored under the call's `result_id`.

    Of a very long one only what is known of it: its pieces are stored already.
    """


@dataclass(frozen=True, slots=True)
class Said:
    """A message of the user's, with its content beside it: as blocks, and as the bytes that the model is sent."""

    message: Message
    blocks: Sequence[dict[str, Any]]
    encoded: bytes
    brought: Mapping[str, CallId]
    """The call of each result."""


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of an attempt to settle an ask."""

    ask: Ask
    """As it is now: ours, or the winner's."""
    won: bool
    record: SessionRecord | None = None
    """The session, where the answer changed its rules."""


@dataclass(slots=True)
class Journal:
    log: EventLog
    session_id: SessionId
    root_id: SessionId
    used: Usage
    """What the session has used so far; summed in memory, since every `session.updated` shows it."""
    on_trouble: Callable[[Exception], None]

    # How units are written.

    def _scope(self, turn_id: TurnId | None) -> Scope:
        return Scope(self.session_id, self.root_id, turn_id)

    async def write(self, work: Callable[[Tx], T]) -> T:
        return await self.log.write(work, self.root_id)

    def post(self, work: Callable[[Tx], object], *, urgent: bool = False) -> None:
        """Queue a unit that nobody waits for."""
        try:
            self._submit(work, urgent=urgent)
        except ProtocolError as error:
            self.on_trouble(error)

    def _submit(self, work: Callable[[Tx], T], *, urgent: bool = True) -> "asyncio.Future[T]":
        """Queue a unit; waiting for it is for the caller to decide."""
        future = self.log.submit(work, self.root_id, urgent=urgent)
        future.add_done_callback(self._look)
        return future

    def _look(self, future: "asyncio.Future[Any]") -> None:
        if not future.cancelled() and (error := future.exception()) is not None:
            self.on_trouble(error if isinstance(error, Exception) else RuntimeError(repr(error)))

    def set_status(self, tx: Tx, status: SessionStatus) -> None:
        record = sessions.get(tx.connection, self.session_id)
        if record.status == status:
            return
        record = replace(record, status=status, updated_at=times.now())
        sessions.put(tx.connection, record)
        session = session_shape(record, tx.next_cursor, self.used)
        tx.append("session.updated", Scope(record.id, record.root_id), data=SessionData(session=session))

    # Turns.

    async def start_turn(
        self,
        turn: Turn,
        options: dict[str, Any] | None,
        message: Message,
        key: Key | None = None,
        taken_steers: Sequence[int] = (),
        told_tasks: Sequence[Told] = (),
    ) -> Turn:
        """A turn begins with its input. Options are null where it was queued before, and has them."""

        def work(tx: Tx) -> Turn:
            if key is not None and (answer := idempotency.answer_to(tx.connection, key)) is not None:
                return Turn.model_validate_json(answer)
            begun = turn.model_copy(update={"cursor": tx.next_cursor})
            if options is None:
                turns.update(tx.connection, begun)
            else:
                turns.put(tx.connection, begun, options)
            tx.append("turn.started", self._scope(turn.id), data=TurnData(turn=begun))
            self.set_status(tx, "running")
            messages.add(tx.connection, message)
            tx.append("message.completed", self._scope(message.turn_id), reference=message.id, thing=message)
            steers.drop(tx.connection, list(taken_steers))
            tasks.mark_told(tx.connection, told_tasks)
            if key is not None:
                idempotency.remember(tx.connection, key, self.session_id, begun.encoded())
            return begun

        return await self.write(work)

    async def queue_turn(self, turn: Turn, options: dict[str, Any], key: Key | None) -> Turn:
        def work(tx: Tx) -> Turn:
            if key is not None and (answer := idempotency.answer_to(tx.connection, key)) is not None:
                return Turn.model_validate_json(answer)
            queued = turn.model_copy(update={"cursor": tx.next_cursor})
            turns.put(tx.connection, queued, options)
            tx.append("turn.queued", self._scope(turn.id), data=TurnData(turn=queued))
            if key is not None:
                idempotency.remember(tx.connection, key, self.session_id, queued.encoded())
            return queued

        return await self.write(work)

    async def drop_queued(self, turn_id: TurnId) -> Turn | None:
        """End a turn before it began; None where it is not queued."""

        def work(tx: Tx) -> Turn | None:
            turn = turns.find(tx.connection, turn_id)
            if turn is None or turn.status != "queued":
                return None
            ended = turn.model_copy(update={"status": "ended", "reason": "interrupted", "ended_at": times.now()})
            turns.update(tx.connection, ended)
            tx.append("turn.ended", self._scope(turn_id), reference=turn_id)
            return ended

        return await self.write(work)

    async def change(self, **changes: Any) -> SessionRecord:
        """Other values for some fields of the session."""

        def work(tx: Tx) -> SessionRecord:
            record = replace(sessions.get(tx.connection, self.session_id), **changes, updated_at=times.now())
            sessions.put(tx.connection, record)
            session = session_shape(record, tx.next_cursor, self.used)
            tx.append("session.updated", Scope(record.id, record.root_id), data=SessionData(session=session))
            return record

        return await self.write(work)

    async def end_turn(self, turn: Turn) -> None:
        def work(tx: Tx) -> None:
            turns.update(tx.connection, turn)
            tx.append("turn.ended", self._scope(turn.id), reference=turn.id, thing=turn)
            self.set_status(tx, "idle")

        await self.write(work)

    # Messages.

    def message_started(self, message: Message) -> None:
        def work(tx: Tx) -> None:
            drafts.put(tx.connection, message)
            tx.append("message.started", self._scope(message.turn_id), data=MessageData(message=message))

        # In a hurry, although nobody waits for it: the first words come after it.
        self.post(work, urgent=True)

    def message_aborted(self, message: Message) -> None:
        def work(tx: Tx) -> None:
            drafts.drop(tx.connection, self.session_id)
            tx.append("message.aborted", self._scope(message.turn_id), data=MessageData(message=message))

        self.post(work)

    def message_completed(self, message: Message, content: bytes, turn: Turn, request: Usage) -> None:
        """The model's message is whole, and has been paid for. Its content is JSON already."""
        session_used = self.used

        def work(tx: Tx) -> None:
            drafts.drop(tx.connection, self.session_id)
            messages.add_encoded(tx.connection, message, content)
            told = messages.with_content(message, content)
            tx.append("message.completed", self._scope(message.turn_id), reference=message.id, thing=told)
            self._pay(tx, message.model or "", turn, request, session_used)

        self.post(work)

    def paid(self, model: str, turn: Turn, request: Usage) -> None:
        """A request whose message was dropped costs all the same."""
        session_used = self.used
        self.post(lambda tx: self._pay(tx, model, turn, request, session_used))

    def _pay(self, tx: Tx, model: str, turn: Turn, request: Usage, session_used: Usage) -> None:
        usage_rows.add(tx.connection, self.session_id, turn.id, model, request)
        turns.update(tx.connection, turn)
        data = UsageData(model=model, request=request, turn=turn.usage, session=session_used)
        tx.append("usage.updated", self._scope(turn.id), data=data)

    def add_user_message(
        self,
        said: Said,
        taken_steers: list[int],
        turn: Turn,
        shortened: Sequence[Ended] = (),
        told_tasks: Sequence[Told] = (),
    ) -> "asyncio.Future[None]":
        """Results, further input or both; to be waited for before the model is sent them.

        `shortened` are calls whose results were too long together, as they are brought: each is told again.
        """

        def work(tx: Tx) -> None:
            for ended in shortened:
                self._complete(tx, ended, calls.put(tx.connection, ended.call))
            messages.add_blocks(tx.connection, said.message, said.blocks, said.brought)
            told = messages.with_content(said.message, said.encoded)
            tx.append("message.completed", self._scope(said.message.turn_id), reference=said.message.id, thing=told)
            steers.drop(tx.connection, taken_steers)
            tasks.mark_told(tx.connection, told_tasks)
            turns.update(tx.connection, turn)

        return self._submit(work)

    async def add_steer(self, turn_id: TurnId, blocks: list[dict[str, Any]]) -> int:
        return await self.write(lambda tx: steers.add(tx.connection, self.session_id, turn_id, blocks))

    # Calls.

    def call_queued(self, call: Call, draft: Draft) -> None:
        self.post(lambda tx: self._put_call(tx, call, draft, ("tool.queued",)))

    def call_started(self, call: Call, draft: Draft, *, queued: bool, urgent: bool) -> "asyncio.Future[bytes]":
        """Before it runs: the message as far as it has come and the call's start, together."""
        kinds = ("tool.started",) if queued else ("tool.queued", "tool.started")
        return self._submit(lambda tx: self._put_call(tx, call, draft, kinds), urgent=urgent)

    def _put_call(self, tx: Tx, call: Call, draft: Draft, kinds: Sequence[str]) -> bytes:
        drafts.extend(tx.connection, self.session_id, draft)
        encoded = calls.put(tx.connection, call)
        for kind in kinds:
            told = call.model_copy(update=_AS_QUEUED) if kind == "tool.queued" else encoded
            tx.append(kind, self._scope(call.turn_id), reference=call.call_id, thing=told)
        return encoded

    def call_completed(self, ended: Ended, draft: Draft, *, queued: bool) -> None:
        def work(tx: Tx) -> None:
            encoded = self._put_call(tx, ended.call, draft, () if queued else ("tool.queued",))
            self._complete(tx, ended, encoded)

        self.post(work)

    def _complete(self, tx: Tx, ended: Ended, encoded: bytes) -> None:
        call = ended.call
        if isinstance(ended.whole_result, ResultRecord):
            results.add(tx.connection, self.session_id, ended.whole_result)
        elif ended.whole_result is not None and call.result_id is not None:
            results.put(tx.connection, call.result_id, self.session_id, ended.whole_result, tool=call.tool)
        for path, read in ended.reads.items():
            states.put_read(tx.connection, self.session_id, path, read)
        tx.append("tool.completed", self._scope(call.turn_id), reference=call.call_id, thing=encoded)
        for change in ended.files:
            tx.append("file.changed", self._scope(call.turn_id), data=change)
        if ended.git is not None:
            tx.append("git.changed", self._scope(call.turn_id), data=ended.git)

    def pull_linked(self, pull: PullRequest) -> None:
        def work(tx: Tx) -> None:
            record = sessions.get(tx.connection, self.session_id)
            record = replace(record, metadata=linked(record.metadata, pull), updated_at=times.now())
            sessions.put(tx.connection, record)
            session = session_shape(record, tx.next_cursor, self.used)
            tx.append("session.updated", Scope(record.id, record.root_id), data=SessionData(session=session))

        self.post(work)

    def keep_as_queued(self, call: Call) -> None:
        self.post(lambda tx: calls.keep_as_queued(tx.connection, call))

    # Asks.

    async def open_ask(self, ask: Ask, call: Call | None, draft: Draft, turn: Turn, *, queued: bool) -> None:
        def work(tx: Tx) -> None:
            if call is not None:
                self._put_call(tx, call, draft, () if queued else ("tool.queued",))
            asks.open_ask(tx.connection, ask)
            tx.append("ask.opened", self._scope(ask.turn_id), reference=ask.id, thing=ask)
            self._set_turn(tx, turn)

        await self.write(work)

    async def settle_ask(
        self,
        ask: Ask,
        turn: Turn | None,
        remember: tuple[Behavior, str] | None = None,
        trusted: TrustRecord | None = None,
    ) -> Settled:
        """Give an ask its ending, unless somebody was faster. `turn` is the turn as it goes on."""

        def work(tx: Tx) -> Settled:
            if not asks.settle(tx.connection, ask):
                return Settled(asks.find(tx.connection, ask.id) or ask, won=False)
            tx.append("ask.resolved", self._scope(ask.turn_id), reference=ask.id, thing=ask)
            record = self._remember(tx, *remember) if remember is not None else None
            if trusted is not None:
                trust.grant(tx.connection, trusted)
            if turn is not None:
                self._set_turn(tx, turn)
            return Settled(ask, won=True, record=record)

        return await self.write(work)

    def _remember(self, tx: Tx, behavior: Behavior, rule: str) -> SessionRecord:
        record = sessions.get(tx.connection, self.session_id)
        rules = dict(record.options.get("rules") or {})
        rules[behavior] = [*(text for text in rules.get(behavior) or () if text != rule), rule]
        record = replace(record, options={**record.options, "rules": rules})
        sessions.put(tx.connection, record)
        return record

    def _set_turn(self, tx: Tx, turn: Turn) -> None:
        """A turn went from running to waiting, or back."""
        before = turns.find(tx.connection, turn.id)
        turns.update(tx.connection, turn)
        if before is not None and before.status != turn.status:
            shown = turn.model_copy(update={"cursor": tx.next_cursor})
            tx.append("turn.updated", self._scope(turn.id), data=TurnData(turn=shown))
            self.set_status(tx, "waiting" if turn.status == "waiting" else "running")

    # Hooks.

    def hook_ran(self, turn_id: TurnId | None, run: HookRun) -> None:
        def work(tx: Tx) -> None:
            tx.append("hook.ran", self._scope(turn_id), data=HookData(run=run))

        self.post(work)

    def take_back(self, message: Message, untold: Sequence[Told] = ()) -> None:
        """A message that a hook did not let pass: the model is never sent it, and knows nothing of what it told."""

        def work(tx: Tx) -> None:
            messages.drop(tx.connection, message.id)
            tasks.mark_untold(tx.connection, untold)

        self.post(work)

    # Words.

    def retrying(self, turn_id: TurnId, retry: ModelRetry) -> None:
        def work(tx: Tx) -> None:
            tx.append("model.retrying", self._scope(turn_id), data=retry)

        self.post(work)

    def notice(self, turn_id: TurnId | None, notice: Notice) -> None:
        def work(tx: Tx) -> None:
            tx.append("notice", self._scope(turn_id), data=notice)

        self.post(work)

    def state_changed(self, state: dict[str, Any]) -> None:
        self.post(lambda tx: states.put(tx.connection, self.session_id, state))


def linked(metadata: dict[str, Any], pull: PullRequest) -> dict[str, Any]:
    """A session's metadata with one more pull request; what a client keeps there under that name is left alone."""
    known = metadata.get("pr", [])
    entry = {"number": pull.number, "url": pull.url}
    if not isinstance(known, list) or entry in known:
        return metadata
    return {**metadata, "pr": [*known, entry]}
