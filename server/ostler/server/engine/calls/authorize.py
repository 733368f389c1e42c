"""Authorizes a call: validation, hooks, the permission chain of ten steps, and the ask to the people."""

import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Final, TypeVar

import anyio
import orjson
from pydantic import TypeAdapter

from ostler.protocol import times
from ostler.protocol.ask import Allow as Allowed
from ostler.protocol.ask import Answer, Decline, Deny, DenyAlways, Reject
from ostler.protocol.errors import AskResolved
from ostler.protocol.shapes import Ask, Call, Decision
from ostler.server.classifier import Opinion, Question
from ostler.server.engine.asks.asks import (
    CLASSIFIER_PREFIX,
    HOOK_PREFIX,
    TurnAsks,
    build_hook_answer,
    build_permission_ask,
    ends_turn,
    get_changed_input,
    has_words,
)
from ostler.server.engine.asks.classification import Classification, EarlyClassification
from ostler.server.engine.asks.people import build_people_ask, describe_refusal, take_answer, translate_refusal
from ostler.server.engine.calls.call_run import CallRun
from ostler.server.engine.calls.call_writer import CallWriter
from ostler.server.engine.calls.parse_input import BadInput, parse_input
from ostler.server.engine.calls.stages import Parsed, set_input
from ostler.server.engine.permissions.decide import (
    Case,
    Verdict,
    decide,
    find_denial,
    uses_classifier,
)
from ostler.server.engine.permissions.rule_match import needs_subject
from ostler.server.engine.session.hooks import SessionHooks
from ostler.server.engine.session.live import LiveSession
from ostler.server.engine.session.turn_state import BY_HOOK, BY_REFUSAL, TurnState
from ostler.server.hooks import NO_OUTCOME, Outcome
from ostler.tools.call_subject import find_rule_text, find_subject
from ostler.tools.context import ToolContext
from ostler.tools.permissions.subject import Subject, TextSubject
from ostler.tools.text import cut_text
from ostler.tools.threads import read_in_thread
from ostler.tools.tool import Allow, AskPeople, Check, Pass, Refuse

T = TypeVar("T")
_NOTIFY_AFTER_SECONDS: Final = 2
"""How long Notification hooks wait for the classifier, which may settle the ask."""
_SHOWN_CHARS: Final = 2000
"""How many characters of a changed input the model is shown."""


@cache
def _build_answers() -> TypeAdapter[Answer]:
    """Built when the first ask is answered."""
    return TypeAdapter(Answer)


