"""Renders the events of a turn for people, line by line."""

import shlex
from collections.abc import Mapping
from typing import Final

from ostler.clients.cli.output import Colour, fit, format_count
from ostler.clients.cli.render.diff import render_patch
from ostler.clients.cli.render.sink import OutputSink
from ostler.clients.cli.render.text_width import shorten_line
from ostler.clients.sdk.turn_events import (
    AskEnded,
    BriefSent,
    CallCompleted,
    CallProgress,
    CallStarted,
    Compacted,
    FileChanged,
    HookRan,
    MessageAborted,
    MessageCompleted,
    Noticed,
    Retrying,
    SessionChanged,
    TaskEnded,
    TaskStarted,
    TextDelta,
    ThinkingDelta,
    TurnEnded,
    TurnEvent,
)
from ostler.protocol.brief import Brief
from ostler.protocol.content import TextBlock, ThinkingBlock
from ostler.protocol.events import ContextCompacted, FileChange, MessageDelta, ModelRetry, ToolProgress
from ostler.protocol.hook import HookRun
from ostler.protocol.ids import SessionId
from ostler.protocol.shapes import AskingAgent, Call, Decision, Denial, Message, RunningCall, Task, Turn, Usage

_SUMMARY_WIDTH: Final = 100
_RESULT_LINES: Final = 6
_DIFF_LINES: Final = 40
_PRINTED_LINES: Final = 20
_LINE_WIDTH: Final = 160
_NAME_WIDTH: Final = 24
LAUNCHED: Final = "async_launched"
"""What a call gives whose agent goes on in the background: the line of its task says the same to people."""
NO_REASON: Final = "The person said no to this call."
"""How the daemon says it to the model where the person gave no words."""
LEVELS: Final[dict[str, Colour]] = {"info": "dim", "warning": "yellow", "error": "red"}


