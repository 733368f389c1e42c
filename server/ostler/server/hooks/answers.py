"""Parses what one hook said, its exit code and its output, into an answer. Never raises, whatever it printed."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from ostler.server.hooks.events import BLOCKING_EVENTS, CONTEXT_EVENTS, DECIDING_EVENTS, FEEDBACK_EVENTS
from ostler.server.hooks.types import Decision, ReplacedOutput

MAX_CHARS: Final = 10_000
"""Of words for the model, each."""
_STRICTNESS: Final[dict[Decision | None, int]] = {None: 0, "allow": 1, "ask": 2, "deny": 3}
_NO_REASON: Final = "A hook said no, without a reason."


@dataclass(frozen=True, slots=True)
class HookOutput:
    """A hook that came to its end."""

    stdout: str
    stderr: str = ""
    exit_code: int = 0


@dataclass(frozen=True, slots=True)
class HookFailure:
    """A hook that did not come to its end, or whose end says nothing."""

    error: str
    timed_out: bool = False
    stdout: str = ""
    stderr: str = ""
    exit_code: int | None = None


Reply = HookOutput | HookFailure


@dataclass(frozen=True, slots=True)
class Answer:
    """One hook's answer."""

    decision: Decision | None = None
    reason: str = ""
    changed_input: Mapping[str, Any] | None = None
    context: tuple[str, ...] = ()
    stop: str | None = None
    block: str | None = None
    interrupt: bool = False
    replaced_output: ReplacedOutput | None = None
    message: str | None = None
    failure: str | None = None
    """What is wrong with the answer; the rest of it counts."""
    hides_output: bool = False


def pick_stricter(one: Decision | None, other: Decision | None) -> Decision | None:
    return max(one, other, key=_STRICTNESS.__getitem__)


def read_answer(event: str, reply: Reply) -> Answer:
    match reply:
        case HookFailure(error=error):
            return Answer(failure=error)
        case HookOutput(exit_code=0):
            return _read_output(event, reply.stdout)
        case HookOutput(exit_code=2):
            return build_refusal(event, reply.stderr)
        case HookOutput():
            return Answer(failure=f"it ended with exit code {reply.exit_code}{_format_first_words(reply.stderr)}")


def build_refusal(event: str, words: str) -> Answer:
    """A refusal, in the form that this event has for it."""
    words = truncate(words.strip()) or _NO_REASON
    if event in DECIDING_EVENTS:
        return Answer(decision="deny", reason=words)
    if event in BLOCKING_EVENTS:
        return Answer(block=words)
    if event in FEEDBACK_EVENTS:
        return Answer(context=(words,))
    return Answer(message=words)


def truncate(text: str) -> str:
    return text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}… ({len(text) - MAX_CHARS} characters left out)"


def _format_first_words(stderr: str) -> str:
    words = " ".join(stderr.split())
    return f": {words[:200]}" if words else ""


def _read_output(event: str, stdout: str) -> Answer:
    text = stdout.strip()
    if text.startswith("{"):
        try:
            found = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            return Answer(failure=f"what it printed begins like JSON and is none: {error}")
        return _read_object(event, found)
    if text and event in CONTEXT_EVENTS:
        return Answer(context=(truncate(text),))
    return Answer()


def _read_object(event: str, found: Mapping[str, Any]) -> Answer:
    """The fields that are known; the others are ignored."""
    general = _read_general(event, found)
    specific = found.get("hookSpecificOutput")
    if specific is None:
        return general
    if not isinstance(specific, Mapping):
        return _mark_not_understood(event, general, "hookSpecificOutput is no object")
    if specific.get("hookEventName", event) != event:
        return _mark_not_understood(event, general, f"hookSpecificOutput is not for {event}")
    return _read_specific(event, specific, general)


def _read_general(event: str, found: Mapping[str, Any]) -> Answer:
    answer = _read_old_decision(event, found)
    stop = None
    if found.get("continue") is False:
        stop = _as_text(found.get("stopReason")) or "A hook stopped the work."
    return replace(
        answer,
        stop=stop,
        message=_as_text(found.get("systemMessage")) or answer.message,
        hides_output=found.get("suppressOutput") is True,
    )


def _read_old_decision(event: str, found: Mapping[str, Any]) -> Answer:
    reason = _as_text(found.get("reason"))
    match found.get("decision"):
        case None:
            return Answer()
        case "block":
            return build_refusal(event, reason)
        case "approve":
            return Answer(decision="allow", reason=reason) if event in DECIDING_EVENTS else Answer()
        case other:
            return _mark_not_understood(event, Answer(), f"there is no decision {str(other)[:50]!r}")


def _read_specific(event: str, found: Mapping[str, Any], answer: Answer) -> Answer:
    context = _as_text(found.get("additionalContext"))
    answer = replace(answer, context=(*answer.context, context) if context else answer.context)
    match event:
        case "PreToolUse":
            answer = _read_permission(event, found, answer)
            return _apply_input(event, answer, found.get("updatedInput"))
        case "PermissionRequest":
            return _read_request(event, found.get("decision"), answer)
        case "PostToolUse" if "updatedMCPToolOutput" in found:
            return replace(answer, replaced_output=ReplacedOutput(found["updatedMCPToolOutput"]))
        case _:
            return answer


def _read_permission(event: str, found: Mapping[str, Any], answer: Answer) -> Answer:
    reason = _as_text(found.get("permissionDecisionReason"))
    match found.get("permissionDecision"):
        case None:
            return answer
        case "allow" | "ask" | "deny" as decision:
            return _apply_decision(answer, decision, reason)
        case other:
            return _mark_not_understood(event, answer, f"there is no permissionDecision {str(other)[:50]!r}")


def _read_request(event: str, decision: Any, answer: Answer) -> Answer:
    if decision is None:
        return answer
    if not isinstance(decision, Mapping):
        return _mark_not_understood(event, answer, "decision is no object")
    match decision.get("behavior"):
        case "allow":
            return _apply_input(event, _apply_decision(answer, "allow", ""), decision.get("updatedInput"))
        case "deny":
            denied = _apply_decision(answer, "deny", _as_text(decision.get("message")))
            return replace(denied, interrupt=decision.get("interrupt") is True)
        case other:
            return _mark_not_understood(event, answer, f"there is no behavior {str(other)[:50]!r}")


def _apply_decision(answer: Answer, decision: Decision, reason: str) -> Answer:
    """The stricter one, where a hook answers in the old form and in the new one."""
    if pick_stricter(answer.decision, decision) == answer.decision:
        return answer
    words = reason or (_NO_REASON if decision == "deny" else "")
    return replace(answer, decision=decision, reason=words)


def _apply_input(event: str, answer: Answer, changed: Any) -> Answer:
    if changed is None:
        return answer
    if not isinstance(changed, Mapping):
        return _mark_not_understood(event, answer, "updatedInput is no object")
    return replace(answer, changed_input=changed)


def _mark_not_understood(event: str, answer: Answer, failure: str) -> Answer:
    """An answer that is not understood allows nothing, and a person looks at the call."""
    answer = replace(answer, failure=answer.failure or failure)
    if event in DECIDING_EVENTS and pick_stricter(answer.decision, "ask") == "ask":
        return replace(answer, decision="ask", reason=f"A hook's answer was not understood: {failure}.")
    return answer


def _as_text(given: Any) -> str:
    return truncate(given.strip()) if isinstance(given, str) else ""
