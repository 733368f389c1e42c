"""The next message: decided from the request alone, so that the same request always gets the same answer.

Only what it suggests to people depends on the folder, too.
"""

import hashlib
from collections import deque
from dataclasses import dataclass
from typing import Any, Final

from ostler.server.models.provider import ModelRequest
from ostler.server.models.rehearsal import speech
from ostler.server.models.rehearsal.actions import Action, Call, Pause, Speech, Thought
from ostler.server.models.rehearsal.conversation import read_capabilities, read_since_last_input
from ostler.server.models.rehearsal.progress import Outcome, Progress, replay_progress
from ostler.server.models.rehearsal.summary import is_summary_wanted, summarize_history

_MAX_CALLS: Final = 10
_CHARS_PER_TOKEN: Final = 4
_BOOKKEEPING: Final = frozenset({"TaskCreate", "TaskUpdate", "EnterPlanMode", "ExitPlanMode"})


@dataclass(frozen=True, slots=True)
class TextPart:
    text: str


@dataclass(frozen=True, slots=True)
class ThinkingPart:
    text: str
    signature: str


@dataclass(frozen=True, slots=True)
class PausePart:
    seconds: float


@dataclass(frozen=True, slots=True)
class ToolUsePart:
    id: str
    tool: str
    input: dict[str, Any]


ReplyPart = TextPart | ThinkingPart | PausePart | ToolUsePart


@dataclass(frozen=True, slots=True)
class Reply:
    id: str
    parts: list[ReplyPart]
    input_tokens: int
    """An estimate: four characters each."""

    @property
    def has_calls(self) -> bool:
        return any(isinstance(part, ToolUsePart) for part in self.parts)


def build_reply(request: ModelRequest) -> Reply:
    if is_summary_wanted(request.messages):
        size = sum(len(message) for message in request.messages)
        text = summarize_history(request.messages)
        return Reply("msg_rehearsal_summary", [TextPart(text)], max(1, size // _CHARS_PER_TOKEN))
    progress = replay_progress(read_since_last_input(request.messages), read_capabilities(request))
    size = len(request.system) + len(request.tools) + sum(len(message) for message in request.messages)
    # The number of messages makes ids unique within a session; the last message does so after a rewind, too.
    digest = hashlib.sha256(request.messages[-1] if request.messages else b"").hexdigest()[:8]
    unique = f"{len(request.messages)}_{digest}"
    return Reply(f"msg_rehearsal_{unique}", _build_parts(progress, unique), max(1, size // _CHARS_PER_TOKEN))


def _build_parts(progress: Progress, unique: str) -> list[ReplyPart]:
    before: list[Action] = []
    while progress.pending and not isinstance(progress.pending[0], Call):
        before.append(progress.pending.popleft())
    calls = _select_calls(progress.pending)
    parts = [] if calls else _summarize(progress)
    parts += [part for action in before for part in _render_action(action)]
    if calls:
        parts.append(TextPart(speech.announce_calls([call.description for call in calls], again=calls[0].again)))
        parts += [ToolUsePart(f"toolu_rehearsal_{unique}_{at}", call.tool, call.input) for at, call in enumerate(calls)]
    return _merge_parts(parts) or [TextPart(speech.NOTHING_TO_DO)]


def _select_calls(pending: deque[Action]) -> list[Call]:
    """The next calls: several only where they may run beside each other, and none needs the result of another."""
    calls: list[Call] = []
    for action in pending:
        if not isinstance(action, Call) or len(calls) == _MAX_CALLS:
            break
        if calls and not (calls[-1].is_parallel and action.is_parallel and action.join != "after"):
            break
        calls.append(action)
    return calls


def _render_action(action: Action) -> list[ReplyPart]:
    match action:
        case Speech(text):
            return [TextPart(text)]
        case Thought(text):
            signature = hashlib.sha256(text.encode()).hexdigest()
            return [ThinkingPart(text, signature)]
        case Pause(seconds):
            return [PausePart(seconds)]
        case Call():
            return []


def _summarize(progress: Progress) -> list[ReplyPart]:
    lines = [_describe_outcome(outcome) for outcome in progress.outcomes if not _is_bookkeeping(outcome)]
    if written := sum(outcome.call.tool == "TaskCreate" and _is_bookkeeping(outcome) for outcome in progress.outcomes):
        lines.append(speech.describe_list(written))
    if progress.outcomes and not lines:
        lines.append(speech.ALL_DONE)
    if progress.left_out:
        lines.append(speech.describe_left_out(progress.left_out))
    return [TextPart(line[:1].upper() + line[1:]) for line in lines]


def _is_bookkeeping(outcome: Outcome) -> bool:
    """It went well, and nobody needs to be told: the list and the plan are shown where they stand."""
    return outcome.status == "done" and outcome.call.tool in _BOOKKEEPING


def _describe_outcome(outcome: Outcome) -> str:
    description, text = outcome.call.description, outcome.text
    match outcome.status:
        case "done":
            return speech.describe_result(outcome.call.tool, description, text)
        case "denied":
            return speech.describe_denial(description, text)
        case "interrupted":
            return speech.describe_interruption(description)
        case "failed":
            return speech.describe_failure(description, text)


def _merge_parts(parts: list[ReplyPart]) -> list[ReplyPart]:
    """Sentences that follow one another are one block; thoughts come first, as the API has them."""
    merged: list[ReplyPart] = []
    for part in sorted(parts, key=lambda part: not isinstance(part, ThinkingPart)):
        before = merged[-1] if merged else None
        if isinstance(part, TextPart) and not part.text.strip():
            continue
        if isinstance(part, TextPart) and isinstance(before, TextPart):
            merged[-1] = TextPart(f"{before.text}\n\n{part.text}")
        else:
            merged.append(part)
    return merged
