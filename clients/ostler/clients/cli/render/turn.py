"""What happens in a turn, told to people line by line."""

from typing import Final

from ostler.clients.cli.output import Colour, counted, fit
from ostler.clients.cli.render.diff import patch_lines
from ostler.clients.cli.render.sink import Paper
from ostler.clients.cli.render.text_width import shortened
from ostler.clients.sdk.turn_events import (
    AskEnded,
    CallCompleted,
    CallProgress,
    CallStarted,
    FileChanged,
    HookRan,
    MessageAborted,
    MessageCompleted,
    Noticed,
    Retrying,
    TaskEnded,
    TaskStarted,
    TextDelta,
    ThinkingDelta,
    TurnEnded,
    TurnEvent,
)
from ostler.protocol.content import TextBlock, ThinkingBlock
from ostler.protocol.events import FileChange, MessageDelta, ModelRetry, ToolProgress
from ostler.protocol.hook import HookRun
from ostler.protocol.ids import SessionId
from ostler.protocol.shapes import Call, Decision, Message, Task, Turn, Usage

_SUMMARY_WIDTH: Final = 100
_RESULT_LINES: Final = 6
_DIFF_LINES: Final = 40
_LINE_WIDTH: Final = 160
_NO_WORDS: Final = "The person said no to this call."
"""How the daemon says it to the model where the person gave no words."""
_LEVELS: Final[dict[str, Colour]] = {"info": "dim", "warning": "yellow", "error": "red"}


class Narrator:
    """Tells one session. Each letter of the model's is told once: in pieces, or at the end of its message."""

    def __init__(self, paper: Paper, session_id: SessionId, *, words: bool = True, full: bool = False) -> None:
        self._paper = paper
        self._session_id = session_id
        self._words = words
        """Whether the model's text is told."""
        self._full = full
        """Whether thoughts, results, changes, hooks and costs are told too."""
        self._told: dict[tuple[str, int], int] = {}
        self._running: str | None = None
        """The call whose line is not ended yet."""
        self._last_line = ""
        """What that call printed last."""
        self._over: set[str] = set()
        """The calls whose end was told; the daemon tells it again where a result is shortened later."""
        self._refused: set[tuple[str, str]] = set()
        """Tools, and why: refusals by people that were told with the call."""

    def tell(self, happened: TurnEvent) -> None:
        """Tell it, or leave it out."""
        match happened:
            case TextDelta(piece=piece) if self._words and self._is_own(happened):
                self._piece(piece, None)
            case ThinkingDelta(piece=piece) if self._full and self._is_own(happened):
                self._piece(piece, "dim")
            case MessageCompleted(message=message) if message.role == "assistant" and self._is_own(happened):
                self._rest_of(message)
            case MessageAborted(message=message):
                self._aborted(message)
            case CallStarted(call=call):
                self._started(call)
            case CallCompleted(call=call) if call.call_id not in self._over:
                self._over.add(call.call_id)
                self._completed(call)
            case FileChanged(change=change) if self._full:
                self._changed(change)
            case TaskStarted(task=task) | TaskEnded(task=task):
                self.line(*_task_words(task))
            case Retrying() | HookRan() | Noticed() | CallProgress():
                self._aside(happened)
            case TurnEnded(turn=turn) if self._is_own(happened):
                self.end(turn)
            case AskEnded():
                self._break()
            case _:
                pass

    def _aside(self, happened: Retrying | HookRan | Noticed | CallProgress) -> None:
        match happened:
            case CallProgress(progress=progress):
                self._progressed(progress)
            case Retrying(retry=retry):
                self.line(_retry_words(retry), "yellow")
            case HookRan(run=run):
                if self._full:
                    self._hook(run)
            case Noticed(notice=notice):
                self.line(notice.text, _LEVELS[notice.level])

    def _progressed(self, progress: ToolProgress) -> None:
        """How long a call has run, and the last line that it printed, while its own line is open."""
        if progress.call_id == self._running:
            self._last_line = last_line(str(progress.data.get("output", ""))) or self._last_line
            self._paper.passing(f" {progress.elapsed_ms // 1000} s  {self._last_line}".rstrip())

    def line(self, text: str, colour: Colour | None = None) -> None:
        """One line, or several, of its own."""
        self._break()
        self._paper.aside(f"{text}\n", colour)

    def end(self, turn: Turn) -> None:
        """How a turn ended, as far as it is not plain to see."""
        self._break()
        for denial in turn.denials:
            if (denial.tool, denial.reason) in self._refused:
                continue
            rule = denial.allow_with
            hint = f" The rule {rule} would allow it." if rule and rule not in denial.reason else ""
            why = denial.reason if denial.reason.endswith((".", "!", "?")) else f"{denial.reason}."
            self.line(f"✗ {denial.tool} was refused: {why}{hint}", "yellow")
        if turn.reason == "failed":
            self.line(f"✗ The turn failed: {(turn.error or {}).get('message', 'nobody knows why')}", "red")
        elif turn.reason not in {"completed", None}:
            self.line(f"✗ The turn ended: {_REASONS.get(str(turn.reason), turn.reason)}.", "yellow")
        if self._full:
            self.line(_usage_words(turn.usage, turn), "dim")

    def _is_own(self, happened: TurnEvent) -> bool:
        """An agent's words are for the model that asked for them."""
        return happened.event.session_id in {None, self._session_id}

    def _break(self) -> None:
        self._running = None
        self._paper.fresh()

    def _piece(self, piece: MessageDelta, colour: Colour | None) -> None:
        place = (piece.message_id, piece.index)
        told = self._told.get(place, 0)
        if piece.offset != told:
            return  # something was dropped in between; the whole message will tell it
        if told == 0 or self._running is not None:
            self._break()
        self._paper.words(piece.text, colour)
        self._told[place] = told + len(piece.text)

    def _rest_of(self, message: Message) -> None:
        for index, block in enumerate(message.content):
            told = self._told.pop((message.id, index), 0)
            if isinstance(block, TextBlock) and self._words:
                self._rest(block.text, told, None)
            elif isinstance(block, ThinkingBlock) and self._full:
                self._rest(block.thinking, told, "dim")

    def _rest(self, text: str, told: int, colour: Colour | None) -> None:
        if text[told:]:
            if told == 0 or self._running is not None:
                self._break()
            self._paper.words(text[told:], colour)
        if self._running is None:  # a call may run before its message is whole, and its line is still open then
            self._paper.fresh()

    def _aborted(self, message: Message) -> None:
        places = [place for place in self._told if place[0] == message.id]
        for place in places:
            del self._told[place]
        if places:
            self.line("(That answer broke off and does not count.)", "dim")

    def _started(self, call: Call) -> None:
        self._break()
        self._paper.aside(f"{_call_words(call)} …", "cyan")
        self._running, self._last_line = call.call_id, ""

    def _completed(self, call: Call) -> None:
        if self._running != call.call_id:
            self._break()
            self._paper.aside(_call_words(call), "cyan")
        self._running = None
        took = f" {call.duration_ms / 1000:.1f} s" if call.duration_ms is not None else ""
        denied = call.decision is not None and call.decision.behavior == "deny"
        refused = self._refusal(call.tool, call.decision) if call.decision is not None and denied else ""
        sign = "✗" if call.is_error else "✓"
        self._paper.aside(f" {sign}{took}{refused}\n", "red" if call.is_error else "green")
        if not denied and (self._full or call.is_error):
            self._result(call)

    def _refusal(self, tool: str, decision: Decision) -> str:
        """Where a person said no, that and their words; what else the model is told about it is not for people."""
        if decision.by != "person":
            return ""
        reason = decision.reason or ""
        self._refused.add((tool, reason))
        return " refused" if not reason or reason.startswith(_NO_WORDS) else f" refused: {reason}"

    def _result(self, call: Call) -> None:
        texts = [str(block.get("text", "")) for block in call.content or []]
        lines = [line for text in texts for line in _without_tags(text).splitlines()]
        for line in lines[:_RESULT_LINES]:
            self._paper.aside(f"  {shortened(line, _LINE_WIDTH)}\n", "red" if call.is_error else "dim")
        self._more(len(lines) - _RESULT_LINES)

    def _hook(self, run: HookRun) -> None:
        colour: Colour = "dim" if run.outcome in {"passed", "allowed"} else "yellow"
        came = f"{run.outcome.replace('_', ' ')} {run.duration_ms / 1000:.1f} s"
        self.line(f"⚑ {run.event} hook {fit(run.shown, _SUMMARY_WIDTH)} … {came}", colour)
        for line in f"{run.error or ''}\n{run.stderr}".strip("\n").splitlines()[:_RESULT_LINES]:
            self._paper.aside(f"  {shortened(line, _LINE_WIDTH)}\n", colour)

    def _changed(self, change: FileChange) -> None:
        self.line(f"± {change.path}", "bold")
        lines = patch_lines(change.patch or "")
        for text, colour in lines[:_DIFF_LINES]:
            self._paper.aside(f"  {shortened(text, _LINE_WIDTH)}\n", colour)
        self._more(len(lines) - _DIFF_LINES)

    def _more(self, lines: int) -> None:
        if lines > 0:
            self._paper.aside(f"  … {counted(lines, 'line')} more\n", "dim")


