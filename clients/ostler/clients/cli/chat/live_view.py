"""What a chat on a terminal shows of its session: finished blocks go into the scrollback, the rest stays live."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ostler.clients.cli.output import Colour, fit, format_count
from ostler.clients.cli.render.blocks.call import (
    QUIET_ACTIVITIES,
    TAIL_LINES,
    describe_group,
    format_seconds,
    join_tail,
    render_call,
    render_diff,
    render_end,
    render_result,
)
from ostler.clients.cli.render.blocks.rows import EMPTY_ROW, Row, clean, fit_row, make_row, wrap_text
from ostler.clients.cli.render.blocks.waiting import (
    choose_sign,
    find_active,
    format_tokens,
    render_spinner,
    render_todos,
)
from ostler.clients.cli.render.turn import (
    LAUNCHED,
    LEVELS,
    NO_REASON,
    REASONS,
    describe_brief,
    describe_compaction,
    describe_retry,
    describe_task,
    describe_usage,
)
from ostler.clients.sdk.turn_events import (
    BriefSent,
    CallCompleted,
    CallProgress,
    CallQueued,
    CallStarted,
    Compacted,
    FileChanged,
    HookRan,
    InputDelta,
    MessageAborted,
    MessageCompleted,
    MessageStarted,
    Noticed,
    Retrying,
    SessionChanged,
    TaskEnded,
    TaskStarted,
    TextDelta,
    ThinkingDelta,
    TodosChanged,
    TurnChanged,
    TurnEnded,
    TurnEvent,
    UsageUpdated,
)
from ostler.protocol.content import TextBlock, ThinkingBlock
from ostler.protocol.events import FileChange, MessageDelta, ToolProgress
from ostler.protocol.ids import SessionId
from ostler.protocol.shapes import AskingAgent, Call, Message, RunningCall, Turn, Usage
from ostler.protocol.todo import Todo

if TYPE_CHECKING:
    from ostler.clients.cli.render.blocks.markdown import MarkdownStream

_NAME_WIDTH: Final = 24
_THOUGHT_ROWS: Final = 3
_SHOWN_OTHERWISE: Final = frozenset({"TodoWrite", "TaskCreate", "TaskUpdate"})
"""Tools whose results are the work list, which stands above the line."""
_SHORT_REFUSAL: Final = 40
_MOST_CALLS: Final = 6
"""So many running calls are shown; of the others how many."""
_CHARACTERS_PER_TOKEN: Final = 4
Block = Callable[[int], list[Row]]
"""A finished block, laid out when it is written: on how many columns is known then."""


@dataclass(slots=True)
class _LiveCall:
    call: Call
    began: float
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=TAIL_LINES + 1))
    words: str = ""
    """How far an agent is."""
    queued: bool = False


@dataclass(slots=True)
class _Agent:
    name: str
    calls: int = 0
    doing: str = ""
    cost: str | None = None


class LiveView:
    """Renders one session on a terminal. What streams is drawn again; what is finished is written once."""

    def __init__(self, session_id: SessionId, folder: str, request_paint: Callable[[], None]) -> None:
        self.todos: list[Todo] = []
        self.shows_todos = True
        self.card: Callable[[int, int], list[Row]] = lambda columns, rows: []
        """The ask that waits for an answer here."""
        self.waiting_words: list[str] = []
        """Words that were sent and that the agent has not read yet."""
        self.status: Callable[[int], list[Row]] = lambda columns: []
        self.turn: Turn | None = None
        self.last_text = ""
        """The model's last answer, for /copy."""
        self._session_id = session_id
        self._folder = folder
        self._request_paint = request_paint
        self._ends_empty = True
        self._finished: list[Block] = []
        self._text: MarkdownStream | None = None
        self._thoughts = ""
        self._thinking_since = 0.0
        self._thought_place: tuple[str, int] | None = None
        self._shown: dict[tuple[str, int], int] = {}
        self._spoken = ""
        self._is_speaking = False
        self._calls: dict[str, _LiveCall] = {}
        self._quiet: list[Call] = []
        """Calls that only looked, in a row: they become one line."""
        self._changes: dict[str, list[FileChange]] = {}
        self._completed: set[str] = set()
        self._refused: set[tuple[str, str]] = set()
        self._agents: dict[str, _Agent] = {}
        self._turn_began = 0.0
        self._doing = ""
        self._streamed = 0
        self._usage = Usage()
        self._retry_at = 0.0
        self._retry_words = ""

    # What the console asks for.

    def take_finished(self, columns: int) -> list[Row]:
        finished, self._finished = self._finished, []
        rows: list[Row] = []
        for block in finished:
            self._append(rows, block(columns))
        if self._text is not None:
            self._append(rows, self._text.take_finished(columns))
        return rows

    def _append(self, rows: list[Row], block: list[Row]) -> None:
        """Blocks are one empty row apart, whichever of the two brings it."""
        if block and block[0] == EMPTY_ROW and self._ends_empty:
            block = block[1:]
        if block:
            self._ends_empty = block[-1] == EMPTY_ROW
            rows += block

    def take_overflow(self, columns: int, most: int) -> list[Row]:
        """The first rows of a growing block that is higher than there is room for."""
        return self._text.take_overflow(columns, most) if self._text is not None else []

    def render_above(self, columns: int, rows: int) -> list[Row]:
        card = self.card(columns, rows)
        if card:
            return card[: max(0, rows)]
        parts: list[list[Row]] = [
            self._render_waiting_words(columns),
            self._render_spinner(columns),
            render_todos(self.todos, columns) if self._has_panel else [],
            self._render_calls(columns),
            self._render_thoughts(columns),
            self._text.render_growing(columns) if self._text is not None else [],
        ]
        # The nearest to the line that is typed comes first where there is not room for all.
        shown: list[list[Row]] = []
        for part in parts:
            shown.append(part[-rows:] if rows > 0 else [])
            rows -= len(shown[-1])
        return [row for part in reversed(shown) for row in part]

    def render_status(self, columns: int) -> list[Row]:
        return self.status(columns)

    @property
    def moves(self) -> bool:
        return self.turn is not None or bool(self._calls)

    @property
    def _has_panel(self) -> bool:
        return self.shows_todos and any(todo.status != "completed" for todo in self.todos)

    def count_agents(self) -> int:
        """The agents that are at work."""
        return sum(bool(agent.doing) for agent in self._agents.values())

    # What happens.

    def render(self, turn_event: TurnEvent) -> None:
        """Show what an event says to people, if anything."""
        self._render(turn_event)
        self._request_paint()

    def name_agent(self, session_id: SessionId, agent: AskingAgent | None) -> None:
        """What an agent's calls are shown under."""
        if agent is not None:
            self._agents.setdefault(session_id, _Agent(agent.name or agent.kind))

    @property
    def is_speaking(self) -> bool:
        """Whether the model is in the middle of a text."""
        return self._is_speaking

    def finish_text(self) -> None:
        """Nothing follows of what the model was saying."""
        self._is_speaking = False
        self._finish_thoughts()
        text, self._text = self._text, None
        if text is not None:
            self._finished.append(lambda columns: [*text.finish(columns), EMPTY_ROW])
            self.last_text, self._spoken = self._spoken or self.last_text, ""

    def write_line(self, text: str, colour: Colour | None = None) -> None:
        """One line, or several, of its own."""
        self._finish_quiet()
        role = colour or ""
        self._finished.append(lambda columns: wrap_text(text, columns, role))
        self._request_paint()

    def write_input(self, text: str, prompt: str = "> ") -> None:
        """What a person said."""
        self._finish_quiet()
        self._finished.append(lambda columns: [EMPTY_ROW, *wrap_text(f"{prompt}{text}", columns, "typed"), EMPTY_ROW])
        self._request_paint()

    def write_markdown(self, text: str) -> None:
        """A text of the model's that is whole."""
        from ostler.clients.cli.render.blocks.markdown import render_markdown

        self._finished.append(lambda columns: [*render_markdown(text, columns), EMPTY_ROW])

    def write_rows(self, block: Block) -> None:
        self._finish_quiet()
        self._finished.append(block)
        self._request_paint()

    def render_running(self, call: RunningCall) -> None:
        """A call that ran already when this terminal came."""
        live = self._begin_call(call)
        join_tail(live.tail, call.output)
        live.began = time.monotonic() - call.elapsed_ms / 1000

    def _render(self, turn_event: TurnEvent) -> None:
        match turn_event:
            case TextDelta(piece=piece) if self._is_own(turn_event):
                self._add_text(piece)
            case ThinkingDelta(piece=piece) if self._is_own(turn_event):
                self._add_thoughts(piece)
            case InputDelta(piece=piece) if self._is_own(turn_event):
                self._doing, self._streamed = "Preparing a call", self._streamed + len(piece.text)
            case MessageStarted() if self._is_own(turn_event):
                self._doing, self._retry_words = "Waiting for the model", ""
            case MessageCompleted(message=message) if message.role == "assistant" and self._is_own(turn_event):
                self._complete_message(message)
            case MessageAborted(message=message) if self._is_own(turn_event):
                self._abort_message(message)
            case TurnChanged(turn=turn) if self._is_own(turn_event):
                self._apply_turn(turn)
            case TurnEnded(turn=turn) if self._is_own(turn_event):
                self._end_turn(turn)
            case UsageUpdated(usage=usage):
                self._apply_usage(str(turn_event.event.session_id), usage.turn, usage.session)
            case TodosChanged(todos=todos) if self._is_own(turn_event):
                self.todos = todos
            case SessionChanged(session=session):
                self.name_agent(session.id, session.agent)
            case _:
                self._render_call_event(turn_event)

    def _render_call_event(self, turn_event: TurnEvent) -> None:
        match turn_event:
            case CallQueued(call=call) if self._is_own(turn_event) and call.status == "waiting":
                self._doing = "Waiting for an answer"
            case CallStarted(call=call):
                self._start_call(self._shorten_paths(call))
            case CallProgress(progress=progress):
                self._show_progress(progress)
            case CallCompleted(call=call) if call.call_id not in self._completed:
                self._completed.add(call.call_id)
                self._complete_call(self._shorten_paths(call))
            case FileChanged(change=change):
                self._changes.setdefault(change.call_id or "", []).append(change)
                if change.call_id not in self._calls:
                    self._finish_quiet()
                    self._write_changes(change.call_id or "")
            case TaskStarted(task=task) | TaskEnded(task=task):
                names = {session: agent.name for session, agent in self._agents.items()}
                self.write_line(*describe_task(task, names))
                if isinstance(turn_event, TaskEnded):
                    self._agents.pop(task.agent_id or "", None)
            case _:
                self._render_notice(turn_event)

    def _render_notice(self, turn_event: TurnEvent) -> None:
        match turn_event:
            case Retrying(retry=retry):
                self._retry_words = describe_retry(retry).removeprefix("… ")
                self._retry_at = time.monotonic() + retry.wait_ms / 1000
                self.write_line(describe_retry(retry), "yellow")
            case HookRan(run=run):
                if run.outcome not in {"passed", "allowed"} or run.error:
                    came = f"{run.outcome.replace('_', ' ')} {run.duration_ms / 1000:.1f} s"
                    self.write_line(f"⚑ {run.event} hook {fit(run.shown, 100)} … {came}", "yellow")
                    for line in f"{run.error or ''}\n{run.stderr}".strip("\n").splitlines()[:6]:
                        self.write_line(f"  {line}", "yellow")
            case BriefSent(brief=brief):
                for text, colour in describe_brief(brief):
                    self.write_line(text, colour)
            case Compacted(compacted=done):
                self.write_line(describe_compaction(done), "dim")
            case Noticed(notice=notice):
                self.write_line(notice.text, LEVELS[notice.level])
            case _:
                pass

    def _is_own(self, turn_event: TurnEvent) -> bool:
        """An agent's words are for the model that asked for them."""
        return turn_event.event.session_id in {None, self._session_id}

    # Words.

    def _add_text(self, piece: MessageDelta) -> None:
        place = (piece.message_id, piece.index)
        if piece.offset != self._shown.get(place, 0):
            return  # something was dropped in between; the whole message will show it
        if piece.offset == 0:
            self.finish_text()
        self._shown[place] = piece.offset + len(piece.text)
        self._speak(piece.text)
        self._doing, self._streamed = "Writing", self._streamed + len(piece.text)

    def _speak(self, text: str) -> None:
        self._finish_quiet()
        self._finish_thoughts()
        if self._text is None:
            from ostler.clients.cli.render.blocks.markdown import MarkdownStream

            self._text = MarkdownStream()
            self._finished.append(lambda columns: [EMPTY_ROW])
        self._is_speaking = True
        self._text.feed(text)
        self._spoken += text

    def _add_thoughts(self, piece: MessageDelta) -> None:
        place = (piece.message_id, piece.index)
        if piece.offset != self._shown.get(place, 0):
            return
        if self._thought_place != place:
            self.finish_text()
            self._thought_place, self._thinking_since = place, time.monotonic()
        self._shown[place] = piece.offset + len(piece.text)
        self._thoughts += piece.text
        self._doing, self._streamed = "Thinking", self._streamed + len(piece.text)

    def _finish_thoughts(self) -> None:
        """Fold what the model thought into a line: Ctrl-O has all of it."""
        if self._thought_place is None:
            return
        took = format_seconds((time.monotonic() - self._thinking_since) * 1000)
        words = " ".join(self._thoughts.split())
        self._thought_place, self._thoughts = None, ""
        if words:
            self._finish_quiet()
            self._finished.append(
                lambda columns: [
                    fit_row(make_row((f"∴ thought for {took}: ", "dim"), (clean(words), "thinking")), columns)
                ]
            )

    def _complete_message(self, message: Message) -> None:
        """What deltas did not bring, as the message is the truth."""
        for index, block in enumerate(message.content):
            shown = self._shown.pop((message.id, index), 0)
            if isinstance(block, TextBlock) and block.text[shown:]:
                if shown == 0:
                    self.finish_text()
                self._speak(block.text[shown:])
            elif isinstance(block, ThinkingBlock) and block.thinking and not shown:
                self.finish_text()
                self._thought_place, self._thinking_since = (message.id, index), time.monotonic()
                self._thoughts = block.thinking
        self.finish_text()

    def _abort_message(self, message: Message) -> None:
        places = [place for place in self._shown if place[0] == message.id]
        for place in places:
            del self._shown[place]
        self.finish_text()
        if places:
            self.write_line("(That answer broke off and does not count.)", "dim")

    def _render_thoughts(self, columns: int) -> list[Row]:
        if self._thought_place is None or not self._thoughts.strip():
            return []
        rows = wrap_text(self._thoughts.strip()[-2000:], columns - 2, "thinking")[-_THOUGHT_ROWS:]
        return [make_row(("∴ " if at == 0 else "  ", "dim"), *row) for at, row in enumerate(rows)]

    # Calls.

    def _shorten_paths(self, call: Call) -> Call:
        """The same call, with files of the folder named from there."""
        return call.model_copy(update={"summary": call.summary.replace(f"{self._folder}/", "")})

    def _begin_call(self, call: Call) -> _LiveCall:
        if call.activity not in QUIET_ACTIVITIES or call.session_id != self._session_id:
            self._finish_quiet()
        live = self._calls[call.call_id] = _LiveCall(call, time.monotonic())
        agent = self._agents.get(call.session_id)
        if agent is not None:
            agent.calls += 1
            agent.doing = f"{call.tool} {call.summary}"
        return live

    def _start_call(self, call: Call) -> None:
        self._finish_thoughts()
        self._begin_call(call)
        self._doing = "Running"

    def _show_progress(self, progress: ToolProgress) -> None:
        live = self._calls.get(progress.call_id)
        if live is None:
            return
        live.began = time.monotonic() - progress.elapsed_ms / 1000
        if progress.kind == "agent":
            live.queued = progress.data.get("status") == "queued"
            made, at = progress.data.get("tool_calls") or 0, progress.data.get("call")
            words = [format_count(made, "call") if made else "", clean(fit(str(at), 80)) if at else ""]
            live.words = " · ".join(word for word in words if word)
        elif output := str(progress.data.get("output", "")):
            join_tail(live.tail, output)

    def _complete_call(self, call: Call) -> None:
        live = self._calls.pop(call.call_id, None)
        if call.session_id != self._session_id:
            self._complete_agent_call(call)
            return
        if call.activity in QUIET_ACTIVITIES and not call.is_error and not _is_denied(call):
            self._quiet.append(call)
            return
        self._finish_quiet()
        facts = ["✗" if call.is_error else "✓"]
        if call.duration_ms is not None:
            facts.append(format_seconds(call.duration_ms))
        if live is not None and live.words:
            facts.append(live.words.partition(" · ")[0])
        refused = self._describe_refusal(call)
        if len(refused) <= _SHORT_REFUSAL:
            facts, refused = [*facts, refused] if refused else facts, ""
        role = "red" if call.is_error else "green"
        self._finished.append(
            lambda columns: [
                render_call(call, columns, sign="●", role=role, facts=facts),
                *(wrap_text(f"  {refused}", columns, "red") if refused else []),
            ]
        )
        changed = self._changes.get(call.call_id)
        launched = isinstance(call.output, dict) and call.output.get("status") == LAUNCHED
        if changed and not call.is_error:
            self._write_changes(call.call_id, head=len(changed) > 1)
        elif not _is_denied(call) and not launched and (call.is_error or call.tool not in _SHOWN_OTHERWISE):
            self._finished.append(lambda columns: render_result(call, columns))

    def _complete_agent_call(self, call: Call) -> None:
        """What an agent's calls give is for the agent; what went wrong in one is a line."""
        agent = self._agents.get(call.session_id)
        if agent is not None:
            agent.doing = ""
        self._changes.pop(call.call_id, None)
        if call.is_error:
            named = call.model_copy(update={"tool": f"{fit(agent.name, _NAME_WIDTH)}: {call.tool}"}) if agent else call
            self._finished.append(
                lambda columns: [render_call(named, columns, sign="●", role="red", facts=["✗"], indent="  ")]
            )

    def _write_changes(self, call_id: str, *, head: bool = True) -> None:
        for change in self._changes.pop(call_id, []):
            self._write_change(change, head=head)

    def _write_change(self, change: FileChange, *, head: bool) -> None:
        if head:
            self._finished.append(lambda columns: [fit_row(make_row((f"± {clean(change.path)}", "bold")), columns)])
        if change.patch:
            patch = change.patch
            self._finished.append(lambda columns: render_diff(patch, columns))

    def _describe_refusal(self, call: Call) -> str:
        decision = call.decision
        if decision is None or decision.behavior != "deny":
            return ""
        reason = decision.reason or ""
        self._refused.add((call.tool, reason))
        return "refused" if not reason or reason.startswith(NO_REASON) else f"refused: {reason}"

    def _finish_quiet(self) -> None:
        """Calls that only looked are over: they become one line."""
        quiet, self._quiet = self._quiet, []
        if len(quiet) == 1:
            call = quiet[0]
            facts = ["✓", *([format_seconds(call.duration_ms)] if call.duration_ms is not None else [])]
            self._finished.append(lambda columns: [render_call(call, columns, sign="●", role="green", facts=facts)])
        elif quiet:
            words = describe_group(quiet)
            self._finished.append(
                lambda columns: [fit_row(make_row(("● ", "green"), (words, ""), (" ✓", "dim")), columns)]
            )

    def _render_calls(self, columns: int) -> list[Row]:
        now = time.monotonic()
        rows: list[Row] = []
        if self._quiet:
            rows.append(fit_row(make_row(("● ", "green"), (describe_group(self._quiet), "")), columns))
        own = [live for live in self._calls.values() if live.call.session_id == self._session_id]
        for live in own[-_MOST_CALLS:]:
            passed = now - live.began
            facts = ["waits until fewer agents work"] if live.queued else [f"{int(passed)} s"]
            rows.append(render_call(live.call, columns, sign="●", role="cyan", facts=facts))
            if live.words:
                rows.append(fit_row(make_row((f"  └ {live.words}", "dim")), columns))
            rows += render_end([line for line in live.tail if line.strip()], columns, TAIL_LINES)
        if len(own) > _MOST_CALLS:
            rows.insert(0, make_row((f"  … {format_count(len(own) - _MOST_CALLS, 'call')} more", "dim")))
        return [*rows, *self._render_agents(columns)]

    def _render_agents(self, columns: int) -> list[Row]:
        """The agents at work, as a tree below the session."""
        at_work = [agent for agent in self._agents.values() if agent.doing]
        rows: list[Row] = []
        for at, agent in enumerate(at_work):
            branch = "└" if at == len(at_work) - 1 else "├"
            cost = f" · ${agent.cost}" if agent.cost and agent.cost != "0" else ""
            row = make_row(
                (f"  {branch} ", "dim"),
                (clean(fit(agent.name, _NAME_WIDTH)), "bold"),
                (f" {clean(fit(agent.doing, 100))}", ""),
                (f" · {format_count(agent.calls, 'call')}{cost}", "dim"),
            )
            rows.append(fit_row(row, columns))
        return rows

    # Waiting.

    def _apply_turn(self, turn: Turn) -> None:
        if turn.status in {"queued", "ended"}:
            return
        if self.turn is None or self.turn.id != turn.id:
            self.begin_turn(turn)
        self.turn = turn

    def begin_turn(self, turn: Turn) -> None:
        self.turn = turn
        self._turn_began = time.monotonic()
        self._doing, self._streamed, self._usage, self._retry_words = "Waiting for the model", 0, turn.usage, ""

    def _apply_usage(self, session_id: str, turn: Usage, session: Usage) -> None:
        if session_id == self._session_id:
            self._usage, self._streamed, self._retry_words = turn, 0, ""
        elif (agent := self._agents.get(session_id)) is not None:
            agent.cost = session.cost_usd

    def _end_turn(self, turn: Turn) -> None:
        self.finish_text()
        self._finish_quiet()
        for call_id in [one for one, live in self._calls.items() if live.call.turn_id == turn.id]:
            del self._calls[call_id]
        if self.turn is not None and self.turn.id == turn.id:
            self.turn = None
        for denial in turn.denials:
            if (denial.tool, denial.reason) not in self._refused:
                rule = denial.allow_with
                more = f" The rule {rule} would allow it." if rule is not None and rule not in denial.reason else ""
                self.write_line(f"✗ {denial.tool} was refused: {denial.reason}{more}", "yellow")
        if turn.reason == "failed":
            self.write_line(f"✗ The turn failed: {(turn.error or {}).get('message', 'nobody knows why')}", "red")
        elif turn.reason not in {"completed", None}:
            self.write_line(f"✗ The turn ended: {REASONS.get(str(turn.reason), turn.reason)}.", "yellow")
        self.write_line(describe_usage(turn.usage, turn), "dim")

    def _render_spinner(self, columns: int) -> list[Row]:
        if self.turn is None:
            return []
        now = time.monotonic()
        words = find_active(self.todos) or self._doing
        if self.turn.status == "waiting":
            words = "Waiting for an answer"
        if self._retry_words and self._retry_at > now:
            return [
                fit_row(
                    make_row(
                        (f"{choose_sign(now - self._turn_began)} ", "yellow"),
                        (clean(self._retry_words), "yellow"),
                        (f" · {int(self._retry_at - now) + 1} s left · Esc stops", "dim"),
                    ),
                    columns,
                )
            ]
        sent = self._usage.input_tokens + self._usage.cache_read_tokens + self._usage.cache_write_tokens
        given = self._usage.output_tokens + self._streamed // _CHARACTERS_PER_TOKEN
        facts = [f"↑ {format_tokens(sent)} ↓ {format_tokens(given)} tokens"] if sent or given else []
        runs = any(live.call.tool == "Bash" for live in self._calls.values())
        keys = ["Esc stops", *(["Ctrl-B to the background"] if runs else [])]
        return [render_spinner(now - self._turn_began, words, [*facts, *keys], columns)]

    def _render_waiting_words(self, columns: int) -> list[Row]:
        return [
            fit_row(
                make_row(("  » ", "dim"), (clean(words), "dim"), ("  (waits)", "dim")),
                columns,
            )
            for words in self.waiting_words
        ]


def _is_denied(call: Call) -> bool:
    return call.decision is not None and call.decision.behavior == "deny"
