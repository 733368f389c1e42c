"""The answers of all hooks of one moment, as one: the strictest decision wins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ostler.server.hooks.answers import Answer, Broke, Reply, stricter
from ostler.server.hooks.types import Decision, Hook, HookRun, Outcome, Word

KEPT_CHARS: Final = 10_000
"""Of what a hook printed, in a stored run."""
_DECIDED: Final[dict[Decision, Word]] = {"allow": "allowed", "ask": "asked", "deny": "denied"}


@dataclass(frozen=True, slots=True)
class Answered:
    """A hook that was run, and what came of it."""

    hook: Hook
    reply: Reply
    answer: Answer
    duration_ms: int


def answered(hook: Hook, reply: Reply, answer: Answer, duration_ms: int) -> Answered:
    """Where a policy's hook did not give its word, the call does not go on."""
    if hook.must_run and answer.failure is not None and answer.decision != "deny":
        words = f"A hook of the policy could not be run, which counts as a no: {answer.failure}"
        answer = replace(answer, decision="deny", reason=words, changed_input=None)
    return Answered(hook, reply, answer, duration_ms)


def merge(given: Mapping[str, Any], several: Sequence[Answered]) -> Outcome:
    """In the order of declaration; `given` is the input of the call, empty where there is none."""
    changed, disputed = _merged_input(given, several)
    decision, reason, by = _decision(given, given if changed is None else changed, several)
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
        warnings=tuple(_warning(each) for each in several if each.answer.failure is not None),
        runs=tuple(_run(each) for each in several),
    )


def _decision(
    given: Mapping[str, Any], merged: Mapping[str, Any], several: Sequence[Answered]
) -> tuple[Decision | None, str, str]:
    decision: Decision | None = None
    reason = by = ""
    for each in several:
        found = each.answer.decision
        # A yes is about the input that the hook saw or made, and not about what another hook made of it.
        meant = given if each.answer.changed_input is None else each.answer.changed_input
        if found == "allow" and meant != merged:
            continue
        if stricter(decision, found) != decision:
            decision, reason, by = found, each.answer.reason, each.hook.label
    return decision, reason, by


def _merged_input(
    given: Mapping[str, Any], several: Sequence[Answered]
) -> tuple[Mapping[str, Any] | None, tuple[str, ...]]:
    """Every change counts, the last one of each parameter; and the parameters about which the hooks do not agree."""
    changes: dict[str, Any] = {}
    disputed: list[str] = []
    for each in several:
        if each.answer.changed_input is None:
            continue
        for name, value in _difference(given, each.answer.changed_input).items():
            if name in changes and changes[name] != value:
                disputed.append(name)
            changes[name] = value
    if not changes:
        return None, ()
    merged = {**given, **changes}
    return {name: value for name, value in merged.items() if value is not _REMOVED}, tuple(dict.fromkeys(disputed))


_REMOVED: Final = object()


def _difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    removed = {name: _REMOVED for name in before if name not in after}
    return removed | {name: value for name, value in after.items() if name not in before or before[name] != value}


def _warning(each: Answered) -> str:
    return f"The {each.hook.label} ({each.hook.shown}) failed: {each.answer.failure}."


def _run(each: Answered) -> HookRun:
    hook, reply = each.hook, each.reply
    return HookRun(
        event=hook.event,
        hook=hook.name,
        source=hook.source,
        file=hook.file,
        kind=hook.kind,
        shown=hook.shown,
        outcome=_word(each),
        duration_ms=each.duration_ms,
        exit_code=reply.exit_code if hook.kind == "command" else None,
        stdout="" if each.answer.hides_output else reply.stdout[:KEPT_CHARS],
        stderr=reply.stderr[:KEPT_CHARS],
        error=each.answer.failure,
    )


def _word(each: Answered) -> Word:
    match each.reply, each.answer:
        case Broke(timed_out=True), _:
            return "timed_out"
        case _, Answer(failure=str()):
            return "failed"
        case _, Answer(stop=str()):
            return "stopped"
        case _, Answer(decision=str(decision)):
            return _DECIDED[decision]
        case _, Answer(block=str()):
            return "blocked"
        case _:
            return "passed"