def _call_words(call: Call) -> str:
    indent = "  " if call.parent_call_id else ""
    words = call.summary if call.summary.startswith(f"{call.tool} ") else f"{call.tool} {call.summary}"
    return f"{indent}● {fit(words, _SUMMARY_WIDTH)}"


def _task_words(task: Task) -> tuple[str, Colour]:
    about = fit(task.command or task.description, _SUMMARY_WIDTH)
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


def _without_tags(text: str) -> str:
    """An error without what tells the model that it is one."""
    return text.removeprefix("<tool_use_error>").removesuffix("</tool_use_error>")


def _retry_words(retry: ModelRetry) -> str:
    why = retry.error.get("message") or retry.error.get("code") or "no reason given"
    again = f"Again in {retry.wait_ms / 1000:.1f} s ({retry.attempt} of {retry.max_retries})."
    return f"… The model did not answer: {why} {again}"


def _usage_words(usage: Usage, turn: Turn) -> str:
    cost = f", ${usage.cost_usd}" if usage.cost_usd is not None else ""
    sent = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    did = f"{counted(turn.model_requests, 'request')}, {counted(turn.tool_calls, 'call')}"
    return f"{did}, {sent} tokens in, {usage.output_tokens} out{cost}"


def last_line(printed: str) -> str:
    """What stands at the end; a line that is drawn again and again begins anew at each return."""
    return printed.rstrip().rpartition("\n")[2].rpartition("\r")[2].strip()


_REASONS: Final = {
    "interrupted": "it was interrupted",
    "max_requests": "it made as many requests to the model as it may",
    "budget": "its budget is used up",
    "timeout": "its time is over",
    "schema": "the answer does not fit the schema",
    "stopped_by_hook": "a hook stopped it",
}