class CallFailed(Exception):
    """A step ended the call; the message is for the model, the tool's own error code for clients."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


class Denied(Exception):
    """Permission was refused; the words are the result that the model gets."""

    def __init__(self, verdict: Verdict, words: str) -> None:
        self.verdict = verdict
        self.words = words


@dataclass(frozen=True, slots=True)
class Authorizer:
    """Steps 3 to 5 of a call: validation, hooks, permission. Each takes the call as parsed, and returns it."""

    session: LiveSession
    asks: TurnAsks
    state: TurnState
    writer: CallWriter
    expire_seconds: float | None

    async def authorize(self, run: CallRun, parsed: Parsed, context: ToolContext) -> Parsed:
        """The call as it may run; raises CallFailed or Denied where it may not."""
        if run.ask is not None:
            run.spans.begin("ask")
            async with self.session.lend_slot():
                ask: Ask | None = await self._wait_again(run.ask, parsed, context)
        else:
            run.spans.begin("validate")
            # Before the tool's own checks: what a rule denies is told as denied, whatever else is wrong with it.
            await self._refuse_denied(parsed)
            await self._validate(parsed, context)
            run.spans.begin("hooks_before")
            early = await self._prepare_early(parsed, context)
            deciding = self._decide(run, parsed, context, early.classification if early else None)
            parsed, ask = await (deciding if early is None else _run_beside(deciding, early.run))
        if ask is None:
            return parsed
        run.spans.begin("permission")
        return await self._apply_answer(run, parsed, context, ask)

    async def _decide(
        self, run: CallRun, parsed: Parsed, context: ToolContext, classification: Classification | None
    ) -> tuple[Parsed, Ask | None]:
        """Steps 4 and 5: the call as hooks and the tool leave it, and the settled ask where one was needed."""
        parsed, outcome = await self._run_pre_hooks(run, parsed, context)
        run.spans.begin("permission")
        check = await parsed.tool.check_permission(parsed.input, context)
        if isinstance(check, Allow) and check.input is not None:
            changed = check.input.model_dump(mode="json", by_alias=True, exclude_unset=True)
            parsed = self._replace_input(run, parsed, changed)
            await self._validate(parsed, context)
        if classification is None or classification.question != self._build_question(parsed):
            classification = self._build_classification(parsed)
        case = await self._build_case(parsed, check, outcome, classification)
        verdict = await decide(case, self.session.permission)
        parsed = run.reach(replace(parsed, call=parsed.call.changed(decision=verdict.to_decision())))
        if verdict.behavior == "deny":
            raise Denied(verdict, f"Permission to use {parsed.tool.name} was denied. {verdict.reason}")
        if verdict.behavior == "allow":
            return parsed, None
        if isinstance(check, AskPeople):
            # Whatever asks for it, a rule or a hook: a bare yes would be no answer.
            return await self._ask_for_answer(run, parsed, context, check)
        return await self._ask_permission(run, parsed, context, verdict, classification if verdict.classifies else None)

    async def _run_pre_hooks(self, run: CallRun, parsed: Parsed, context: ToolContext) -> tuple[Parsed, Outcome]:
        """Step 4: PreToolUse hooks."""
        if not self.session.hooks.has_hooks_for("PreToolUse", parsed.tool.name):
            return parsed, NO_OUTCOME
        firing = SessionHooks(self.session, parsed.call.turn_id).fire_for_call("PreToolUse", parsed.call)
        outcome = run.notes.add(await firing)
        if outcome.changed_input is not None and outcome.changed_input != parsed.call.input:
            parsed = self._replace_input(run, parsed, dict(outcome.changed_input))
            await self._validate(parsed, context)
        return parsed, outcome

    # The classifier: beside the hooks, and beside the people.

    async def _prepare_early(self, parsed: Parsed, context: ToolContext) -> EarlyClassification | None:
        """The question to the classifier, to be asked while hooks run; None where there are none, or it has no say."""
        tool, permission = parsed.tool, self.session.permission
        if not self.session.hooks.has_hooks_for("PreToolUse", tool.name) or not uses_classifier(tool, permission):
            return None
        classification = self._build_classification(parsed)
        if classification is None:
            return None
        case = await self._build_case(parsed, await tool.check_permission(parsed.input, context))
        return EarlyClassification(classification, case, permission)

    def _build_classification(self, parsed: Parsed) -> Classification | None:
        question = self._build_question(parsed)
        return Classification(question, self.session.classifier) if question is not None else None

    async def _settle_by_classifier(
        self, ask: Ask, classification: Classification, parsed: Parsed, context: ToolContext
    ) -> None:
        """Settle the ask where the opinion is a clear yes: a no is for people to say outside of mode auto."""
        opinion = await classification.classify()
        if opinion.behavior != "allow" or not await self._still_asks(classification, parsed, context):
            classification.left_to_people.set()
            return
        with contextlib.suppress(AskResolved):  # a person was faster
            why = ask.changed(reason=opinion.reason)
            await self.asks.resolve(why, Allowed(), f"{CLASSIFIER_PREFIX}{opinion.model}")

    async def _still_asks(self, classification: Classification, parsed: Parsed, context: ToolContext) -> bool:
        """Rules and mode may have changed while it thought: it settles only what it would settle now."""
        check = await parsed.tool.check_permission(parsed.input, context)
        unasked = Classification(classification.question, self.session.classifier)
        case = await self._build_case(parsed, check, NO_OUTCOME, unasked)
        verdict = await decide(replace(case, is_classified=lambda: False), self.session.permission)
        return verdict.classifies

    async def _wait_again(self, ask: Ask, parsed: Parsed, context: ToolContext) -> Ask:
        """Wait for an ask from before a restart; the classifier may settle it where it might have before."""
        waiting = self.asks.wait(ask)
        decision = parsed.call.decision
        # What a rule, a hook or safety asked about is none of its business: only the end of the chain is.
        if ask.status != "open" or decision is None or decision.by != "default":
            return await waiting
        classification = self._build_classification(parsed)
        if classification is None or not uses_classifier(parsed.tool, self.session.permission):
            return await waiting
        return await _run_beside(waiting, partial(self._settle_by_classifier, ask, classification, parsed, context))

    async def _build_case(
        self,
        parsed: Parsed,
        check: Check,
        outcome: Outcome = NO_OUTCOME,
        classification: Classification | None = None,
    ) -> Case:
        tool = parsed.tool
        subject: Subject = TextSubject(find_rule_text(tool, parsed.input))
        if needs_subject(self.session.rules, tool) or tool.shell.writes_files(parsed.input):
            subject = await find_subject(tool, parsed.input, self.session.view)
        case = Case(tool, parsed.input, check, subject, outcome, judge_grants=self._build_grant_judge(parsed))
        if classification is None:
            return case
        return replace(case, classify=classification.classify, is_classified=classification.is_there)

    def _build_grant_judge(self, parsed: Parsed) -> Callable[[], Awaitable[Opinion]] | None:
        """Asks the small model whether the call is meant by what was approved with a plan; it remembers the answer."""
        grants = self.session.permission.grants
        question = self._build_question(parsed) if grants else None
        if question is None:
            return None
        # What the person said last is no part of it: they approved this before.
        return partial(self.session.classifier.consider, replace(question, last_input="", granted=grants))

    def _build_question(self, parsed: Parsed) -> Question | None:
        tool = parsed.tool
        text = tool.classifier_text(parsed.input)
        if not text:
            return None
        view = self.session.view
        return Question(
            tool=tool.name,
            text=text,
            folder=view.shell_folder,
            roots=view.roots,
            # An agent's input is a model's: what the person wants stands at the top.
            last_input=self._find_person_input(),
            read_only=tool.is_read_only(parsed.input),
            # For commands the classifier has a table of its own, which knows more about the paths than the text says.
            destructive=not tool.shell.runs_commands and tool.is_destructive(parsed.input),
        )

    def _find_person_input(self) -> str:
        state = self.session.root.usage_meter.state
        return state.input_text if self.session.parent is not None and state is not None else self.state.input_text

    async def _validate(self, parsed: Parsed, context: ToolContext) -> None:
        failure = await parsed.tool.validate(parsed.input, context)
        if failure is not None:
            raise CallFailed(failure.message, failure.code or None)

    # The people.

    async def _ask_for_answer(
        self, run: CallRun, parsed: Parsed, context: ToolContext, check: AskPeople
    ) -> tuple[Parsed, Ask]:
        """Ask the people what only they can say."""
        parsed = run.reach(replace(parsed, call=parsed.call.changed(status="waiting")))
        ask = build_people_ask(parsed.call, check, self.session.record, self.expire_seconds)
        return parsed, await self._put(run, parsed, context, ask, None)

    async def _ask_permission(
        self,
        run: CallRun,
        parsed: Parsed,
        context: ToolContext,
        verdict: Verdict,
        classification: Classification | None,
    ) -> tuple[Parsed, Ask]:
        """Ask the people, and the classifier where it has a say; returns the ask when it is settled."""
        parsed = run.reach(replace(parsed, call=parsed.call.changed(status="waiting")))
        tool = parsed.tool
        bound_to = await tool.shell.bound_to(parsed.input, self.session.view)
        # Not on the event loop: this parses the whole command.
        destructive = await read_in_thread(tool.is_destructive, parsed.input)
        record, limit = self.session.record, self.expire_seconds
        ask = build_permission_ask(
            parsed.call, tool, verdict, record, limit, destructive=destructive, bound_to=bound_to
        )
        return parsed, await self._put(run, parsed, context, ask, classification)

    async def _put(
        self,
        run: CallRun,
        parsed: Parsed,
        context: ToolContext,
        ask: Ask,
        classification: Classification | None,
    ) -> Ask:
        """Open the ask, and wait until somebody has settled it."""
        if (agent := self.session.agent) is not None:
            ask = ask.changed(agent=agent.shown)
        draft, known = self.writer.take_unwritten(run)
        run.spans.begin("ask")
        asking = self.asks.ask(ask, parsed.call, draft, queued=known)
        # Hooks, the classifier and people are asked at the same time: the first answer counts.
        others: list[Callable[[], Coroutine[Any, Any, None]]] = []
        hooks = self.session.hooks
        if hooks.has_hooks_for("PermissionRequest", parsed.tool.name) or hooks.has_hooks_for("Notification"):
            others.append(partial(self._ask_hooks, run, parsed, ask, classification))
        if classification is not None:
            others.append(partial(self._settle_by_classifier, ask, classification, parsed, context))
        async with self.session.lend_slot():
            return await (_run_beside(asking, *others) if others else asking)
        raise AssertionError("the wait is left by its result, or by an exception")

    async def _ask_hooks(self, run: CallRun, parsed: Parsed, ask: Ask, classification: Classification | None) -> None:
        """Resolve the ask where a PermissionRequest hook answers it; else tell Notification hooks of it."""
        hooks = SessionHooks(self.session, parsed.call.turn_id)
        outcome = run.notes.add(await hooks.fire_for_call("PermissionRequest", parsed.call))
        answer = translate_refusal(ask.kind, build_hook_answer(outcome))
        if answer is None:
            if classification is not None:
                # Nobody is called to the screen for what the classifier settles in a moment.
                with anyio.move_on_after(_NOTIFY_AFTER_SECONDS):
                    await classification.left_to_people.wait()
            await hooks.fire("Notification", notification_type="permission_prompt", message=ask.message)
            return
        with contextlib.suppress(AskResolved):  # a person was faster
            await self.asks.resolve(ask, answer, f"{HOOK_PREFIX}{outcome.by}")

    async def _apply_answer(self, run: CallRun, parsed: Parsed, context: ToolContext, ask: Ask) -> Parsed:
        """Apply the answer to an ask; returns the call as it may run, or raises."""
        if ask.status == "cancelled" or ask.answer is None:
            raise CallFailed("Cancelled before anybody answered.")
        answer = _build_answers().validate_python(ask.answer)
        by = ask.answered_by or "somebody"
        if isinstance(answer, Deny | DenyAlways):
            raise self._build_denial(ask, answer)
        if isinstance(answer, Decline | Reject):
            words = describe_refusal(ask, answer)
            decision = Decision(
                behavior="deny",
                by="time limit" if ask.status == "expired" else "hook" if by.startswith(HOOK_PREFIX) else "person",
                source=by,
                reason=answer.message or words,
                decided_at=ask.answered_at or times.now(),
            )
            run.reach(replace(parsed, call=parsed.call.changed(decision=decision)))
            raise CallFailed(words)
        who = "hook" if by.startswith(HOOK_PREFIX) else "classifier" if by.startswith(CLASSIFIER_PREFIX) else "person"
        rule, at = getattr(answer, "rule", None), ask.answered_at or times.now()
        reason = ask.reason if who == "classifier" else None
        source = by.removeprefix(CLASSIFIER_PREFIX)
        decision = Decision(behavior="allow", by=who, rule=rule, source=source, reason=reason, decided_at=at)
        answered = replace(parsed, call=parsed.call.changed(decision=decision), answer=take_answer(ask, answer))
        parsed = run.reach(answered)
        if who != "classifier":
            self.session.classifier.reset_denials()
        changed = get_changed_input(answer)
        if run.ask is not None and changed in (None, parsed.call.input):
            # The ask is from before a restart: its input is validated only now that somebody has answered.
            await self._validate(parsed, context)
        if changed is not None and changed != parsed.call.input:
            parsed = self._replace_input(run, parsed, changed, by_person=who == "person")
            if parsed.changed_by_person:
                run.notes.texts.append(_describe_change(parsed.call))
            await self._validate(parsed, context)
            # The tool checks the new input; a person has said yes to it, so only a refusal of the tool counts.
            check = await parsed.tool.check_permission(parsed.input, context)
            if isinstance(check, Refuse):
                raise Denied(Verdict("deny", "tool", check.reason), check.reason)
        elif ask.bound_to is not None and ask.bound_to != await parsed.tool.shell.bound_to(
            parsed.input, self.session.view
        ):
            raise CallFailed(
                "Its folder, a script or a server of it is another one than when it was allowed. Ask again."
            )
        # Hours may have passed: a deny rule that was added meanwhile counts.
        await self._refuse_denied(parsed)
        return parsed

    async def _refuse_denied(self, parsed: Parsed) -> None:
        """Raises Denied where a deny rule forbids the call for certain."""
        if not self.session.rules.denies_anything:
            return  # to find out what a call touches takes time
        denied = find_denial(await self._build_case(parsed, Pass()), self.session.permission)
        if denied is not None:
            raise Denied(denied, f"Permission to use {parsed.tool.name} was denied. {denied.reason}")

    def _build_denial(self, ask: Ask, answer: Deny | DenyAlways) -> Denied:
        hook = (ask.answered_by or "").startswith(HOOK_PREFIX)
        by = "time limit" if ask.status == "expired" else "hook" if hook else "person"
        self.session.classifier.reset_denials()
        if ask.status == "expired":
            words = "Nobody answered in time, which counts as a no. Go on without it, or say what you need."
        elif has_words(answer):
            words = f"{'A hook' if hook else 'The person'} said no to this call, in these words: {answer.message}"
        else:
            words = "The person said no to this call. Do not try the same in another way."
        if self.session.agent is not None:
            words += " Do what can be done without it, and report back what could not be done."
        if ask.status == "resolved" and self._ends_turn(answer):
            self.state.halt("interrupted", BY_HOOK if hook else BY_REFUSAL)
        allow_with = ask.suggestions[0].rule if ask.suggestions else None
        reason = answer.message if has_words(answer) else None
        at = ask.answered_at
        verdict = Verdict("deny", by, reason or words, source=ask.answered_by, allow_with=allow_with, decided_at=at)
        return Denied(verdict, words)

    def _ends_turn(self, answer: Deny | DenyAlways) -> bool:
        """A no without words ends the turn; that of an agent only where the person says so: it is to report back."""
        return answer.interrupt is True if self.session.agent is not None else ends_turn(answer)

    def _replace_input(
        self, run: CallRun, parsed: Parsed, as_json: dict[str, Any], *, by_person: bool = False
    ) -> Parsed:
        """The call with another input: the schema is checked again, and so is its concurrency safety."""
        try:
            changed_input, repaired = parse_input(parsed.tool, as_json)
        except BadInput as error:
            raise CallFailed(str(error)) from None
        self.session.journal.calls.keep_as_queued(parsed.call)
        changed = replace(set_input(parsed.tool, changed_input, parsed.call, repaired), changed_by_person=by_person)
        run.slot.safe = changed.is_safe
        return run.reach(changed)


def _describe_change(call: Call) -> str:
    # The history keeps the input that the model wrote: without this note it would take the result for that one's.
    as_json = orjson.dumps(call.input).decode()
    shown = cut_text(as_json, _SHOWN_CHARS)
    return f"The person changed the input of the {call.tool} call {call.tool_use_id} before allowing it, to: {shown}"


async def _run_beside(main: Awaitable[T], *others: Callable[[], Coroutine[Any, Any, Any]]) -> T:
    """Await `main` while others run, which are cancelled when it is done."""
    done: list[T] = []
    failed: Exception | None = None
    async with anyio.create_task_group() as group:
        for other in others:
            group.start_soon(other)
        try:
            done.append(await main)
        except Exception as error:  # noqa: BLE001 - raised below, as it is: in a group it would be hidden
            failed = error
        group.cancel_scope.cancel()
    if failed is not None:
        raise failed
    return done[0]