class TurnRenderer:
    """Renders one session. Each letter of the model's is written once: as a delta, or at the end of its message."""

    def __init__(self, sink: OutputSink, session_id: SessionId, *, words: bool = True, full: bool = False) -> None:
        self._sink = sink
        self._session_id = session_id
        self._words = words
        """Whether the model's text is written."""
        self._full = full
        """Whether thoughts, results, changes, hooks and costs are written too."""
        self._shown_lengths: dict[tuple[str, int], int] = {}
        self._running: str | None = None
        """The call whose line is not ended yet."""
        self._last_line = ""
        """What that call printed last."""
        self._completed_calls: set[str] = set()
        """The calls whose end was written; the daemon reports it again where a result is shortened later."""
        self._refused: set[tuple[str, str]] = set()
        """Tools, and why: refusals by people that were written with the call."""
        self._started: dict[str, str] = {}
        """The calls that run, by what is said of them; those of agents that wait only until that was said."""
        self._agents: dict[str, str] = {}
        """The names of agents, by their sessions."""
        self._is_speaking = False
        """The model is in the middle of a text."""
        self._held: list[TurnEvent] = []
        """What happened beside it meanwhile: it would tear a sentence apart."""

    def render(self, turn_event: TurnEvent) -> None:
        """Write what an event says to people, if anything."""
        if isinstance(turn_event, SessionChanged):
            self.name_agent(turn_event.session.id, turn_event.session.agent)
            return
        if self._is_beside(turn_event):
            if self._is_speaking:
                self._held.append(turn_event)
                return
        elif isinstance(turn_event, MessageCompleted | MessageAborted):
            self._render(turn_event)
            self.finish_text()
            return
        elif not isinstance(turn_event, TextDelta | ThinkingDelta | CallProgress):
            self.finish_text()
        self._render(turn_event)

    def name_agent(self, session_id: SessionId, agent: AskingAgent | None) -> None:
        """What an agent's calls are shown under."""
        if agent is not None:
            self._agents[session_id] = agent.name or agent.kind

    @property
    def is_speaking(self) -> bool:
        """Whether the model is in the middle of a text, which a line of its own would tear apart."""
        return self._is_speaking

    def finish_text(self) -> None:
        """Nothing follows of what the model was saying: write what was held back."""
        self._is_speaking = False
        held, self._held = self._held, []
        for turn_event in held:
            self._render(turn_event)

    def _is_beside(self, turn_event: TurnEvent) -> bool:
        """Whether it is about an agent or a task, and not about what the model is at."""
        return isinstance(turn_event, TaskStarted | TaskEnded) or not self._is_own(turn_event)

    def _render(self, turn_event: TurnEvent) -> None:
        match turn_event:
            case TextDelta(piece=piece) if self._words and self._is_own(turn_event):
                self._write_delta(piece, None)
            case ThinkingDelta(piece=piece) if self._full and self._is_own(turn_event):
                self._write_delta(piece, "dim")
            case MessageCompleted(message=message) if message.role == "assistant" and self._is_own(turn_event):
                self._write_rest(message)
            case MessageAborted(message=message):
                self._render_abort(message)
            case CallStarted(call=call):
                self._render_start(call)
            case CallCompleted(call=call) if call.call_id not in self._completed_calls:
                self._completed_calls.add(call.call_id)
                self._render_completion(call)
            case FileChanged(change=change) if self._full:
                self._render_change(change)
            case TaskStarted(task=task) | TaskEnded(task=task):
                self.write_line(*describe_task(task, self._agents))
            case Retrying() | HookRan() | Noticed() | CallProgress() | BriefSent() | Compacted():
                self._render_notice(turn_event)
            case TurnEnded(turn=turn) if self._is_own(turn_event):
                self.render_end(turn)
            case AskEnded():
                self._end_line()
            case _:
                pass

    def _render_notice(self, turn_event: Retrying | HookRan | Noticed | CallProgress | BriefSent | Compacted) -> None:
        match turn_event:
            case CallProgress(progress=progress) if progress.data.get("status") == "queued":
                self._render_queued(progress)
            case CallProgress(progress=progress):
                self._show_progress(progress)
            case Retrying(retry=retry):
                self.write_line(describe_retry(retry), "yellow")
            case HookRan(run=run):
                if self._full:
                    self._render_hook(run)
            case BriefSent(brief=brief):
                for text, colour in describe_brief(brief):
                    self.write_line(text, colour)
            case Compacted(compacted=done):
                self.write_line(describe_compaction(done), "dim")
            case Noticed(notice=notice):
                self.write_line(notice.text, LEVELS[notice.level])

    def _show_progress(self, progress: ToolProgress) -> None:
        """How long a call has run, and the last line that it printed, while its own line is open."""
        if progress.call_id == self._running:
            self._last_line = _describe_progress(progress) or self._last_line
            self._sink.show_status(f" {progress.elapsed_ms // 1000} s  {self._last_line}".rstrip())

    def _render_queued(self, progress: ToolProgress) -> None:
        """Once an agent: that as many work as may at once."""
        if (words := self._started.pop(progress.call_id, None)) is not None:
            self.write_line(f"{words}: waits until fewer agents work", "yellow")

    def render_running(self, call: RunningCall) -> None:
        """A call that ran already when this terminal came: what it has printed so far, and its line stays open."""
        self._render_start(call)
        if not call.output.strip():
            return
        lines = call.output.rstrip().split("\n")
        self._end_line()
        self._write_more(len(lines) - _PRINTED_LINES, "before")
        for line in lines[-_PRINTED_LINES:]:
            self._sink.write_note(f"  {shorten_line(find_last_line(line), _LINE_WIDTH)}\n", "dim")
        self._sink.write_note("  …", "cyan")
        self._running = call.call_id

    def write_line(self, text: str, colour: Colour | None = None) -> None:
        """One line, or several, of its own."""
        self._end_line()
        self._sink.write_note(f"{text}\n", colour)

    def render_end(self, turn: Turn) -> None:
        """How a turn ended, as far as it is not plain to see."""
        self._end_line()
        for denial in turn.denials:
            if (denial.tool, denial.reason) in self._refused:
                continue
            self.write_line(f"✗ {denial.tool} was refused: {self._describe_denial(denial)}", "yellow")
        if turn.reason == "failed":
            self.write_line(f"✗ The turn failed: {(turn.error or {}).get('message', 'nobody knows why')}", "red")
        elif turn.reason not in {"completed", None}:
            self.write_line(f"✗ The turn ended: {REASONS.get(str(turn.reason), turn.reason)}.", "yellow")
        if self._full:
            self.write_line(describe_usage(turn.usage, turn), "dim")

    def _describe_denial(self, denial: Denial) -> str:
        """Why, and what would help: in a chat a rule, elsewhere an option of the command that was typed."""
        why = denial.reason if denial.reason.endswith((".", "!", "?")) else f"{denial.reason}."
        rule = denial.allow_with
        if rule is None:
            return why
        if not self._full:
            return f"{why} To let it pass: --allow {shlex.quote(rule)}"
        return why if rule in why else f"{why} The rule {rule} would allow it."

    def _is_own(self, turn_event: TurnEvent) -> bool:
        """An agent's words are for the model that asked for them."""
        return turn_event.event.session_id in {None, self._session_id}

    def _end_line(self) -> None:
        self._running = None
        self._sink.end_line()

    def _write_delta(self, piece: MessageDelta, colour: Colour | None) -> None:
        place = (piece.message_id, piece.index)
        shown = self._shown_lengths.get(place, 0)
        if piece.offset != shown:
            return  # something was dropped in between; the whole message will show it
        if shown == 0 or self._running is not None:
            self._end_line()
        self._is_speaking = True
        self._sink.write_text(piece.text, colour)
        self._shown_lengths[place] = shown + len(piece.text)

    def _write_rest(self, message: Message) -> None:
        for index, block in enumerate(message.content):
            shown = self._shown_lengths.pop((message.id, index), 0)
            if isinstance(block, TextBlock) and self._words:
                self._write_block_rest(block.text, shown, None)
            elif isinstance(block, ThinkingBlock) and self._full:
                self._write_block_rest(block.thinking, shown, "dim")

    def _write_block_rest(self, text: str, shown: int, colour: Colour | None) -> None:
        if text[shown:]:
            if shown == 0 or self._running is not None:
                self._end_line()
            self._sink.write_text(text[shown:], colour)
        if self._running is None:  # a call may run before its message is whole, and its line is still open then
            self._sink.end_line()

    def _render_abort(self, message: Message) -> None:
        places = [place for place in self._shown_lengths if place[0] == message.id]
        for place in places:
            del self._shown_lengths[place]
        if places:
            self.write_line("(That answer broke off and does not count.)", "dim")

    def _render_start(self, call: Call) -> None:
        self._end_line()
        words = self._started[call.call_id] = self._describe_call(call)
        self._sink.write_note(f"{words} …", "cyan")
        self._running, self._last_line = call.call_id, ""

    def _render_completion(self, call: Call) -> None:
        if self._running != call.call_id:
            self._end_line()
            self._sink.write_note(self._describe_call(call), "cyan")
        self._running = None
        self._started.pop(call.call_id, None)
        took = f" {call.duration_ms / 1000:.1f} s" if call.duration_ms is not None else ""
        denied = call.decision is not None and call.decision.behavior == "deny"
        refused = self._describe_refusal(call.tool, call.decision) if call.decision is not None and denied else ""
        sign = "✗" if call.is_error else "✓"
        self._sink.write_note(f" {sign}{took}{refused}\n", "red" if call.is_error else "green")
        if denied or (isinstance(call.output, dict) and call.output.get("status") == LAUNCHED):
            return
        # What an agent's calls give is for the agent.
        if call.is_error or (self._full and call.session_id == self._session_id):
            self._write_result(call)

    def _describe_call(self, call: Call) -> str:
        agent = self._agents.get(call.session_id)
        indent = "  " if call.parent_call_id or agent is not None else ""
        whose = f"{fit(agent, _NAME_WIDTH)}: " if agent is not None else ""
        words = call.summary if call.summary.startswith(f"{call.tool} ") else f"{call.tool} {call.summary}"
        return f"{indent}● {whose}{fit(words, _SUMMARY_WIDTH)}"

    def _describe_refusal(self, tool: str, decision: Decision) -> str:
        """Where a person said no, that and their words; what else the model is told about it is not for people."""
        if decision.by != "person":
            return ""
        reason = decision.reason or ""
        self._refused.add((tool, reason))
        return " refused" if not reason or reason.startswith(NO_REASON) else f" refused: {reason}"

    def _write_result(self, call: Call) -> None:
        texts = [str(block.get("text", "")) for block in call.content or []]
        lines = [line for text in texts for line in strip_error_tags(text).splitlines()]
        for line in lines[:_RESULT_LINES]:
            self._sink.write_note(f"  {shorten_line(line, _LINE_WIDTH)}\n", "red" if call.is_error else "dim")
        self._write_more(len(lines) - _RESULT_LINES)

    def _render_hook(self, run: HookRun) -> None:
        colour: Colour = "dim" if run.outcome in {"passed", "allowed"} else "yellow"
        came = f"{run.outcome.replace('_', ' ')} {run.duration_ms / 1000:.1f} s"
        self.write_line(f"⚑ {run.event} hook {fit(run.shown, _SUMMARY_WIDTH)} … {came}", colour)
        for line in f"{run.error or ''}\n{run.stderr}".strip("\n").splitlines()[:_RESULT_LINES]:
            self._sink.write_note(f"  {shorten_line(line, _LINE_WIDTH)}\n", colour)

    def _render_change(self, change: FileChange) -> None:
        self.write_line(f"± {change.path}", "bold")
        lines = render_patch(change.patch or "")
        for text, colour in lines[:_DIFF_LINES]:
            self._sink.write_note(f"  {shorten_line(text, _LINE_WIDTH)}\n", colour)
        self._write_more(len(lines) - _DIFF_LINES)

    def _write_more(self, lines: int, where: str = "more") -> None:
        if lines > 0:
            self._sink.write_note(f"  … {format_count(lines, 'line')} {where}\n", "dim")


