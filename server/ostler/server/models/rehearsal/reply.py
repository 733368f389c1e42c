"""The next message: decided from the request alone, so that the same request always gets the same answer."""

import hashlib
from collections import deque
from dataclasses import dataclass
from typing import Any, Final

from ostler.server.models.provider import ModelRequest
from ostler.server.models.rehearsal import speech
from ostler.server.models.rehearsal.actions import Action, Call, Pause, Speech, Thought
from ostler.server.models.rehearsal.conversation import means_of, since_last_input
from ostler.server.models.rehearsal.progress import Outcome, Progress, progress_of

_MAX_CALLS: Final = 10
_CHARS_PER_TOKEN: Final = 4


@dataclass(frozen=True, slots=True)
class Words:
    text: str


@dataclass(frozen=True, slots=True)
class Thinking:
    text: str
    signature: str


@dataclass(frozen=True, slots=True)
class Silence:
    seconds: float


@dataclass(frozen=True, slots=True)
class ToolUse:
    id: str
    tool: str
    input: dict[str, Any]


Part = Words | Thinking | Silence | ToolUse


@dataclass(frozen=True, slots=True)
class Reply:
    id: str
    parts: list[Part]
    input_tokens: int
    """An estimate: four characters each."""

    @property
    def calls(self) -> bool:
        return any(isinstance(part, ToolUse) for part in self.parts)


def reply_to(request: ModelRequest) -> Reply:
    progress = progress_of(since_last_input(request.messages), means_of(request))
    size = len(request.system) + len(request.tools) + sum(len(message) for message in request.messages)
    # The number of messages makes ids unique within a session; the last message does so after a rewind, too.
    digest = hashlib.sha256(request.messages[-1] if request.messages else b"").hexdigest()[:8]
    unique = f"{len(request.messages)}_{digest}"
    return Reply(f"msg_rehearsal_{unique}", _parts(progress, unique), max(1, size // _CHARS_PER_TOKEN))


def _parts(progress: Progress, unique: str) -> list[Part]:
    before: list[Action] = []
    while progress.pending and not isinstance(progress.pending[0], Call):
        before.append(progress.pending.popleft())
    calls = _batch(progress.pending)
    parts = [] if calls else _summary(progress)
    parts += [part for action in before for part in _spoken(action)]
    if calls:
        parts.append(Words(speech.preface([call.doing for call in calls], again=calls[0].again)))
        parts += [ToolUse(f"toolu_rehearsal_{unique}_{at}", call.tool, call.input) for at, call in enumerate(calls)]
    return _merged(parts) or [Words(speech.NOTHING_TO_DO)]


def _batch(pending: deque[Action]) -> list[Call]:
    """The next calls: several only where none of them changes anything or needs the result of another."""
    calls: list[Call] = []
    for action in pending:
        if not isinstance(action, Call) or len(calls) == _MAX_CALLS:
            break
        if calls and not (calls[-1].looks and action.looks and action.join != "after"):
            break
        calls.append(action)
    return calls


def _spoken(action: Action) -> list[Part]:
    match action:
        case Speech(text):
            return [Words(text)]
        case Thought(text):
            signature = hashlib.sha256(text.encode()).hexdigest()
            return [Thinking(text, signature)]
        case Pause(seconds):
            return [Silence(seconds)]
        case Call():
            return []


def _summary(progress: Progress) -> list[Part]:
    told = [_told(outcome) for outcome in progress.outcomes]
    if progress.left_out:
        told.append(speech.left_out(progress.left_out))
    return [Words(line[:1].upper() + line[1:]) for line in told]


def _told(outcome: Outcome) -> str:
    doing, text = outcome.call.doing, outcome.text
    match outcome.fate:
        case "done":
            return speech.told(outcome.call.tool, doing, text)
        case "denied":
            return speech.denied(doing, text)
        case "interrupted":
            return speech.interrupted(doing)
        case "failed":
            return speech.failed(doing, text)


def _merged(parts: list[Part]) -> list[Part]:
    """Sentences that follow one another are one block; thoughts come first, as the API has them."""
    merged: list[Part] = []
    for part in sorted(parts, key=lambda part: not isinstance(part, Thinking)):
        before = merged[-1] if merged else None
        if isinstance(part, Words) and not part.text.strip():
            continue
        if isinstance(part, Words) and isinstance(before, Words):
            merged[-1] = Words(f"{before.text}\n\n{part.text}")
        else:
            merged.append(part)
    return merged
