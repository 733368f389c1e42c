"""A chat in a terminal: the events of a session are shown, what is typed goes to the agent or answers an ask."""

import os
import signal
import time
from collections import deque
from collections.abc import Awaitable, Sequence
from contextlib import aclosing
from typing import Final, Literal

import anyio
from anyio.abc import TaskGroup, TaskStatus

from ostler.clients import Ostler
from ostler.clients.cli.chat.ask_card import render_card
from ostler.clients.cli.chat.ask_prompt import AskPrompt, ReplyKind
from ostler.clients.cli.chat.ask_queue import AskQueue
from ostler.clients.cli.chat.attention import Attention
from ostler.clients.cli.chat.external_programs import edit_text, page_text
from ostler.clients.cli.chat.live_view import LiveView
from ostler.clients.cli.chat.mentions import build_input
from ostler.clients.cli.chat.status_line import StatusLine
from ostler.clients.cli.chat.suggester import Suggester
from ostler.clients.cli.output import Colour, strip_colours
from ostler.clients.cli.render.ask import name_answerer
from ostler.clients.cli.render.ask_line import describe_subject
from ostler.clients.cli.render.blocks.rows import Row
from ostler.clients.cli.render.explanation import format_explanation
from ostler.clients.cli.render.turn import TurnRenderer, describe_brief
from ostler.clients.cli.terminal.console import Console, TerminalConsole
from ostler.clients.cli.terminal.input_events import EndOfInput, Escape, Line, Shortcut, StrayKeys
from ostler.clients.sdk.errors import ClientError
from ostler.clients.sdk.retry import retry_call
from ostler.clients.sdk.turn_events import (
    AskEnded,
    AskOpened,
    MessageCompleted,
    OtherEvent,
    SessionChanged,
    TaskEnded,
    TaskStarted,
    TurnChanged,
    TurnEnded,
    TurnEvent,
    UsageUpdated,
    typed,
)
from ostler.protocol.ask import Answer
from ostler.protocol.content import TextBlock
from ostler.protocol.errors import NoTurnRunning, ProtocolError, TurnRunning
from ostler.protocol.ids import TurnId
from ostler.protocol.memory import MemoryAdd, MemoryScope
from ostler.protocol.methods import MEMORY_ADD, RULE_EXPLAIN, SESSION_GET, TURN_INTERRUPT, TURN_STEER
from ostler.protocol.rule import RuleExplain
from ostler.protocol.session import Session, SessionRef
from ostler.protocol.shapes import Ask, AskingAgent, Message, Turn
from ostler.protocol.turn import GivenBack, TurnInterrupt, TurnSteer

_SIGNALS: Final = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGTSTP,
    signal.SIGCONT,
    signal.SIGWINCH,
)
_DOUBLE_PRESS_SECONDS: Final = 2.0
"""Two Ctrl-C within this time leave the chat."""


