"""Asks that only people can answer, since a bare yes says nothing: how they are built, checked and told."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, assert_never

from ostler.protocol import times
from ostler.protocol.ask import Accept, Answer, Approve, Decline, Deny, GiveAnswers, Reject
from ostler.protocol.errors import InvalidParams, ModeForbidden
from ostler.protocol.ids import new_ask_id
from ostler.protocol.session import Mode
from ostler.protocol.shapes import Ask, AskedCall, AskKind, Call
from ostler.storage.repositories.sessions import SessionRecord
from ostler.tools.context import PeopleAnswer, PlanApproval
from ostler.tools.permissions.plan_file import find_plan_problem
from ostler.tools.tool import AskPeople, PlanProposal, Questions


def build_people_ask(call: Call, check: AskPeople, session: SessionRecord, expire_seconds: float | None) -> Ask:
    """The ask for what only people can say about a call."""
    now = datetime.now(UTC)
    ask = Ask(
        id=new_ask_id(),
        session_id=session.id,
        root_id=session.root_id,
        turn_id=call.turn_id,
        kind="question",
        status="open",
        call=AskedCall(call_id=call.call_id, tool=call.tool, input=call.input, summary=call.summary),
        message=check.message,
        choices=["answer", "decline"],
        opened_at=times.format_time(now),
        expires_at=times.format_time(now + timedelta(seconds=expire_seconds)) if expire_seconds else None,
    )
    match check.about:
        case Questions(questions):
            return ask.changed(questions=list(questions))
        case PlanProposal(plan, path, allowed_prompts):
            facts = {"plan": plan, "path": path, "allowed_prompts": list(allowed_prompts)}
            return ask.changed(kind="plan", choices=["approve", "reject"], **facts)
        case _:
            assert_never(check.about)


def take_answer(ask: Ask, answer: Answer) -> PeopleAnswer | None:
    """What the tool is given of an answer; None where it is a mere yes."""
    match answer:
        case GiveAnswers():
            return answer
        case Approve(plan=plan, mode=mode):
            shown = ask.plan or ""
            # What was shown is what was approved, whatever the file says by now.
            return PlanApproval(shown if plan is None else plan, edited=plan not in {None, shown}, mode=mode)
        case _:
            return None


def check_approval(answer: Approve, resolve_mode: Callable[[Mode], Mode]) -> None:
    """Check a plan that a person changed, and the mode that they want. Raises InvalidParams."""
    if answer.plan is not None and (problem := find_plan_problem(answer.plan.encode("utf-8", "replace"))):
        raise InvalidParams.of("answer.plan", f"cannot be taken: {problem}")
    if answer.mode == "plan":
        raise InvalidParams.of("answer.mode", "is plan, in which nothing could be done: name another, or none")
    if answer.mode is not None and resolve_mode(answer.mode) != answer.mode:
        raise ModeForbidden(f"The mode {answer.mode} is not allowed here.", mode=answer.mode)


def check_form(schema: dict[str, Any], given: Accept) -> None:
    """Check what a person filled in against what the server asked for. Raises InvalidParams."""
    # Imported here: few daemons ever need it.
    import jsonschema_rs  # noqa: PLC0415

    try:
        found = jsonschema_rs.validator_for(schema, offline=True)
        first = next(found.iter_errors(given.content or {}), None)
    except (ValueError, jsonschema_rs.ReferencingError):
        return  # the server's schema is none: it says itself what it makes of the answer
    if first is not None:
        where = ".".join(map(str, first.instance_path))
        raise InvalidParams.of(
            f"answer.content{'.' if where else ''}{where}", f"is not what is asked for: {first.message}"
        )


def check_answers(questions: Sequence[dict[str, Any]], given: GiveAnswers) -> None:
    """Check answers against the questions. Raises InvalidParams."""
    by_text = {str(question["question"]): question for question in questions}
    for field, texts in (("answers", given.answers), ("notes", given.notes)):
        for text in texts:
            if text not in by_text:
                raise InvalidParams.of(
                    f"answer.{field}", f"has {text!r}, and the questions are {', '.join(map(repr, by_text))}"
                )
    for text, words in given.answers.items():
        if any(not word.strip() for word in words):
            raise InvalidParams.of("answer.answers", f"has a blank answer to {text!r}: leave it out")
        if len(words) > 1 and not by_text[text].get("multiSelect"):
            raise InvalidParams.of("answer.answers", f"has {len(words)} answers to {text!r}, which takes one")
    if not any(given.answers.values()):
        raise InvalidParams.of("answer.answers", "has none; `decline` is the answer of somebody who does not answer")


def translate_refusal(kind: AskKind, answer: Answer | None) -> Answer | None:
    """What a hook decided, as an answer to this kind of ask: it can refuse for people, and never answer for them."""
    if kind not in {"question", "plan"}:
        return answer
    if not isinstance(answer, Deny):
        return None
    return Reject(message=answer.message) if kind == "plan" else Decline(message=answer.message)


def describe_refusal(ask: Ask, answer: Decline | Reject) -> str:
    """What the model is told where people did not answer, or not agree."""
    late, words = ask.status == "expired", (answer.message or "").strip()
    if ask.kind == "plan":
        said = "Nobody answered in time, which counts as a no." if late else "The person said no to this plan."
        said = f"The person said no to this plan, in these words: {words}" if words else said
        return f"{said}\nYou are still in plan mode: change the plan in {ask.path}, and call ExitPlanMode again."
    if late:
        return "Nobody answered in time. Go on without the answer, and say what you have assumed."
    if words:
        return f"The person did not choose an answer, and said: {words}"
    return "The person does not want to answer. Go on without, or say what you cannot do without it."
