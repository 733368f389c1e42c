"""A terminal on a session: what happens is shown, what is typed goes to the agent or answers an ask."""

import signal
import time
from collections import deque
from contextlib import aclosing
from typing import Final, Literal

import anyio
from anyio.abc import TaskGroup, TaskStatus

from ostler.clients import Ostler
from ostler.clients.cli.chat.ask_prompt import Answering, Meaning
from ostler.clients.cli.chat.ask_queue import OpenAsks
from ostler.clients.cli.output import Colour
from ostler.clients.cli.render.ask import who_answered
from ostler.clients.cli.render.turn import Narrator
from ostler.clients.cli.terminal.console import Console
from ostler.clients.cli.terminal.line_editor import Escape, Leave
from ostler.clients.sdk.errors import ClientError
from ostler.clients.sdk.retry import insist
from ostler.clients.sdk.turn_events import (
    AskEnded,
    AskOpened,
    MessageCompleted,
    OtherEvent,
    SessionChanged,
    TurnChanged,
    TurnEnded,
    TurnEvent,
    typed,
)
from ostler.protocol.ask import Answer
from ostler.protocol.content import TextBlock
from ostler.protocol.errors import NoTurnRunning, ProtocolError, TurnRunning
from ostler.protocol.ids import TurnId
from ostler.protocol.methods import SESSION_GET, TURN_INTERRUPT, TURN_STEER
from ostler.protocol.session import Session, SessionRef
from ostler.protocol.shapes import Ask, Message, Turn
from ostler.protocol.turn import TurnInterrupt, TurnSteer

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCONT, signal.SIGWINCH)
_TWICE_SECONDS: Final = 2.0
"""Two Ctrl-C within this time are one wish: to leave."""