class ChatSession:
    """A terminal on one session, until the person leaves, whatever the daemon does meanwhile."""

    def __init__(self, ostler: Ostler, session: Session, console: Console) -> None:
        self.ostler = ostler
        self.session = session
        self.turn: Turn | None = None
        """The turn that runs or waits."""
        self.next_session: Session | None = None
        """Where the person goes on when this chat is left."""
        self.next_is_new = False
        self.home: str | None = None
        """The home that was named on the command line."""
        self.used = False
        """Something was said in it, by whoever."""
        self.console = self._console = console
        self.view: LiveView | None = None
        """What is drawn on a terminal; into a pipe events are written line by line."""
        self._renderer: TurnRenderer | LiveView
        self._attention: Attention | None = None
        if isinstance(console, TerminalConsole):
            self._renderer = self.view = console.parts = LiveView(session.id, session.cwd, console.request_paint)
            self.view.card = self._render_card
            self.view.status = self._render_status
            self._attention = Attention(console, session.cwd)
        else:
            self._renderer = TurnRenderer(console.sink, session.id, full=True)
        self._status = StatusLine(session)
        self._stale = anyio.Event()
        """Something has happened that the status line has to be asked for."""
        self._suggester = Suggester(ostler, session.id)
        if isinstance(console, TerminalConsole):
            console.use_suggestions(self._suggester.suggest)
        self._asks = AskQueue(console, self.tell, session.cwd)
        self._coming: list[Ask] = []
        """Asks of agents that wait until the model has finished its sentence."""
        self._typed_here: deque[str] = deque()
        self._ended: set[TurnId] = set()
        self._changed = anyio.Event()
        self._last_ctrl_c = 0.0
        self._scope = anyio.CancelScope()

    async def run(self) -> None:
        """Until the person leaves, or the session is deleted."""
        for brief in self.session.briefs:  # sent when nobody was here
            for text, colour in describe_brief(brief):
                self.tell(text, colour)
        self._apply_state(self.session)
        async with anyio.create_task_group() as group:
            await group.start(self._handle_signals, group)
            group.start_soon(self._watch_events)
            group.start_soon(self._enable_keys)
            group.start_soon(self._console.keep_painting)
            if isinstance(self._console, TerminalConsole):
                group.start_soon(self._refresh_status)
                group.start_soon(self._suggester.keep_fetching, self._console.refresh_menu)
            with self._scope:
                await self._read_lines()
            group.cancel_scope.cancel()
        self._renderer.finish_text()
        if self._attention is not None:
            self._attention.end()

    def move_to(self, session: Session, *, new: bool = False) -> None:
        """Leave this session for another one."""
        self.next_session, self.next_is_new = session, new
        self.leave()

    def tell(self, text: str, colour: Colour | None = "dim") -> None:
        """Write a line of our own."""
        self._renderer.write_line(text, colour)

    def leave(self) -> None:
        self._scope.cancel()

    # Events.

    async def _watch_events(self) -> None:
        events = self.ostler.events(self.session.id, after=self.session.cursor, on_connection=self._tell_connection)
        try:
            async with events:
                async for event in events:
                    await self._handle_event(typed(event))
        except (ClientError, ProtocolError) as error:
            self.tell(str(error), "red")
            self.leave()

    def _tell_connection(self, state: Literal["lost", "back"]) -> None:
        if state == "lost":
            self.tell("The daemon is gone. Waiting for it; `ostler start` brings it back.", "yellow")
        else:
            self.tell("The daemon is back; going on.", "green")

    async def _handle_event(self, turn_event: TurnEvent) -> None:
        await self._show_event(turn_event)
        self._update_status(turn_event)
        if self._coming and not self._renderer.is_speaking:
            coming, self._coming = self._coming, []
            for ask in coming:
                self._add_ask(ask)

    async def _show_event(self, turn_event: TurnEvent) -> None:
        match turn_event:
            case TurnChanged(turn=turn) | TurnEnded(turn=turn) if turn.session_id == self.session.id:
                self._renderer.render(turn_event)
                self._apply_turn(turn)
            case AskOpened(ask=ask) if ask.session_id != self.session.id and self._renderer.is_speaking:
                self._coming.append(ask)
            case AskOpened(ask=ask):
                self._add_ask(ask)
            case AskEnded(ask=ask):
                self._coming = [other for other in self._coming if other.id != ask.id]
                await self._remove_ask(ask)
            case MessageCompleted(message=message) if message.role == "user":
                if not message.summary:
                    self._show_input(message)
            case SessionChanged(session=session) if session.id == self.session.id:
                self._apply_session(session, turn_event.event.type)
            case OtherEvent(event=event) if event.type == "stream.reset":
                self.tell("Some of what happened is not known any more; this is how it stands now.", "yellow")
                wanted = SessionRef(session_id=self.session.id)
                self._apply_state(await retry_call(lambda: self.ostler.call(SESSION_GET, wanted)))
            case _:
                self._renderer.render(turn_event)

    def _update_status(self, turn_event: TurnEvent) -> None:
        match turn_event:
            case UsageUpdated(usage=usage) if turn_event.event.session_id == self.session.id:
                self._status.apply_usage(usage.turn, usage.session)
            case TurnEnded(turn=turn) if turn.session_id == self.session.id:
                if self._attention is not None and self._coming == []:
                    self._attention.call_person("The turn has ended.")
                self._stale.set()
            case TaskStarted() | TaskEnded():
                self._stale.set()
            case OtherEvent(event=event) if event.type in {"client.attached", "client.detached"}:
                self._stale.set()
            case _:
                pass

    async def _refresh_status(self) -> None:
        while True:
            await self._status.refresh(self.ostler)
            if isinstance(self._console, TerminalConsole):
                self._console.request_paint()
            await self._stale.wait()
            self._stale = anyio.Event()

    def _render_status(self, columns: int) -> list[Row]:
        self._status.session = self.session
        self._status.agents = self.view.count_agents() if self.view is not None else 0
        if isinstance(self._console, TerminalConsole):
            self._status.vi_mode = self._console.editor.vi_mode
        return self._status.render(columns)

    def _apply_state(self, session: Session) -> None:
        self.session = session
        self.turn = session.turn
        for agent in session.agents:
            if agent.agent_id is not None:
                self._renderer.name_agent(agent.agent_id, AskingAgent(name=agent.name, kind=agent.kind))
        for call in session.calls:
            self._renderer.render_running(call)
        self._coming = []
        self._asks.keep_only({ask.id for ask in session.asks})
        for ask in session.asks:
            self._asks.add(ask)
        self._refresh_prompt()

    def _apply_turn(self, turn: Turn) -> None:
        if turn.status == "ended":
            self._ended.add(turn.id)
            if self.turn is not None and self.turn.id == turn.id:
                self.turn = None
        elif turn.status != "queued" and turn.id not in self._ended:
            self.turn = turn
            self.used = True
            if self.view is not None and (self.view.turn is None or self.view.turn.id != turn.id):
                self.view.begin_turn(turn)
        self._refresh_prompt()

    def _show_input(self, message: Message) -> None:
        """Show input that was not typed here; tool results are shown with their calls."""
        inputs = _extract_input(message)
        if message.session_id != self.session.id or not inputs:
            return
        self.used = True
        if message.source_call_id is not None:
            self._renderer.write_line("  ↳ " + "\n".join(inputs), "dim")
            return
        if self.view is not None:
            inputs = [words for words in inputs if not self._show_read(words)]
        # What was said at several times, here or elsewhere, may come together in one message.
        others = [words for words in inputs if not self._pop_typed(words)]
        if others:
            self._renderer.write_line("» " + "\n".join(others), "bold")

    def _show_read(self, words: str) -> bool:
        """Show words that waited as said now that the agent has read them; whether they waited."""
        if self.view is None or words not in self.view.waiting_words:
            return False
        self.view.waiting_words.remove(words)
        self._pop_typed(words)
        self.view.write_input(words)
        return True

    def _pop_typed(self, words: str) -> bool:
        if words not in self._typed_here:
            return False
        self._typed_here.remove(words)
        return True

    def _apply_session(self, session: Session, kind: str) -> None:
        if kind == "session.deleted":
            self.tell("The session was deleted.", "yellow")
            self.used = True
            self.leave()
        for name in ("mode", "model", "title"):
            if getattr(session, name) != getattr(self.session, name):
                self.tell(f"The {name} is now {getattr(session, name)}.")
        self.session = session

    # Asks.

    def _add_ask(self, ask: Ask) -> None:
        if self._asks.add(ask) and len(self._asks) > 1:
            self.tell("  (a further ask waits behind this one)")
        self._refresh_prompt()

    async def _remove_ask(self, ask: Ask) -> None:
        here = self._asks.remove(ask.id)
        outcome, colour = self._describe_outcome(ask, here=here)
        if self.view is not None:  # the card is gone: say what it was about
            outcome = f"? {describe_subject(ask.model_dump())}:{outcome[1:]}"
        self.tell(outcome, colour)
        self._refresh_prompt()

    def _describe_outcome(self, ask: Ask, *, here: bool) -> tuple[str, Colour]:
        too_late = "Too late: " if here else ""
        if ask.status != "resolved":
            return f"  {too_late}{ask.status}, nobody has to answer any more", "dim"
        choice = (ask.answer or {}).get("choice", "answered")
        if ask.answered_by == self.ostler.daemon.client_id:
            return f"  {choice}", "dim"
        who = name_answerer(self.ostler, ask.answered_by, ask.answered_by_name)
        return f"  {too_late}{choice}, answered by {who}", "yellow" if here else "cyan"

    def _refresh_prompt(self) -> None:
        """Show the next ask, and the prompt that says what the next line will be taken for."""
        coming = self._asks.take_unshown()
        for text, colour in coming.render() if coming is not None and self.view is None else ():
            self._renderer.write_line(text, colour)
        if coming is not None and self.view is not None:
            self._renderer.finish_text()
            if self._attention is not None:
                self._attention.call_person(coming.ask.message or "Something is asked.")
        self._asks.activate_first()
        ask_prompt = self._asks.active
        if ask_prompt is not None:
            self._console.set_prompt(ask_prompt.prompt, ask_prompt.keys, ask_prompt.openers)
        else:
            self._console.set_prompt("… " if self.turn is not None else "> ")
        if self._attention is not None:
            self._attention.show_state("?" if self._asks else "…" if self.turn is not None else "")
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    def _render_card(self, columns: int, rows: int) -> list[Row]:
        """The ask that waits for an answer here, drawn for as long as it does."""
        first = self._asks.first
        if first is None or self._asks.is_sent(first):
            return []
        return render_card(first, columns, rows, len(self._asks))

    async def _enable_keys(self) -> None:
        """Keys begin to count when a new ask can have been read, and the prompt says so then."""
        while True:
            left, changed = self._asks.compute_remaining(), self._changed
            if left == 0.0:
                self._refresh_prompt()
                continue
            with anyio.move_on_after(left):
                await changed.wait()

    async def _answer(self, ask_prompt: AskPrompt, line: str) -> bool:
        """Whether the line was an answer, or part of one."""
        reply = ask_prompt.parse_line(line)
        if reply is ReplyKind.OTHER:
            return False
        if not isinstance(reply, ReplyKind):
            await self._resolve(ask_prompt, reply)
            return True
        if ask_prompt.ask.kind == "plan" and self._console.is_terminal and reply in {ReplyKind.EDIT, ReplyKind.VIEW}:
            await self._open_plan(ask_prompt, edits=reply is ReplyKind.EDIT)
            return True
        self._refresh_prompt()
        if reply is ReplyKind.WHY:
            await self._explain(ask_prompt)
        if reply is ReplyKind.SAME:
            self.tell("The input is as it was. [y] allows it as it is.", "yellow")
        more = [] if self.view is not None else ask_prompt.render_more()
        for text, colour in ask_prompt.render_whole() if reply is ReplyKind.VIEW else more:
            self._renderer.write_line(text, colour)
        self._console.fill(ask_prompt.prefill)
        return True

    async def _explain(self, ask_prompt: AskPrompt) -> None:
        """Why it is asked, what it would do to files, and the rule that would help."""
        call = ask_prompt.ask.call
        if call is None:
            return
        wanted = RuleExplain(session_id=ask_prompt.ask.session_id, tool=call.tool, input=call.input)
        found = (await self.ostler.call(RULE_EXPLAIN, wanted)).model_dump()
        for line in format_explanation(found, [one.rule for one in ask_prompt.ask.suggestions]):
            self.tell(strip_colours(line), None)

    async def _open_plan(self, ask_prompt: AskPrompt, *, edits: bool) -> None:
        """Let the plan be read in the person's pager, or changed in their editor."""
        changed = False
        try:
            if edits:
                changed = ask_prompt.change_plan(await edit_text(self._console, ask_prompt.plan))
            elif not await page_text(self._console, ask_prompt.plan):
                for text, colour in ask_prompt.render_whole():
                    self._renderer.write_line(text, colour)
        except OSError as error:
            self.tell(f"That program could not be run: {error}", "red")
        if edits:
            self.tell("The plan is changed; it counts when you approve it." if changed else "The plan is as it was.")
        for text, colour in ask_prompt.render() if changed and self.view is None else ():
            self._renderer.write_line(text, colour)
        self._refresh_prompt()

    async def _resolve(self, ask_prompt: AskPrompt, answer: Answer) -> None:
        self._asks.mark_sent(ask_prompt)
        self._refresh_prompt()
        try:
            await self.ostler.resolve(ask_prompt.ask, answer)
        except ProtocolError as error:
            self._asks.mark_unsent(ask_prompt)
            ask_prompt.start_again()
            self.tell(f"That is no answer to this: {error.message}", "red")
        except ClientError:
            self._asks.mark_unsent(ask_prompt)
            ask_prompt.start_again()
            raise
        finally:
            self._refresh_prompt()

    # Input.

    async def _read_lines(self) -> None:
        from ostler.clients.cli.chat.slash_commands import run_slash_command  # a table of much that is rarely used

        async with aclosing(self._console.read_input()) as lines:
            async for one in lines:
                if isinstance(one, EndOfInput):
                    break
                if isinstance(one, Escape):
                    await self._handle_escape()
                elif isinstance(one, StrayKeys):
                    self._refuse(one.text)
                elif isinstance(one, Shortcut):
                    await self._run(run_slash_command(self, one.command))
                else:
                    await self._run(self._take_line(one), one.text)
        if not self._console.is_terminal:
            await self._wait_for_turn_end()

    async def _run(self, work: Awaitable[object], typed: str | None = None) -> None:
        """Do what was typed; what goes wrong is a line, and a line that did not get through is typed again."""
        try:
            await work
        except ProtocolError as error:
            self.tell(f"{error}", "red")
        except ClientError as error:
            self.tell(f"{error}", "red")
            if typed is not None:
                self._restore_line(typed)

    async def _take_line(self, line: Line) -> None:
        from ostler.clients.cli.chat.slash_commands import is_slash_command, run_slash_command

        if self.view is None:
            self._console.echo(line.text)
        elif is_slash_command(line.text):
            self.view.write_input(line.text)
        if not await run_slash_command(self, line.text):
            await self._handle_line(line.text, line.shown or line.text)

    def _restore_line(self, line: str) -> None:
        """Put a line that did not reach the daemon back into the editor, to be sent when that is back."""
        begun = self._console.take_draft()
        self._console.fill(f"{line}\n{begun}" if begun else line)

    async def has_skill(self, name: str) -> bool:
        """Whether the daemon takes `/name` for a skill."""
        from ostler.clients.cli.session_choice import fetch_all_pages

        found = await fetch_all_pages(self.ostler, "skill/list", {"session_id": self.session.id}, "skills")
        return any(skill["name"] == name and skill["by_person"] for skill in found["skills"])

    async def _handle_escape(self) -> None:
        """Back from the words of an answer to its keys; else it stops the turn, as in other agents."""
        if not self._go_back_to_keys() and self.turn is not None:
            await self.interrupt()

    async def _handle_line(self, line: str, shown: str) -> None:
        ask_prompt, first = self._asks.active, self._asks.first
        if ask_prompt is not None and await self._answer(ask_prompt, line):
            return
        if ask_prompt is not None and ask_prompt.takes_for_key(line):
            self._refuse(line)
            return
        if ask_prompt is None and first is not None and first.is_key(line):
            return  # meant for an ask that nobody can have read yet
        if line.startswith("#") and line.strip("#").strip():
            await self._keep_note(line)
        elif line.strip():
            await self.send_input(line, shown=shown)

    async def _keep_note(self, line: str) -> None:
        """`#` keeps a note for the project, `##` for the person."""
        scope: MemoryScope = "user" if line.startswith("##") else "project"
        wanted = MemoryAdd(session_id=self.session.id, text=line.lstrip("#").strip(), scope=scope)
        note = await self.ostler.call(MEMORY_ADD, wanted)
        self.tell(f"Kept in {note.path}.")

    def _refuse(self, typed: str) -> None:
        """Say that what was typed is no answer to the ask."""
        if self._asks.active is not None:
            self.tell(self._asks.active.describe_refusal(typed), "yellow")

    async def send_input(self, words: str, *, queue: bool = False, shown: str | None = None) -> None:
        """Send it to the turn that runs, or as a new one."""
        self._typed_here.append(words)
        try:
            await self._send_input(words, shown or words, queue=queue)
        except (ClientError, ProtocolError):
            self._pop_typed(words)
            raise

    async def _send_input(self, words: str, shown: str, *, queue: bool) -> None:
        if self.turn is not None and not queue:
            try:
                return await self._steer(self.turn.id, words)
            except NoTurnRunning:
                pass
        waits = self.turn is not None
        if self.view is not None and waits:
            self.view.waiting_words.append(words)
        elif self.view is not None:
            self.view.write_input(shown)  # before its turn begins: what that does stands below
        try:
            self._apply_turn(
                await self.ostler.start(self.session.id, build_input(words, self.session.cwd), queue=queue)
            )
        except TurnRunning as busy:
            await self._steer(TurnId(str(busy.data["turn_id"])), words)
        except (ClientError, ProtocolError):
            if self.view is not None and waits:
                self.view.waiting_words.remove(words)
            raise
        return None

    async def _steer(self, turn_id: TurnId, words: str) -> None:
        if self.view is not None:
            self.view.waiting_words.append(words)
        try:
            await self.ostler.call(TURN_STEER, TurnSteer(turn_id=turn_id, input=build_input(words, self.session.cwd)))
        except (ClientError, ProtocolError):
            if self.view is not None and words in self.view.waiting_words:
                self.view.waiting_words.remove(words)
            raise
        if self.view is None:
            self.tell("  (the agent reads it with its next request)")

    async def _wait_for_turn_end(self) -> None:
        """Nobody types any more: wait for the end of the turn, but not for an answer that nobody can give."""
        while self.turn is not None and not self._asks:
            await self._changed.wait()

    # Signals.

    async def _handle_signals(self, group: TaskGroup, *, task_status: TaskStatus[None]) -> None:
        with anyio.open_signal_receiver(*_SIGNALS) as signals:
            task_status.started()
            async for number in signals:
                match number:
                    case signal.SIGTSTP:
                        self._console.suspend()
                        os.kill(os.getpid(), signal.SIGSTOP)
                    case signal.SIGCONT:
                        self._console.resume()
                    case signal.SIGWINCH:
                        self._console.on_resize()
                    case signal.SIGINT:
                        self._handle_ctrl_c(group)
                    case _:
                        self.leave()

    def _handle_ctrl_c(self, group: TaskGroup) -> None:
        """One thing after the other: what is half typed, then the turn, and only then this terminal."""
        if self._console.is_lent:
            return  # it was for the program that has the terminal
        if self._go_back_to_keys() or self._drop_line():
            return
        if self.turn is not None:
            group.start_soon(self.interrupt)
        elif self._is_second_press():
            self.leave()
        else:
            self.tell("Once more, or Ctrl-D, leaves.")

    def _drop_line(self) -> bool:
        line = self._console.take_draft()
        self._console.add_to_history(line)
        return bool(line)

    def _go_back_to_keys(self) -> bool:
        ask_prompt = self._asks.active
        if ask_prompt is None or not ask_prompt.go_back():
            return False
        self._drop_line()
        self._refresh_prompt()
        return True

    def _is_second_press(self) -> bool:
        before, self._last_ctrl_c = self._last_ctrl_c, time.monotonic()
        return self._last_ctrl_c - before < _DOUBLE_PRESS_SECONDS

    async def interrupt(self) -> None:
        if self.turn is None:
            self.tell("Nothing runs.")
            return
        self.tell("Stopping the turn …")
        try:
            # Into a pipe nothing can be given back: there it is read after the turn.
            wanted = TurnInterrupt(turn_id=self.turn.id, give_back=self._console.is_terminal)
            self._take_back((await self.ostler.call(TURN_INTERRUPT, wanted)).given_back)
        except NoTurnRunning:
            pass
        except (ClientError, ProtocolError) as error:
            self.tell(f"It could not be told to stop: {error}", "red")

    def _take_back(self, given_back: Sequence[GivenBack]) -> None:
        """Put words that waited back into the line: the person has stopped what they were said to."""
        texts = [str(block.get("text", "")) for one in given_back for block in one.input]
        words = [text for text in texts if text and not is_daemon_text(text)]
        for text in words:
            self._pop_typed(text)
            if self.view is not None and text in self.view.waiting_words:
                self.view.waiting_words.remove(text)
        if words:
            self.tell("  (what waited is in the line again)")
            if not self._asks.put_aside("\n".join(words)):
                self._restore_line("\n".join(words))


def _extract_input(message: Message) -> list[str]:
    """What people said in it; not results, and not what the daemon added for the model."""
    texts = (block.text for block in message.content if isinstance(block, TextBlock))
    return [text for text in texts if text and not is_daemon_text(text)]


def is_daemon_text(text: str) -> bool:
    """What the daemon tells the model in a user message stands in tags of its own."""
    return text.startswith("<ostler-")
