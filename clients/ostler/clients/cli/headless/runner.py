"""One turn without a person in front of it: started, reported, and stopped by a signal or a time limit."""

import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Literal

import anyio
from anyio.abc import TaskStatus
from pydantic import ValidationError

from ostler.clients import LiveTurn, Ostler, refuse
from ostler.clients.cli.errors import USAGE_ERRORS, describe_error, describe_invalid_fields
from ostler.clients.cli.exit_codes import Outcome
from ostler.clients.cli.notices import REHEARSAL, is_rehearsal
from ostler.clients.cli.output import note, sanitize
from ostler.clients.cli.render.ask import describe_choices, render_body, render_head
from ostler.clients.cli.render.ask_line import describe_folder
from ostler.clients.cli.session_choice import find_newest_session
from ostler.clients.sdk.errors import ClientError
from ostler.clients.sdk.turn import TurnSettings
from ostler.clients.sdk.turn_events import AskEnded, AskOpened, TurnEvent
from ostler.protocol.ask import Answer
from ostler.protocol.errors import (
    BudgetExceeded,
    Conflict,
    OstlerError,
    ProtocolError,
    SessionNotFound,
    TooLarge,
)
from ostler.protocol.ids import SessionId
from ostler.protocol.methods import SESSION_CREATE, SESSION_DELETE, SESSION_GET, SESSION_UPDATE
from ostler.protocol.session import Session, SessionCreate, SessionRef, SessionUpdate
from ostler.protocol.shapes import Ask, Turn

_PATIENCE_SECONDS: Final = 10.0
"""How long a daemon may be gone before nobody waits for it any more; a restart takes about one."""
_GRACE_SECONDS: Final = 10.0
"""How much longer than its own time limit a turn may take to tell that it is over."""
_REFUSED_TURN_ERRORS: Final = (*USAGE_ERRORS, BudgetExceeded, TooLarge)
"""How a daemon refuses a turn for what was asked, before it begins."""
_NEGATIVE_CHOICES: Final = frozenset({"deny", "deny_always", "decline", "reject", "cancel", "restrict"})

EventReporter = Callable[[TurnEvent], None]