class Attached:
    """Stays until the person leaves, whatever the daemon does meanwhile."""

    def __init__(self, ostler: Ostler, session: Session, console: Console) -> None:
        self.ostler = ostler
        self.session = session
        self.turn: Turn | None = None
        """The turn that runs or waits."""
        self.used = False
        """Something was said in it, by whoever."""
        self._console = console
        self._narrator = Narrator(console.paper, session.id, full=True)
        self._asks = OpenAsks(console, self.tell)
        self._typed_here: deque[str] = deque()
        self._ended: set[TurnId] = set()
        self._changed = anyio.Event()
        self._pressed = 0.0
        self._whole = anyio.CancelScope()

    async def stay(self) -> None:
        """Until the person leaves, or the session is deleted."""
        self._take_state(self.session)
        async with anyio.create_task_group() as group:
            await group.start(self._listen, group)
            group.start_soon(self._watch)
            group.start_soon(self._let_read)
            with self._whole:
                await self._read()
            group.cancel_scope.cancel()

    def tell(self, text: str, colour: Colour | None = "dim") -> None:
        """A line of our own."""
        self._narrator.line(text, colour)

    def leave(self) -> None:
        self._whole.cancel()

    # What happens.

    async def _watch(self) -> None:
        events = self.ostler.events(self.session.id, after=self.session.cursor, on_connection=self._tell_connection)
        try:
            async with events:
                async for event in events:
                    await self._happened(typed(event))
        except (ClientError, ProtocolError) as error:
            self.tell(str(error), "red")
            self.leave()

    def _tell_connection(self, state: Literal["lost", "back"]) -> None:
        if state == "lost":
            self.tell("The daemon is gone. Waiting for it; `ostler start` brings it back.", "yellow")
        else:
            self.tell("The daemon is back; going on.", "green")

    async def _happened(self, happened: TurnEvent) -> None:
        match happened:
            case TurnChanged(turn=turn) | TurnEnded(turn=turn) if turn.session_id == self.session.id:
                self._narrator.tell(happened)
                self._take_turn(turn)
            case AskOpened(ask=ask):
                self._open(ask)
            case AskEnded(ask=ask):
                await self._close(ask)
            case MessageCompleted(message=message) if message.role == "user":
                self._heard(message)
            case SessionChanged(session=session) if session.id == self.session.id:
                self._session_changed(session, happened.event.type)
            case OtherEvent(event=event) if event.type == "stream.reset":
                self.tell("Some of what happened is not known any more; this is how it stands now.", "yellow")
                wanted = SessionRef(session_id=self.session.id)
                self._take_state(await insist(lambda: self.ostler.call(SESSION_GET, wanted)))
            case _:
                self._narrator.tell(happened)

    def _take_state(self, session: Session) -> None:
        self.session = session
        self.turn = session.turn
        self._asks.keep({ask.id for ask in session.asks})
        for ask in session.asks:
            self._asks.add(ask)
        self._refresh()

    def _take_turn(self, turn: Turn) -> None:
        if turn.status == "ended":
            self._ended.add(turn.id)
            if self.turn is not None and self.turn.id == turn.id:
                self.turn = None
        elif turn.status != "queued" and turn.id not in self._ended:
            self.turn = turn
            self.used = True
        self._refresh()

    def _heard(self, message: Message) -> None:
        """Input, of ours or of somebody else's; tool results are told as calls."""
        said = _said_in(message)
        if message.session_id != self.session.id or not said:
            return
        self.used = True
        # What was said at several times, here or elsewhere, may come together in one message.
        others = [words for words in said if not self._was_typed_here(words)]
        if others:
            self._narrator.line("» " + "\n".join(others), "bold")

    def _was_typed_here(self, words: str) -> bool:
        if words not in self._typed_here:
            return False
        self._typed_here.remove(words)
        return True

    def _session_changed(self, session: Session, kind: str) -> None:
        if kind == "session.deleted":
            self.tell("The session was deleted.", "yellow")
            self.used = True
            self.leave()
        for name in ("mode", "model", "title"):
            if getattr(session, name) != getattr(self.session, name):
                self.tell(f"The {name} is now {getattr(session, name)}.")
        self.session = session

    # Asks.

    def _open(self, ask: Ask) -> None:
        if self._asks.add(ask) and len(self._asks) > 1:
            self.tell("  (a further ask waits behind this one)")
        self._refresh()

    async def _close(self, ask: Ask) -> None:
        here = self._asks.remove(ask.id)
        self.tell(*self._settled(ask, here=here))
        self._refresh()

    def _settled(self, ask: Ask, *, here: bool) -> tuple[str, Colour]:
        too_late = "Too late: " if here else ""
        if ask.status != "resolved":
            return f"  {too_late}{ask.status}, nobody has to answer any more", "dim"
        choice = (ask.answer or {}).get("choice", "answered")
        if ask.answered_by == self.ostler.daemon.client_id:
            return f"  {choice}", "dim"
        who = who_answered(self.ostler, ask.answered_by, ask.answered_by_name)
        return f"  {too_late}{choice}, answered by {who}", "yellow" if here else "cyan"

    def _refresh(self) -> None:
        """What the next line will be taken for."""
        coming = self._asks.to_show()
        for text, colour in coming.shown() if coming is not None else ():
            self._narrator.line(text, colour)
        self._asks.face()
        asked = self._asks.faced
        if asked is not None:
            self._console.ask_for(asked.prompt, asked.keys)
        else:
            self._console.ask_for("… " if self.turn is not None else "> ")
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    async def _let_read(self) -> None:
        """Keys begin to count when a new ask can have been read, and the prompt says so then."""
        while True:
            left, changed = self._asks.left(), self._changed
            if left == 0.0:
                self._refresh()
                continue
            with anyio.move_on_after(left):
                await changed.wait()

    async def _answer(self, asked: Answering, line: str) -> bool:
        """Whether the line was an answer, or part of one."""
        meaning = asked.take(line)
        if meaning is Meaning.OTHER:
            return False
        if not isinstance(meaning, Meaning):
            await self._resolve(asked, meaning)
            return True
        self._refresh()
        if meaning is Meaning.SAME:
            self.tell("The input is as it was. [y] allows it as it is.", "yellow")
        for text, colour in asked.shown_whole() if meaning is Meaning.VIEW else asked.more():
            self._narrator.line(text, colour)
        self._console.fill(asked.fill)
        return True

    async def _resolve(self, asked: Answering, answer: Answer) -> None:
        self._asks.sent(asked)
        self._refresh()
        try:
            await self.ostler.resolve(asked.ask, answer)
        except ProtocolError as error:
            self._asks.not_sent(asked)
            self.tell(f"That is no answer to this: {error.message}", "red")
        except ClientError:
            self._asks.not_sent(asked)
            raise
        finally:
            self._refresh()

    # What is typed.

    async def _read(self) -> None:
        from ostler.clients.cli.chat.slash_commands import obey

        async with aclosing(self._console.typed()) as lines:
            async for one in lines:
                if isinstance(one, Leave):
                    break
                if isinstance(one, Escape):
                    await self._escape()
                    continue
                self._console.echo(one.text)
                try:
                    if not await obey(self, one.text):
                        await self._take_line(one.text)
                except ProtocolError as error:
                    self.tell(f"{error}", "red")
                except ClientError as error:
                    self.tell(f"{error}", "red")
                    self._keep(one.text)
        if not self._console.is_terminal:
            await self._until_it_rests()

    def _keep(self, line: str) -> None:
        """It did not reach the daemon: it stands there again, to be sent when that is back."""
        begun = self._console.put_aside()
        self._console.fill(f"{line}\n{begun}" if begun else line)

    async def _escape(self) -> None:
        """Back from the words of an answer to its keys; else it stops the turn, as in other agents."""
        if not self._back_to_the_keys() and self.turn is not None:
            await self.interrupt()

    async def _take_line(self, line: str) -> None:
        asked, first = self._asks.faced, self._asks.first
        if asked is not None and await self._answer(asked, line):
            return
        if asked is None and first is not None and first.is_key(line):
            return  # meant for an ask that nobody can have read yet
        if line.strip():
            await self.say(line)

    async def say(self, words: str, *, queue: bool = False) -> None:
        """To the turn that runs, or as a new one."""
        self._typed_here.append(words)
        try:
            await self._say(words, queue=queue)
        except (ClientError, ProtocolError):
            self._was_typed_here(words)
            raise

    async def _say(self, words: str, *, queue: bool) -> None:
        try:
            if self.turn is None or queue:
                self._take_turn(await self.ostler.start(self.session.id, words, queue=queue))
            else:
                await self._steer(self.turn.id, words)
        except NoTurnRunning:
            self._take_turn(await self.ostler.start(self.session.id, words))
        except TurnRunning as busy:
            await self._steer(TurnId(str(busy.data["turn_id"])), words)

    async def _steer(self, turn_id: TurnId, words: str) -> None:
        await self.ostler.call(TURN_STEER, TurnSteer(turn_id=turn_id, input=words))
        self.tell("  (the agent reads it with its next request)")

    async def _until_it_rests(self) -> None:
        """Nobody types any more: wait for the end of the turn, but not for an answer that nobody can give."""
        while self.turn is not None and not self._asks:
            await self._changed.wait()

    # Signals.

    async def _listen(self, group: TaskGroup, *, task_status: TaskStatus[None]) -> None:
        with anyio.open_signal_receiver(*_SIGNALS) as signals:
            task_status.started()
            async for number in signals:
                match number:
                    case signal.SIGCONT:
                        self._console.resume()
                    case signal.SIGWINCH:
                        self._console.resized()
                    case signal.SIGINT:
                        self._ctrl_c(group)
                    case _:
                        self.leave()

    def _ctrl_c(self, group: TaskGroup) -> None:
        """One thing after the other: what is half typed, then the turn, and only then this terminal."""
        if self._back_to_the_keys() or self._drop_line():
            return
        if self.turn is not None:
            group.start_soon(self.interrupt)
        elif self._is_second():
            self.leave()
        else:
            self.tell("Once more, or Ctrl-D, leaves.")

    def _drop_line(self) -> bool:
        line = self._console.put_aside()
        self._console.remember(line)
        return bool(line)

    def _back_to_the_keys(self) -> bool:
        asked = self._asks.faced
        if asked is None or not asked.back():
            return False
        self._drop_line()
        self._refresh()
        return True

    def _is_second(self) -> bool:
        before, self._pressed = self._pressed, time.monotonic()
        return self._pressed - before < _TWICE_SECONDS

    async def interrupt(self) -> None:
        if self.turn is None:
            self.tell("Nothing runs.")
            return
        self.tell("Stopping the turn …")
        try:
            await self.ostler.call(TURN_INTERRUPT, TurnInterrupt(turn_id=self.turn.id))
        except NoTurnRunning:
            pass
        except (ClientError, ProtocolError) as error:
            self.tell(f"It could not be told to stop: {error}", "red")


def _said_in(message: Message) -> list[str]:
    """What people said in it; not results, and not what the daemon added for the model."""
    texts = (block.text for block in message.content if isinstance(block, TextBlock))
    return [text for text in texts if text and not is_ours(text)]


def is_ours(text: str) -> bool:
    """What the daemon tells the model in a user message stands in tags of its own."""
    return text.startswith("<ostler-")