def describe_brief(brief: Brief) -> list[tuple[str, Colour]]:
    """A message to the people: whole, and how to get what is attached."""
    looks: Colour = "yellow" if brief.status == "proactive" else "bold"
    lines: list[tuple[str, Colour]] = [
        (f"{' ' if at else '✉'} {line}", looks) for at, line in enumerate(brief.message.splitlines())
    ]
    files: list[tuple[str, Colour]] = [
        (f"  {file.path} ({file.size:,} bytes): ostler show {file.id} > FILE", "dim") for file in brief.attachments
    ]
    return [*lines, *files]


def describe_compaction(done: ContextCompacted) -> str:
    what = "summarised" if done.summarised else f"cleared of {done.cleared_results} old results"
    took = f"{done.before_tokens:,} tokens before, {done.after_tokens:,} now"
    return f"  The conversation was {what} for the model: {took}."


def _describe_progress(progress: ToolProgress) -> str:
    """The last line that a command has printed; how far an agent is."""
    if progress.kind != "agent":
        return find_last_line(str(progress.data.get("output", "")))
    made, at = progress.data.get("tool_calls") or 0, progress.data.get("call")
    return ", ".join(
        part for part in (format_count(made, "call") if made else "", fit(str(at), 80) if at else "") if part
    )


def describe_task(task: Task, agents: Mapping[str, str]) -> tuple[str, Colour]:
    about = fit(task.command or task.description, _SUMMARY_WIDTH)
    name = agents.get(task.agent_id or "")
    if name is not None and name != about:
        about = f"{fit(name, _NAME_WIDTH)}: {about}"
    match task.status:
        case "pending" | "running":
            return f"⇢ {task.id} goes on in the background: {about}", "cyan"
        case "completed":
            return f"⇠ {task.id} is done: {about}", "green"
        case "failed":
            why = task.error or f"exit code {task.exit_code}"
            return f"⇠ {task.id} has failed ({why}): {about}", "red"
        case "killed":
            return f"⇠ {task.id} was stopped: {about}", "yellow"