@dataclass(frozen=True, slots=True)
class NewestSession:
    """The newest session of a folder."""

    folder: str


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What shall be done, where, and within which bounds."""

    prompt: str
    where: SessionCreate | NewestSession | str
    """A new session, the newest one of a folder, or the id of one."""
    on_ask: Literal["deny", "wait"] = "deny"
    settings: TurnSettings = field(default_factory=TurnSettings)
    seconds: float | None = None


class HeadlessRunner:
    """Runs one turn."""

    def __init__(self, ostler: Ostler, options: RunOptions, reporter: Callable[[Session], EventReporter]) -> None:
        self._ostler = ostler
        self._options = options
        self._reporter = reporter
        self._session: Session | None = None
        self._live: LiveTurn | None = None
        self._error: dict[str, object] | None = None
        self._unanswered = False
        self._signals = 0
        self._scope = anyio.CancelScope()
        self._write_error: OSError | None = None

    async def run(self) -> Outcome:
        """To the end of the turn, or as far as it goes."""
        async with anyio.create_task_group() as group:
            await group.start(self._handle_signals)
            with self._scope:
                await self._run_bounded()
            group.cancel_scope.cancel()
        if self._write_error is not None:
            raise self._write_error
        return Outcome(self._session.id if self._session else None, self._turn, self._error, self._unanswered)

    @property
    def _turn(self) -> Turn | None:
        return self._live.turn if self._live is not None else None

    async def _handle_signals(self, *, task_status: TaskStatus[None]) -> None:
        """The first signal stops the turn and waits for its end; the second leaves at once."""
        with anyio.open_signal_receiver(*_list_stop_signals()) as signals:
            task_status.started()
            async with anyio.create_task_group() as group:
                async for number in signals:
                    if number == signal.SIGHUP and self._signals:
                        continue  # a terminal that closes says so twice: through the shell, and by itself
                    self._signals += 1
                    if self._signals > 1 or self._live is None:
                        self._error = {"code": "interrupted", "message": "It was interrupted before the turn ended."}
                        self._scope.cancel()
                    else:
                        group.start_soon(self._stop, self._live)
                        _try_note("Stopping the turn; once more leaves at once.")

    async def _stop(self, live: LiveTurn) -> None:
        try:
            await live.interrupt()
        except (ClientError, ProtocolError) as error:
            _try_note(f"It could not be told to stop: {error}")

    async def _run_bounded(self) -> None:
        limit = self._options.seconds
        with anyio.move_on_after(limit + _GRACE_SECONDS if limit is not None else None) as scope:
            await self._run_guarded()
        if scope.cancelled_caught:
            self._error = {"code": "timeout", "message": f"It did not end within {limit} s."}
            if self._live is not None:
                await self._stop(self._live)

    async def _run_guarded(self) -> None:
        try:
            await self._run_turn()
        except OSError as error:
            # Nobody can read the answer any more, so nobody wants the work.
            self._write_error = error
            if self._live is not None:
                await self._stop(self._live)
        except ValidationError as wrong:
            self._error = {"code": "usage", "message": describe_invalid_fields(wrong)}
        except OstlerError as error:
            self._error = {"message": describe_error(error), **error.data}
        except ProtocolError as error:
            word = "usage" if isinstance(error, USAGE_ERRORS) else "rpc_error"
            self._error = {"code": word, "message": describe_error(error)}
        except ClientError as error:
            self._error = {"code": "daemon_unreachable", "message": str(error)}

    async def _run_turn(self) -> None:
        self._session = session = await self._find_session()
        if is_rehearsal(self._options.settings.get("model") or session.model):
            note(REHEARSAL)
        report = self._reporter(session)
        turn = self._ostler.turn(
            session.id,
            self._options.prompt,
            on_ask=self._answer,
            on_connection=_tell_connection,
            patience_seconds=_PATIENCE_SECONDS,
            **self._options.settings,
        )
        try:
            async with turn as self._live:
                async for turn_event in self._live:
                    self._track_ask(turn_event)
                    report(turn_event)
        except _REFUSED_TURN_ERRORS:
            await self._delete_unused_session()
            raise

    async def _find_session(self) -> Session:
        where = self._options.where
        if isinstance(where, SessionCreate):
            return await self._ostler.call(SESSION_CREATE, where)
        session_id = await self._find_newest(where.folder) if isinstance(where, NewestSession) else where
        session = await self._ostler.call(SESSION_GET, SessionRef(session_id=SessionId(session_id)))
        if session.status == "archived":
            raise Conflict(
                f"The session is archived. `ostler archive --undo {session.id}` takes it out of the archive."
            )
        if self._options.on_ask == "wait" and session.on_ask == "deny":
            return await self._ostler.call(SESSION_UPDATE, SessionUpdate(session_id=session.id, on_ask="ask"))
        return session

    async def _delete_unused_session(self) -> None:
        """A session that was made for a turn that never began is of no use to anybody."""
        if self._session is None or self._live is not None or not isinstance(self._options.where, SessionCreate):
            return
        with suppress(ClientError, ProtocolError):  # it was only to be tidy
            await self._ostler.call(SESSION_DELETE, SessionRef(session_id=self._session.id))
            self._session = None

    async def _find_newest(self, folder: str) -> str:
        newest = await find_newest_session(self._ostler, folder)
        if newest is None:
            message = f"There is no session in {folder} to go on with. Leave out --continue for a new one."
            raise OstlerError(message, code=SessionNotFound.word)
        return newest

    async def _answer(self, ask: Ask) -> Answer | None:
        return await refuse(ask) if self._options.on_ask == "deny" else None

    def _track_ask(self, turn_event: TurnEvent) -> None:
        if isinstance(turn_event, AskEnded):
            choice = (turn_event.ask.answer or {}).get("choice")
            self._unanswered |= turn_event.ask.status == "expired" or choice in _NEGATIVE_CHOICES
        elif isinstance(turn_event, AskOpened) and self._options.on_ask == "wait":
            _tell_ask(turn_event.ask, self._session.cwd if self._session else None)


def _tell_ask(ask: Ask, folder: str | None) -> None:
    """What is asked, as far as it takes to answer it from another terminal."""
    waiting = f"waiting for `ostler answer {ask.id} {describe_choices(ask)}`"
    elsewhere = f" (in {shown})" if (shown := describe_folder(folder)) else ""
    brought = [str(one.get("text", "")) for one in ask.what or []]
    if ask.kind in {"question", "plan"}:
        for text, _ in (render_head(ask), *render_body(ask)):
            note(sanitize(text))
        note(f"  {waiting}")
        return
    if not brought:
        who = f"{ask.agent.name or ask.agent.kind}: " if ask.agent else ""
        subject = f"{who}{ask.call.tool} {ask.call.summary}" if ask.call else ask.message
        note(sanitize(f"? {subject}{elsewhere}: {waiting}"))
        return
    # Nobody can trust what they do not see.
    for line in (f"? {ask.message}{elsewhere}", *(f"  - {line}" for line in brought), f"  {waiting}"):
        note(sanitize(line))


def _list_stop_signals() -> list[signal.Signals]:
    """The signals that stop a turn; where somebody said `nohup`, a closed terminal does not."""
    hears_hangup = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    return [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hears_hangup else [])]


def _try_note(text: str) -> None:
    """Print a note if that is possible: the terminal may be closed."""
    with suppress(OSError):
        note(text)


def _tell_connection(state: Literal["lost", "back"]) -> None:
    note("The daemon is gone; waiting for it." if state == "lost" else "The daemon is back.")
