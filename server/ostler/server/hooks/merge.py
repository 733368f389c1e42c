"""Merges the answers of all hooks of one event into one outcome: the strictest decision wins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ostler.server.hooks.answers import Answer, HookFailure, Reply, pick_stricter
from ostler.server.hooks.types import Decision, Hook, HookRun, Outcome, RunOutcome

KEPT_CHARS: Final = 10_000
"""Of what a hook printed, in a stored run."""
_DECISION_OUTCOMES: Final[dict[Decision, RunOutcome]] = {"allow": "allowed", "ask": "asked", "deny": "denied"}


@dataclass(frozen=True, slots=True)
class AnsweredHook:
    """A hook that was run, and what came of it."""

    hook: Hook
    reply: Reply
    answer: Answer
    duration_ms: int


def build_answered_hook(hook: Hook, reply: Reply, answer: Answer, duration_ms: int) -> AnsweredHook:
    """A hook that was run, and its answer; a policy's hook that failed denies the call."""
    if hook.must_run and answer.failure is not None and answer.decision != "deny":
        words = f"A hook of the policy could not be run, which counts as a no: {answer.failure}"
        answer = replace(answer, decision="deny", reason=words, changed_input=None)
    return AnsweredHook(hook, reply, answer, duration_ms)


def merge(tool_input: Mapping[str, Any], several: Sequence[AnsweredHook]) -> Outcome:
    """In the order of declaration; `tool_input` is the input of the call, empty where there is none."""
    changed, disputed = _merge_input(tool_input, several)
    decision, reason, by = _merge_decision(tool_input, tool_input if changed is None else changed, several)
    if disputed and decision not in {"ask", "deny"}:
        decision, reason, by = "ask", f"Hooks change {', '.join(disputed)} in different ways.", "hooks"
    answers = [each.answer for each in several]
    return Outcome(
        decision=decision,
        reason=reason,
        by=by,
        changed_input=changed,
        context=tuple(words for answer in answers for words in answer.context),
        stop=next((answer.stop for answer in answers if answer.stop), None),
        block="\n".join(answer.block for answer in answers if answer.block) or None,
        interrupt=any(answer.interrupt for answer in answers if answer.decision == "deny"),
        replaced_output=next((answer.replaced_output for answer in reversed(answers) if answer.replaced_output), None),
        messages=tuple(answer.message for answer in answers if answer.message),
        warnings=tuple(_format_warning(each) for each in several if each.answer.failure is not None),
        runs=tuple(_build_run(each) for each in several),
    )


def _merge_decision(
    tool_input: Mapping[str, Any], merged: Mapping[str, Any], several: Sequence[AnsweredHook]
) -> tuple[Decision | None, str, str]:
    decision: Decision | None = None
    reason = by = ""
    for each in several:
        found = each.answer.decision
        # An allow is about the input that the hook saw or made, and not about what another hook made of it.
        meant = tool_input if each.answer.changed_input is None else each.answer.changed_input
        if found == "allow" and meant != merged:
            continue
        if pick_stricter(decision, found) != decision:
            decision, reason, by = found, each.answer.reason, each.hook.label
    return decision, reason, by


def _merge_input(
    tool_input: Mapping[str, Any], several: Sequence[AnsweredHook]
) -> tuple[Mapping[str, Any] | None, tuple[str, ...]]:
    """Every change counts, the last one of each parameter; and the parameters about which the hooks do not agree."""
    changes: dict[str, Any] = {}
    disputed: list[str] = []
    for each in several:
        if each.answer.changed_input is None:
            continue
        for name, value in _diff_input(tool_input, each.answer.changed_input).items():
            if name in changes and changes[name] != value:
                disputed.append(name)
            changes[name] = value
    if not changes:
        return None, ()
    merged = {**tool_input, **changes}
    return {name: value for name, value in merged.items() if value is not _REMOVED}, tuple(dict.fromkeys(disputed))


_REMOVED: Final = object()


def _diff_input(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    removed = {name: _REMOVED for name in before if name not in after}
    return removed | {name: value for name, value in after.items() if name not in before or before[name] != value}


def _format_warning(each: AnsweredHook) -> str:
    return f"The {each.hook.label} ({each.hook.shown}) failed: {each.answer.failure}."


def _build_run(each: AnsweredHook) -> HookRun:
    hook, reply = each.hook, each.reply
    return HookRun(
        event=hook.event,
        hook=hook.name,
        source=hook.source,
        file=hook.file,
        kind=hook.kind,
        shown=hook.shown,
        outcome=_classify_outcome(each),
        duration_ms=each.duration_ms,
        exit_code=reply.exit_code if hook.kind == "command" else None,
        stdout="" if each.answer.hides_output else reply.stdout[:KEPT_CHARS],
        stderr=reply.stderr[:KEPT_CHARS],
        error=each.answer.failure,
    )


def _classify_outcome(each: AnsweredHook) -> RunOutcome:
    match each.reply, each.answer:
        case HookFailure(timed_out=True), _:
            return "timed_out"
        case _, Answer(failure=str()):
            return "failed"
        case _, Answer(stop=str()):
            return "stopped"
        case _, Answer(decision=str(decision)):
            return _DECISION_OUTCOMES[decision]
        case _, Answer(block=str()):
            return "blocked"
        case _:
            return "passed"