def strip_error_tags(text: str) -> str:
    """An error without what tells the model that it is one."""
    return text.removeprefix("<tool_use_error>").removesuffix("</tool_use_error>")


def describe_retry(retry: ModelRetry) -> str:
    why = retry.error.get("message") or retry.error.get("code") or "no reason given"
    again = f"Again in {retry.wait_ms / 1000:.1f} s ({retry.attempt} of {retry.max_retries})."
    return f"… The model did not answer: {why} {again}"


def describe_usage(usage: Usage, turn: Turn) -> str:
    cost = f", ${usage.cost_usd}" if usage.cost_usd is not None else ""
    sent = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    did = f"{format_count(turn.model_requests, 'request')}, {format_count(turn.tool_calls, 'call')}"
    return f"{did}, {sent} tokens in, {usage.output_tokens} out{cost}"


def find_last_line(printed: str) -> str:
    """What stands at the end; a line that is drawn again and again begins anew at each return."""
    return printed.rstrip().rpartition("\n")[2].rpartition("\r")[2].strip()


REASONS: Final = {
    "interrupted": "it was interrupted",
    "max_requests": "it made as many requests to the model as it may",
    "budget": "its budget is used up",
    "timeout": "its time is over",
    "schema": "the answer does not fit the schema",
    "stopped_by_hook": "a hook stopped it",
}
